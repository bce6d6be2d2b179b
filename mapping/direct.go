package mapping

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Most mappings are straight on: paths, conditions, texts, calculations, objects
// and lists of them. gojq takes a machine with stacks and forks to each step of
// those; here they are Go functions put together once, which takes a quarter of
// the time.
//
// The rule: what is given here is what gojq would give, and whatever is not plain
// (a construct that is not among these, an error, an object iterated over, much
// work) is not decided here: the event is mapped by gojq from its beginning, which
// knows what to say. Operators and functions are the ones that gojq is given.

// direct is an expression. one is set where it gives one value always.
type direct struct {
	one  func(m *machine, in any) (v any, ok bool)
	many func(m *machine, in any, to func(any) bool) bool
}

// machine is what direct expressions run on.
type machine struct {
	run   *run
	slots []any // of the variables
	work  int   // elements gone through, commas passed and calls made
}

// maxWork keeps direct evaluation far from the limits of run.
const maxWork = 20_000

// each hands all values of d to to; false says that it could not, or was told to stop.
func (d direct) each(m *machine, in any, to func(any) bool) bool {
	if d.one == nil {
		return d.many(m, in, to)
	}
	v, ok := d.one(m, in)
	return ok && to(v)
}

// directProgram is a program that is evaluated without gojq.
type directProgram struct {
	body  direct
	slots int
}

// directly makes a program of an expression; nil where there is something in it
// that is gojq's.
func directly(src string, lib *library) *directProgram {
	q, err := gojq.Parse(src)
	if err != nil {
		return nil
	}
	c := directCompiler{lib: lib, scope: variables()}
	c.slots = len(c.scope)
	body, ok := c.query(q)
	if !ok {
		return nil
	}
	return &directProgram{body: body, slots: c.slots}
}

// directly maps the event without gojq. Where it says false, nothing has happened
// that counts: the event has an error, or is not to be decided here.
func (e *evaluation) directly(p *directProgram) (decided bool) {
	defer func() {
		if recover() != nil {
			decided = false
		}
	}()
	m := machine{run: e.run, slots: make([]any, p.slots)}
	m.slots[0], m.slots[1], m.slots[2] = e.event, e.meta, e.vars
	return p.body.each(&m, e.event, func(v any) bool { return e.output(v) == nil }) && e.run.check() == nil
}

type directCompiler struct {
	lib   *library
	scope []string // the variables in scope; "" where one has gone out of it
	slots int
}

func (c *directCompiler) query(q *gojq.Query) (direct, bool) {
	if q == nil || len(q.FuncDefs) > 0 {
		return direct{}, false
	}
	if q.Term != nil {
		return c.term(q.Term)
	}
	if q.Op == gojq.OpPipe && len(q.Patterns) > 0 {
		return c.bound(q)
	}
	l, ok := c.query(q.Left)
	if !ok {
		return l, false
	}
	r, ok := c.query(q.Right)
	if !ok {
		return r, false
	}
	switch q.Op {
	case gojq.OpPipe:
		return piped(l, r), true
	case gojq.OpComma:
		return direct{many: func(m *machine, in any, to func(any) bool) bool {
			m.work++
			return m.work <= maxWork && l.each(m, in, to) && r.each(m, in, to)
		}}, true
	case gojq.OpAlt:
		return alternative(l, r), true
	}
	if l.one == nil || r.one == nil {
		return direct{}, false
	}
	switch q.Op {
	case gojq.OpAnd, gojq.OpOr:
		return logical(l, r, q.Op == gojq.OpAnd), true
	}
	op, ok := c.lib.operators[q.Op]
	return direct{one: func(m *machine, in any) (any, bool) {
		x, ok := l.one(m, in)
		if !ok {
			return nil, false
		}
		y, ok := r.one(m, in)
		if !ok {
			return nil, false
		}
		v, err := op(m.run, x, y)
		return v, err == nil
	}}, ok
}

func truthy(v any) bool { return v != nil && v != false }

func piped(l, r direct) direct {
	if l.one != nil && r.one != nil {
		return direct{one: func(m *machine, in any) (any, bool) {
			v, ok := l.one(m, in)
			if !ok {
				return nil, false
			}
			return r.one(m, v)
		}}
	}
	return direct{many: func(m *machine, in any, to func(any) bool) bool {
		return l.each(m, in, func(v any) bool { return r.each(m, v, to) })
	}}
}

func alternative(l, r direct) direct {
	if l.one != nil && r.one != nil {
		return direct{one: func(m *machine, in any) (any, bool) {
			if v, ok := l.one(m, in); !ok || truthy(v) {
				return v, ok
			}
			return r.one(m, in)
		}}
	}
	return direct{many: func(m *machine, in any, to func(any) bool) bool {
		found := false
		ok := l.each(m, in, func(v any) bool {
			if !truthy(v) {
				return true
			}
			found = true
			return to(v)
		})
		return ok && (found || r.each(m, in, to))
	}}
}

