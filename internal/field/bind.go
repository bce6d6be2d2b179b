package field

import (
	"fmt"
	"slices"
	"strings"
)

// Bind reads the tree root into f, whose defaults are set first, and returns every problem found, in the order found.
func Bind(root *Node, f Fielder, r *Resolver) []Problem {
	b := &binder{list: newProblems(), resolver: r}
	b.mapping(Declare(f), f, root, place{node: root, pos: root.Pos})
	// Only now is every value known that must not be shown.
	for i := range b.list.list {
		b.list.list[i].Msg = r.Redact(b.list.list[i].Msg)
	}
	return b.list.list
}

type binder struct {
	list     *problems
	resolver *Resolver
}

// mapping reads a mapping into the fields declared in s, and lets f check itself.
func (b *binder) mapping(s *Set, f Fielder, n *Node, at place) {
	switch {
	case n == nil || n.Kind == Null:
		n = &Node{Kind: Mapping, Pos: at.pos}
	case n.Kind != Mapping:
		b.list.unreadable(at, "expected a mapping, not %s%s", what(n), s.hint())
		return
	}
	at.node = n
	known := map[string]bool{}
	b.fields(s, n, at, known)
	b.variant(s, n, at, known)
	b.unknown(n, at, known)
	if v, ok := f.(Validator); ok {
		v.Validate(&Report{at: at, list: b.list})
	}
}

// hint names the first fields of a mapping that was not given as one.
func (s *Set) hint() string {
	const most = 4
	var names []string
	for _, f := range s.fields {
		names = append(names, f.Name)
	}
	switch {
	case len(names) == 0:
		return ""
	case len(names) > most:
		names = append(names[:most], "…")
	}
	return "; its fields are " + strings.Join(names, ", ")
}

func (b *binder) fields(s *Set, n *Node, at place, known map[string]bool) {
	for _, f := range s.fields {
		known[f.Name] = true
		e := n.Entry(f.Name)
		switch {
		case e != nil:
			f.bind(b, f, e.Value, at.child(f.Name))
		case f.Required:
			b.list.unreadable(at.child(f.Name), "missing; %s", wanted(f))
		case f.proto != nil && f.Kind != KindMap && f.Kind != KindList:
			// A mapping that is left out still has fields to be required and checks to be made.
			f.bind(b, f, &Node{Kind: Null, Pos: at.pos}, at.child(f.Name))
		}
	}
}

func (b *binder) variant(s *Set, n *Node, at place, known map[string]bool) {
	v := s.variant
	if v == nil {
		return
	}
	e := n.Entry(v.on)
	if e == nil && !s.byName[v.on].Required {
		return
	}
	if e == nil || b.failed(at.child(v.on)) {
		// As long as the variant is not known, a key of any of them may be right.
		_, all := s.Variants()
		for _, x := range all {
			for _, f := range x.Set.fields {
				known[f.Name] = true
			}
		}
		return
	}
	f, ok := v.pick(e.Value.Text)
	if !ok {
		return
	}
	s2 := Declare(f)
	for _, x := range s2.fields {
		if known[x.Name] {
			panic(fmt.Sprintf("field: variant %q declares %q, which the mapping has already", e.Value.Text, x.Name))
		}
	}
	b.fields(s2, n, at, known)
	b.variant(s2, n, at, known)
	if c, ok := f.(Validator); ok {
		c.Validate(&Report{at: at, list: b.list})
	}
	v.set(f)
}

func (b *binder) failed(at place) bool { return b.list.failedBelow(at.path) }

