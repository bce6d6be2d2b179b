package mapping

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

func (c *directCompiler) call(f *gojq.Func) (direct, bool) {
	if f.Name[0] == '$' {
		return c.variable(f.Name)
	}
	args := make([]direct, len(f.Args))
	for i, a := range f.Args {
		d, ok := c.query(a)
		if !ok {
			return direct{}, false
		}
		args[i] = d
	}
	id := f.Name + "/" + strconv.Itoa(len(args))
	if d, ok := ofFilter(id, args); ok {
		return d, true
	}
	if slices.ContainsFunc(args, func(d direct) bool { return d.one == nil }) {
		return direct{}, false
	}
	fn, ok := c.lib.added[f.Name]
	call := fn.call
	if how := c.lib.builtins[id]; !ok && how.kind == replaced {
		call, ok = how.call, true
	}
	if own := plainFunction(id); !ok && own != nil {
		call, ok = own, true
	}
	return applied(call, func(m *machine, in any) ([]any, bool) { return oneEachOf(m, in, args) }), ok
}

// ofFilter are the functions of jq whose argument is run as often as they like.
func ofFilter(id string, args []direct) (direct, bool) {
	switch id {
	case "empty/0":
		return direct{many: func(*machine, any, func(any) bool) bool { return true }}, true
	case "select/1":
		return direct{many: func(m *machine, in any, to func(any) bool) bool {
			return args[0].each(m, in, func(v any) bool { return !truthy(v) || to(in) })
		}}, true
	case "map/1":
		each := piped(iteration(false), args[0])
		return direct{one: func(m *machine, in any) (any, bool) { return collected(m, each, in) }}, true
	case "add/1":
		return applied(fnAdd, func(m *machine, in any) ([]any, bool) {
			list, ok := collected(m, args[0], in)
			return []any{list}, ok
		}), true
	}
	return direct{}, false
}

// plainFunction is a function of jq that gojq has its own of; nil for others. What
// it does not take is left to gojq's.
func plainFunction(id string) callFunc {
	switch id {
	case "not/0":
		return func(_ *run, in any, _ []any) (any, error) { return !truthy(in), nil }
	case "type/0":
		return func(_ *run, in any, _ []any) (any, error) { return gojq.TypeOf(in), nil }
	case "length/0":
		return plainLength
	case "ascii_downcase/0":
		return textual(func(s, _ string) any { return strings.Map(asciiLower, s) })
	case "ascii_upcase/0":
		return textual(func(s, _ string) any { return strings.Map(asciiUpper, s) })
	case "ltrimstr/1":
		return textual(func(s, t string) any { return strings.TrimPrefix(s, t) })
	case "rtrimstr/1":
		return textual(func(s, t string) any { return strings.TrimSuffix(s, t) })
	case "startswith/1":
		return textual(func(s, t string) any { return strings.HasPrefix(s, t) })
	case "endswith/1":
		return textual(func(s, t string) any { return strings.HasSuffix(s, t) })
	}
	return nil
}

func textual(f func(s, t string) any) callFunc {
	return func(r *run, in any, args []any) (any, error) {
		s, ok := in.(string)
		if !ok {
			return nil, errNotPlain
		}
		t := ""
		if len(args) > 0 {
			if t, ok = args[0].(string); !ok {
				return nil, errNotPlain
			}
		}
		return f(s, t), r.text(len(s))
	}
}

func plainLength(_ *run, in any, _ []any) (any, error) {
	switch v := in.(type) {
	case nil:
		return 0, nil
	case []any:
		return len(v), nil
	case map[string]any:
		return len(v), nil
	}
	return nil, errNotPlain
}

// errNotPlain is never told: gojq has the words.
var errNotPlain = errors.New("not plain")

func asciiLower(r rune) rune {
	if 'A' <= r && r <= 'Z' {
		return r + 'a' - 'A'
	}
	return r
}

func asciiUpper(r rune) rune {
	if 'a' <= r && r <= 'z' {
		return r - 'a' + 'A'
	}
	return r
}