func logical(l, r direct, and bool) direct {
	return direct{one: func(m *machine, in any) (any, bool) {
		v, ok := l.one(m, in)
		if !ok || truthy(v) != and {
			return !and, ok
		}
		v, ok = r.one(m, in)
		return truthy(v), ok
	}}
}

// bound is l as $x | r.
func (c *directCompiler) bound(q *gojq.Query) (direct, bool) {
	if len(q.Patterns) > 1 || q.Patterns[0].Name == "" {
		return direct{}, false
	}
	l, ok := c.query(q.Left)
	if !ok {
		return l, false
	}
	slot := len(c.scope)
	c.scope = append(c.scope, q.Patterns[0].Name)
	c.slots = max(c.slots, len(c.scope))
	r, ok := c.query(q.Right)
	c.scope = c.scope[:slot]
	if l.one != nil && r.one != nil {
		return direct{one: func(m *machine, in any) (any, bool) {
			v, ok := l.one(m, in)
			if !ok {
				return nil, false
			}
			m.slots[slot] = v
			return r.one(m, in)
		}}, ok
	}
	return direct{many: func(m *machine, in any, to func(any) bool) bool {
		return l.each(m, in, func(v any) bool {
			m.slots[slot] = v
			return r.each(m, in, to)
		})
	}}, ok
}

func (c *directCompiler) term(t *gojq.Term) (direct, bool) {
	d, ok := c.base(t)
	for i := 0; ok && i < len(t.SuffixList); i++ {
		s := t.SuffixList[i]
		optional := i+1 < len(t.SuffixList) && t.SuffixList[i+1].Optional
		switch {
		case s.Iter:
			d = piped(d, iteration(optional))
		case s.Index != nil:
			var at direct
			if at, ok = directIndex(s.Index, optional); ok {
				d = piped(d, at)
			}
		default:
			return direct{}, false
		}
		if optional {
			i++
		}
	}
	return d, ok
}

// iteration is .[], with what it cannot go through left out if that is optional.
func iteration(optional bool) direct {
	return direct{many: func(m *machine, in any, to func(any) bool) bool {
		list, ok := in.([]any)
		if !ok {
			_, object := in.(map[string]any)
			return optional && !object
		}
		if m.work += len(list); m.work > maxWork {
			return false
		}
		for _, v := range list {
			if !to(v) {
				return false
			}
		}
		return true
	}}
}

// directIndex is .x or .[n] of its input.
func directIndex(x *gojq.Index, optional bool) (direct, bool) {
	var at func(in any) (any, bool)
	name := x.Name
	if x.Str != nil {
		name = x.Str.Str
	}
	n, number := 0, false
	if x.Start != nil && !x.IsSlice {
		v, _ := literal(x.Start)
		n, number = v.(int)
	}
	switch {
	case x.IsSlice || x.Str != nil && x.Str.Queries != nil || x.Start != nil && !number:
		return direct{}, false
	case number:
		at = func(in any) (any, bool) {
			switch v := in.(type) {
			case nil:
				return nil, true
			case []any:
				if n < len(v) {
					return v[n], true
				}
				return nil, true
			}
			return nil, false
		}
	default:
		at = func(in any) (any, bool) {
			switch v := in.(type) {
			case nil:
				return nil, true
			case map[string]any:
				return v[name], true
			}
			return nil, false
		}
	}
	if !optional {
		return direct{one: func(_ *machine, in any) (any, bool) { return at(in) }}, true
	}
	return direct{many: func(_ *machine, in any, to func(any) bool) bool {
		v, ok := at(in)
		if _, text := in.(string); text && number { // of which gojq gives a letter
			return false
		}
		return !ok || to(v)
	}}, true
}

func given(v any) direct {
	return direct{one: func(*machine, any) (any, bool) { return v, true }}
}

func (c *directCompiler) base(t *gojq.Term) (direct, bool) {
	if v, ok := literal(&gojq.Query{Term: &gojq.Term{Type: t.Type, Number: t.Number, Str: t.Str}}); ok && !strings.ContainsAny(t.Number, ".eE") {
		return given(v), true
	}
	switch t.Type {
	case gojq.TermTypeIdentity:
		return direct{one: func(_ *machine, in any) (any, bool) { return in, true }}, true
	case gojq.TermTypeIndex:
		return directIndex(t.Index, false)
	case gojq.TermTypeQuery:
		return c.query(t.Query)
	case gojq.TermTypeString:
		return c.text(t.Str)
	case gojq.TermTypeIf:
		return c.choice(t.If)
	case gojq.TermTypeObject:
		return c.object(t.Object)
	case gojq.TermTypeArray:
		return c.array(t.Array.Query)
	case gojq.TermTypeFunc:
		return c.call(t.Func)
	}
	return direct{}, false
}