func (b *binder) unknown(n *Node, at place, known map[string]bool) {
	names := make([]string, 0, len(known))
	for k := range known {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, e := range n.Entries {
		if known[e.Key] || len(at.path) == 0 && strings.HasPrefix(e.Key, "x-") {
			continue
		}
		c := at.child(e.Key)
		c.pos = e.KeyPos
		msg := "unknown key"
		if h := DidYouMean(e.Key, names); h != "" {
			msg += "; " + h
		}
		b.list.unreadable(c, "%s", msg)
	}
}

// wanted says what a missing field should be.
func wanted(f *Field) string {
	var s string
	switch {
	case len(f.Choices) > 0:
		s = "one of " + strings.Join(choiceNames(f.Choices), ", ")
	case f.Kind == KindSecret:
		s = "give it as ${env:NAME}, ${file:/path} or ${credential:name}"
	default:
		s = "give " + article(f.Type)
	}
	if f.Example != "" && !strings.Contains(f.Example, "\n") {
		s += ", for example " + f.Example
	}
	return s
}

func article(typ string) string {
	if strings.HasPrefix(typ, "true") || strings.HasPrefix(typ, "any") || strings.HasPrefix(typ, "text") {
		return typ
	}
	return "a " + typ
}

func choiceNames(cs []Choice) []string {
	names := make([]string, len(cs))
	for i, c := range cs {
		names[i] = c.Name
	}
	return names
}

// what names a node's kind for errors.
func what(n *Node) string {
	if n.Kind == Null && n.Text == "" {
		return "nothing"
	}
	if n.Kind == Null {
		return "null"
	}
	return n.Kind.String()
}

// scalarText returns the text of a scalar, or reports that something else stands there.
func (b *binder) scalarText(f *Field, n *Node, at place) (string, bool) {
	switch {
	case n.Kind == Scalar:
		return n.Text, true
	case n.Kind == Null && n.Text == "":
		b.list.unreadable(at, "no value; give %s, or take the key out", article(f.Type))
	case n.Kind == Null:
		b.list.unreadable(at, "expected %s, not null; quote it if the word is meant", article(f.Type))
	default:
		b.list.unreadable(at, "expected %s, not %s", article(f.Type), what(n))
	}
	return "", false
}

// expanded replaces references in a scalar's text. shown tells whether the text may appear in problems.
func (b *binder) expanded(n *Node, at place) (text string, shown, ok bool) {
	if n.Literal {
		// It may be a credential, as the value of a variable often is.
		return n.Text, false, true
	}
	text, found, err := b.resolver.expand(n.Text)
	if err != nil {
		b.list.unreadable(at, "%v", err)
		return "", false, false
	}
	return text, !found, true
}

func (b *binder) secret(f *Field, n *Node, at place, p *Secret) {
	const hint = "give it as ${env:NAME}, ${file:/path} or ${credential:name}"
	if n.Kind != Scalar {
		b.list.unreadable(at, "expected a reference to a secret, not %s; %s", what(n), hint)
		return
	}
	v := n.Text
	if n.Literal {
		b.resolver.Conceal(v)
	} else {
		ref, ok := b.resolver.reference(n.Text)
		if !ok {
			b.resolver.Conceal(n.Text)
			b.list.unreadable(at, "a secret must not stand in the file; %s", hint)
			return
		}
		var err error
		if v, err = b.resolver.resolve(ref); err != nil {
			b.list.unreadable(at, "%v", err)
			return
		}
	}
	if v == "" {
		b.list.unreadable(at, "the secret is empty; put a value where the reference points")
		return
	}
	*p = NewSecret(v)
}

func (b *binder) text(f *Field, n *Node, at place, p *Text) {
	t, ok := b.scalarText(f, n, at)
	if !ok {
		return
	}
	if t == "" && f.Required {
		b.list.unreadable(at, "empty; %s", wanted(f))
		return
	}
	*p = Text{Value: t, Pos: n.Pos, marks: n.Marks}
	if len(n.Marks) > 0 {
		p.Pos = n.Marks[0].Pos
	}
}

func (b *binder) strings(f *Field, n *Node, at place, p *[]string) {
	if n.Kind == Scalar && n.Literal {
		*p = nil
		for s := range strings.SplitSeq(n.Text, ",") {
			if s = strings.TrimSpace(s); s != "" {
				*p = append(*p, s)
			}
		}
		return
	}
	*p = nil
	b.eachItem(f, n, at, func(v *Node, at place) {
		if s, ok := b.plainText(f, v, at); ok {
			*p = append(*p, s)
		}
	})
}

func (b *binder) stringMap(f *Field, n *Node, at place, p *map[string]string) {
	b.eachEntry(f, n, at, func(key string, v *Node, at place) {
		if s, ok := b.plainText(f, v, at); ok {
			if *p == nil {
				*p = map[string]string{}
			}
			(*p)[key] = s
		}
	})
}

// plainText reads a text inside a list or map.
func (b *binder) plainText(f *Field, n *Node, at place) (string, bool) {
	one := &Field{Name: f.Name, Type: "text"}
	if _, ok := b.scalarText(one, n, at); !ok {
		return "", false
	}
	text, shown, ok := b.expanded(n, at)
	if !ok {
		return "", false
	}
	if f.Kind == KindStrings {
		if msg := f.refuse(text, shown); msg != "" {
			b.list.unreadable(at, "%s", msg)
			return "", false
		}
	}
	return text, true
}

func (b *binder) value(f *Field, n *Node, at place, p Value) {
	t, ok := b.scalarText(f, n, at)
	if !ok {
		return
	}
	if err := p.Set(t); err != nil {
		b.list.unreadable(at, "%s", withValue(err.Error(), t, !n.Literal))
	}
}

func (b *binder) structText(f *Field, s *Set, p TextFielder, n *Node, at place) {
	if n.Kind != Scalar {
		b.mapping(s, p, n, at)
		return
	}
	text, _, ok := b.expanded(n, at)
	if !ok {
		return
	}
	secret, how := "", ""
	if st, ok := p.(SecretTexter); ok && !n.Literal {
		if secret, how = st.TextSecret(n.Text); secret != "" {
			b.resolver.Conceal(secret)
		}
	}
	if err := p.FieldText(text); err != nil {
		b.list.unreadable(at, "%v", err)
		return
	}
	if secret != "" {
		b.list.unreadable(at, "a secret must not stand in the file; %s", how)
		return
	}
	if v, ok := p.(Validator); ok {
		v.Validate(&Report{at: at, list: b.list})
	}
}

func (b *binder) eachEntry(f *Field, n *Node, at place, each func(key string, v *Node, at place)) {
	if b.empty(f, n, at) {
		return
	}
	if n.Kind != Mapping {
		b.list.unreadable(at, "expected %s, not %s", article(f.Type), what(n))
		return
	}
	for _, e := range n.Entries {
		c := at.child(e.Key)
		if f.nameRule != nil && !f.nameRule.MatchString(e.Key) {
			c.pos = e.KeyPos
			b.list.unreadable(c, "the name %q cannot be used; expected %s", short(e.Key), f.NameWhat)
			// Its content is read all the same, to find every mistake at once.
		}
		each(e.Key, e.Value, c)
	}
}

// empty tells whether a list or a map holds nothing, and reports it if something is required.
func (b *binder) empty(f *Field, n *Node, at place) bool {
	if n.Kind == Scalar || n.Kind == Null && n.Text != "" || len(n.Entries)+len(n.Items) > 0 {
		return false
	}
	if f.Required {
		b.list.unreadable(at, "empty; %s", wanted(f))
	}
	return n.Kind == Null
}

func (b *binder) eachItem(f *Field, n *Node, at place, each func(v *Node, at place)) {
	if b.empty(f, n, at) {
		return
	}
	if n.Kind != Sequence {
		hint := ""
		if n.Kind == Scalar {
			hint = "; write [ ] around it, or - before each item"
		}
		b.list.unreadable(at, "expected a list, not %s%s", what(n), hint)
		return
	}
	at.node = n
	for i, v := range n.Items {
		each(v, at.item(i))
	}
}
