package field

import (
	"fmt"
	"slices"
	"strings"
)

// Locate finds the field that an environment variable's name (without its prefix) means: levels are separated by two underscores, capital letters and
// small ones are the same, and any character of a name that a variable cannot hold is written as one underscore. Names chosen by the
// user are looked up in tree; one that is not there is new and becomes small letters. The error says what to do, and nil path and nil
// error mean that no field has that name.
func Locate(root Fielder, tree *Node, name string) ([]string, error) {
	l := &locator{}
	l.set(Declare(root), tree, name, nil)
	switch len(l.found) {
	case 0:
		return nil, l.err
	case 1:
		return l.found[0], nil
	}
	var paths []string
	for _, p := range l.found {
		paths = append(paths, PathString(p))
	}
	return nil, fmt.Errorf("could mean %s; give the value in the file", strings.Join(paths, " or "))
}

type locator struct {
	found [][]string
	err   error // why a field that was reached cannot be set
}

// EnvName writes a name as environment variables have it.
func EnvName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z' || r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
}

// next tells whether name begins with the level key, and what follows it. last means that nothing does.
func next(name, key string) (rest string, last, ok bool) {
	k, n := EnvName(key), strings.ToUpper(name)
	if n == k {
		return "", true, true
	}
	if strings.HasPrefix(n, k+"__") && len(name) > len(k)+2 {
		return name[len(k)+2:], false, true
	}
	return "", false, false
}

func (l *locator) set(s *Set, n *Node, name string, path []string) {
	for _, f := range s.fields {
		if rest, last, ok := next(name, f.Name); ok {
			l.field(f, child(n, f.Name), rest, last, append(slices.Clip(path), f.Name))
		}
	}
	if v := s.variant; v != nil {
		if on := child(n, v.on); on != nil && on.Kind == Scalar {
			if f, ok := v.pick(on.Text); ok {
				l.set(Declare(f), n, name, path)
			}
		}
	}
}

func child(n *Node, name string) *Node {
	if e := n.Entry(name); e != nil {
		return e.Value
	}
	return nil
}

func (l *locator) field(f *Field, n *Node, rest string, last bool, path []string) {
	switch f.Kind {
	case KindStruct:
		if last {
			l.refuse(f, path)
			return
		}
		l.set(f.Sub(), n, rest, path)
	case KindStructText:
		if last {
			l.found = append(l.found, path)
			return
		}
		l.set(f.Sub(), n, rest, path)
	case KindMap, KindStringMap:
		if last {
			l.refuse(f, path)
			return
		}
		l.entry(f, n, rest, path)
	case KindList, KindAny:
		l.refuse(f, path)
	default:
		if last {
			l.found = append(l.found, path)
		}
	}
}

func (l *locator) refuse(f *Field, path []string) {
	switch f.Kind {
	case KindList, KindAny:
		l.err = fmt.Errorf("%s cannot be given by the environment; give it in the file", PathString(path))
	default:
		l.err = fmt.Errorf("%s is a mapping; add two underscores and the name of one of its keys", PathString(path))
	}
}

// entry goes on at a name that the user chose: one of the tree, or else a new one.
func (l *locator) entry(f *Field, n *Node, name string, path []string) {
	known := false
	if n != nil {
		for _, e := range n.Entries {
			if rest, last, ok := next(name, e.Key); ok {
				known = true
				l.below(f, e.Value, rest, last, append(slices.Clip(path), e.Key))
			}
		}
	}
	if known {
		return
	}
	key, rest, more := strings.Cut(name, "__")
	if key != "" {
		l.below(f, nil, rest, !more, append(slices.Clip(path), strings.ToLower(key)))
	}
}

func (l *locator) below(f *Field, n *Node, rest string, last bool, path []string) {
	switch {
	case f.Kind == KindStringMap && last:
		l.found = append(l.found, path)
	case f.Kind == KindMap && last:
		l.refuse(f, path)
	case f.Kind == KindMap:
		l.set(f.Sub(), n, rest, path)
	}
}

// EnvNames lists the names of all fields that an environment variable could set, without prefix; of maps, the entries in tree.
func EnvNames(root Fielder, tree *Node) []string {
	return envNames(Declare(root), tree, "")
}

func envNames(s *Set, n *Node, prefix string) []string {
	var names []string
	for _, f := range s.fields {
		name, v := prefix+EnvName(f.Name), child(n, f.Name)
		switch f.Kind {
		case KindList, KindAny:
		case KindStruct, KindStructText:
			names = append(names, envNames(f.Sub(), v, name+"__")...)
		case KindMap:
			if v == nil {
				continue
			}
			for _, e := range v.Entries {
				names = append(names, envNames(f.Sub(), e.Value, name+"__"+EnvName(e.Key)+"__")...)
			}
		default:
			names = append(names, name)
		}
	}
	if v := s.variant; v != nil {
		if on := child(n, v.on); on != nil && on.Kind == Scalar {
			if f, ok := v.pick(on.Text); ok {
				names = append(names, envNames(Declare(f), n, prefix)...)
			}
		}
	}
	return names
}