// text is a string with \( … ) parts.
func (c *directCompiler) text(s *gojq.String) (direct, bool) {
	parts := make([]direct, len(s.Queries))
	for i, q := range s.Queries {
		d, ok := c.query(q)
		if !ok || d.one == nil {
			return direct{}, false
		}
		parts[i] = d
	}
	return applied(fnConcat, func(m *machine, in any) ([]any, bool) {
		vs, ok := oneEachOf(m, in, parts)
		for i := range vs {
			v, err := fnText(m.run, vs[i], nil)
			vs[i], ok = v, ok && err == nil
		}
		return vs, ok
	}), true
}

// oneEachOf are the values of expressions that give one each.
func oneEachOf(m *machine, in any, ds []direct) (vs []any, ok bool) {
	if len(ds) == 0 {
		return nil, true
	}
	vs = make([]any, len(ds))
	for i, d := range ds {
		if vs[i], ok = d.one(m, in); !ok {
			return nil, false
		}
	}
	return vs, true
}

// applied is a function of this package on its arguments.
func applied(call callFunc, args func(m *machine, in any) ([]any, bool)) direct {
	return direct{one: func(m *machine, in any) (any, bool) {
		vs, ok := args(m, in)
		if m.work++; !ok || m.work > maxWork {
			return nil, false
		}
		v, err := call(m.run, in, vs)
		return v, err == nil
	}}
}

func (c *directCompiler) choice(i *gojq.If) (direct, bool) {
	cond, ok := c.query(i.Cond)
	if !ok || cond.one == nil {
		return direct{}, false
	}
	yes, ok := c.query(i.Then)
	if !ok {
		return direct{}, false
	}
	no := direct{one: func(_ *machine, in any) (any, bool) { return in, true }}
	switch {
	case len(i.Elif) > 0:
		no, ok = c.choice(&gojq.If{Cond: i.Elif[0].Cond, Then: i.Elif[0].Then, Elif: i.Elif[1:], Else: i.Else})
	case i.Else != nil:
		no, ok = c.query(i.Else)
	}
	if yes.one != nil && no.one != nil {
		return direct{one: func(m *machine, in any) (any, bool) {
			v, ok := cond.one(m, in)
			switch {
			case !ok:
				return nil, false
			case truthy(v):
				return yes.one(m, in)
			}
			return no.one(m, in)
		}}, ok
	}
	return direct{many: func(m *machine, in any, to func(any) bool) bool {
		v, ok := cond.one(m, in)
		switch {
		case !ok:
			return false
		case truthy(v):
			return yes.each(m, in, to)
		}
		return no.each(m, in, to)
	}}, ok
}

func (c *directCompiler) object(o *gojq.Object) (direct, bool) {
	names, values := make([]string, len(o.KeyVals)), make([]direct, len(o.KeyVals))
	for i, kv := range o.KeyVals {
		ok := true
		switch {
		case kv.KeyQuery != nil || kv.KeyString != nil && kv.KeyString.Queries != nil:
			return direct{}, false
		case kv.KeyString != nil:
			names[i] = kv.KeyString.Str
		default:
			names[i] = strings.TrimPrefix(kv.Key, "$")
		}
		switch {
		case kv.Val != nil:
			values[i], ok = c.query(kv.Val)
			ok = ok && !strings.HasPrefix(kv.Key, "$")
		case strings.HasPrefix(kv.Key, "$"):
			values[i], ok = c.variable(kv.Key)
		default:
			values[i], ok = directIndex(&gojq.Index{Name: names[i], Str: kv.KeyString}, false)
		}
		if !ok || values[i].one == nil || slices.Contains(names[:i], names[i]) {
			return direct{}, false
		}
	}
	return direct{one: func(m *machine, in any) (any, bool) {
		o := make(map[string]any, len(names))
		for i, name := range names {
			v, ok := values[i].one(m, in)
			if !ok {
				return nil, false
			}
			o[name] = v
		}
		return o, true
	}}, true
}

// array is [d], for q that may be nil.
func (c *directCompiler) array(q *gojq.Query) (direct, bool) {
	if q == nil {
		return given([]any{}), true
	}
	d, ok := c.query(q)
	return direct{one: func(m *machine, in any) (any, bool) {
		return collected(m, d, in)
	}}, ok
}

func collected(m *machine, d direct, in any) (any, bool) {
	list := []any{}
	ok := d.each(m, in, func(v any) bool {
		list = append(list, v)
		m.work++
		return m.work <= maxWork
	})
	return list, ok
}

func (c *directCompiler) variable(name string) (direct, bool) {
	for slot := len(c.scope) - 1; slot >= 0; slot-- {
		if c.scope[slot] == name {
			return direct{one: func(m *machine, _ any) (any, bool) { return m.slots[slot], true }}, true
		}
	}
	return direct{}, false
}

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
