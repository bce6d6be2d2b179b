package mapping

import (
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// Most mappings are straight on: paths, conditions, texts, calculations, objects
// and lists of them. gojq takes a machine with stacks and forks to each step of
// those; here they are Go functions put together once, which takes a fifth off the
// mapping of a large order.
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
	left  int   // of the work that may be done
}

// mostWork bounds the elements gone through, commas passed and calls made of one
// event, times the expressions of the program. That is far from where a run by
// gojq is ended, so none that would be is decided here.
const mostWork = 300_000

// spend counts one element, comma or call, and reports whether it may be.
func (m *machine) spend() bool {
	m.left--
	return m.left >= 0
}

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
	work  int // see mostWork
}

// directly makes a program of an expression; nil where there is something in it
// that is gojq's.
func directly(src string, lib *library) *directProgram {
	q, err := gojq.Parse(src)
	if err != nil {
		return nil
	}
	c := directCompiler{lib: lib}
	for _, name := range variables() {
		c.bind(name)
	}
	body, ok := c.query(q)
	if !ok {
		return nil
	}
	return &directProgram{body: body, slots: c.slots, work: mostWork / c.size}
}

// directly maps the event without gojq. Where it says false, nothing has happened
// that counts: the event has an error, or is not to be decided here.
func (e *evaluation) directly(p *directProgram) (decided bool) {
	defer func() {
		if recover() != nil {
			decided = false
		}
	}()
	m := machine{run: e.run, slots: make([]any, p.slots), left: p.work}
	m.slots[0], m.slots[1], m.slots[2] = e.event, e.meta, e.vars
	return p.body.each(&m, e.event, func(v any) bool { return e.output(v) == nil }) && e.run.check() == nil
}

type directCompiler struct {
	lib   *library
	scope []slot // the variables in scope
	slots int    // of all variables: what follows a value may bind others before the next value is asked for
	size  int    // expressions compiled
}

// slot is where the value of a variable is.
type slot struct {
	name string
	at   int
}

// bind brings a variable into scope.
func (c *directCompiler) bind(name string) (at int) {
	at = c.slots
	c.slots++
	c.scope = append(c.scope, slot{name, at})
	return at
}

func (c *directCompiler) query(q *gojq.Query) (direct, bool) {
	c.size++
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
			return m.spend() && l.each(m, in, to) && r.each(m, in, to)
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
	outer := len(c.scope)
	slot := c.bind(q.Patterns[0].Name)
	r, ok := c.query(q.Right)
	c.scope = c.scope[:outer]
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
	d, ok := direct{one: func(_ *machine, in any) (any, bool) { return in, true }}, true
	suffixes := t.SuffixList
	if t.Type == gojq.TermTypeIndex { // as it is written on .
		suffixes = slices.Insert(slices.Clone(suffixes), 0, &gojq.Suffix{Index: t.Index})
	} else {
		d, ok = c.base(t)
	}
	for ok && len(suffixes) > 0 {
		s := suffixes[0]
		suffixes = suffixes[1:]
		optional := len(suffixes) > 0 && suffixes[0].Optional
		if optional {
			suffixes = suffixes[1:]
		}
		var next direct
		switch {
		case s.Iter:
			next = iteration(optional)
		case s.Index != nil:
			next, ok = directIndex(s.Index, optional)
		default:
			ok = false
		}
		d = piped(d, next)
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
		for _, v := range list {
			if !m.spend() || !to(v) {
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
		if !ok || !m.spend() {
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
		if !ok || values[i].one == nil {
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
	list := make([]any, 0, 8)
	ok := d.each(m, in, func(v any) bool {
		list = append(list, v)
		return m.spend() && m.run.produce(elementSize(v)) == nil
	})
	return list, ok
}

func (c *directCompiler) variable(name string) (direct, bool) {
	for _, v := range slices.Backward(c.scope) {
		if v.name == name {
			return direct{one: func(m *machine, _ any) (any, bool) { return m.slots[v.at], true }}, true
		}
	}
	return direct{}, false
}
