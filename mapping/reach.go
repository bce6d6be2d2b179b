package mapping

import (
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// Most of an event is of no interest to the record that is made of it. What
// the programs of a mapping look at is found out once, from their text, so that
// the decoder builds that much and passes over the rest.
//
// The rule: a program runs on less than the event only where no run of it can
// tell the difference. The analysis follows which places of the event a value
// can be, along paths, variables and calls. Where a program asks only for the
// kind of a value (a step of a path, a condition, a comparison with null or a
// text), that place keeps its kind; everywhere else the value is needed whole:
// in a record, as an argument, in a calculation. What is not known here is
// taken to need its input and its arguments whole, and a program that cannot
// be followed, such as one that calls itself, needs the whole event.

// part is what the programs look at of one place of an event. A part that is
// reached at all keeps its kind (an object may lose members), its scalar value
// and, as an array, all its elements.
type part struct {
	whole   bool
	members map[string]*part
	lengths uint64 // of the members' names, a bit for each
	each    *part  // of every element of an array, or member of an object, none of which is left out
}

// member is the part under a name.
func (p *part) member(name string) *part {
	if p.whole {
		return p
	}
	m := p.members[name]
	if m == nil {
		if p.members == nil {
			p.members = map[string]*part{}
		}
		m = &part{}
		p.members[name] = m
		p.lengths |= lengthBit(name)
	}
	return m
}

func lengthBit(name string) uint64 { return 1 << min(len(name), 63) }

// named is the part under a name, nil where nothing is looked at there.
func (p *part) named(name string) *part {
	if p.lengths&lengthBit(name) == 0 { // as nearly always, and sooner known than by a look
		return nil
	}
	return p.members[name]
}

// elements is the part of everything in the array or object.
func (p *part) elements() *part {
	if p.whole {
		return p
	}
	if p.each == nil {
		p.each = &part{}
	}
	return p.each
}

func (p *part) untouched() bool { return !p.whole && p.members == nil && p.each == nil }

// reached is what the programs of src look at of an event. They have been
// compiled before, so their text is known to be right.
func reached(src Source, lib *library) *part {
	r := reach{lib: lib, event: &part{}, caught: &part{}}
	for _, program := range []struct {
		text  string
		input []*part
	}{{src.Map, []*part{r.event}}, {src.Key, nil}, {src.Group, nil}} { // key and group run on the record
		if program.text == "" {
			continue
		}
		q, err := gojq.Parse(program.text)
		if err != nil {
			return &part{whole: true}
		}
		r.defined, r.params = map[string]*gojq.FuncDef{}, map[string]bool{}
		e := &binding{name: "$event", places: []*part{r.event}}
		e = &binding{up: e, name: "$meta"}
		e = &binding{up: e, name: "$vars"}
		r.need(r.query(q, program.input, e))
	}
	// What a catch is given may quote the input.
	if r.lost || !r.caught.untouched() {
		return &part{whole: true}
	}
	return r.event
}

// reach is the analysis of programs. Its functions take and give the places
// that a value can be; none where the value is no part of the event, or is
// needed whole already.
type reach struct {
	lib     *library
	event   *part
	caught  *part // the messages that the program catches
	defined map[string]*gojq.FuncDef
	params  map[string]bool
	work    int
	depth   int
	lost    bool // the program cannot be followed
}

const (
	maxReachWork  = 20_000 // terms looked at, calls included
	maxReachDepth = 1_000  // of queries and calls within each other
)

// binding is a variable, a function or a function's parameter, and what is in
// scope where it is bound.
type binding struct {
	up     *binding
	name   string // "$x" or "f/1"
	places []*part
	fn     *gojq.FuncDef // of a function
	arg    *gojq.Query   // of a parameter,
	scope  *binding      // and where it was written
}

func (b *binding) find(name string) *binding {
	for ; b != nil; b = b.up {
		if b.name == name {
			return b
		}
	}
	return nil
}

// need says that values are used as a whole.
func (r *reach) need(places []*part) []*part {
	for _, p := range places {
		*p = part{whole: true}
	}
	return nil
}

func both(a, b []*part) []*part {
	if len(a) == 0 {
		return b
	}
	out := slices.Clone(a)
	for _, p := range b {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

func membersOf(of []*part, name string) []*part {
	var out []*part
	for _, p := range of {
		out = append(out, p.member(name))
	}
	return out
}

func eachOf(of []*part) []*part {
	var out []*part
	for _, p := range of {
		out = append(out, p.elements())
	}
	return out
}

func (r *reach) query(q *gojq.Query, in []*part, scope *binding) []*part {
	if q == nil || r.lost {
		return nil
	}
	r.work++
	r.depth++
	defer func() { r.depth-- }()
	if r.work > maxReachWork || r.depth > maxReachDepth {
		r.lost = true
		return nil
	}
	for _, d := range q.FuncDefs {
		scope = r.define(d, scope)
	}
	if q.Term != nil {
		return r.term(q.Term, in, scope)
	}
	switch q.Op {
	case gojq.OpPipe:
		left := r.query(q.Left, in, scope)
		if len(q.Patterns) > 0 {
			return r.query(q.Right, in, r.patterns(q.Patterns, left, scope))
		}
		return r.query(q.Right, left, scope)
	case gojq.OpComma, gojq.OpAlt:
		return both(r.query(q.Left, in, scope), r.query(q.Right, in, scope))
	case gojq.OpAnd, gojq.OpOr:
		r.query(q.Left, in, scope)
		r.query(q.Right, in, scope)
		return nil
	case gojq.OpAssign, gojq.OpModify, gojq.OpUpdateAdd, gojq.OpUpdateSub, gojq.OpUpdateMul, gojq.OpUpdateDiv, gojq.OpUpdateMod, gojq.OpUpdateAlt:
		r.need(in) // and gives it, changed
	case gojq.OpEq, gojq.OpNe, gojq.OpLt, gojq.OpLe, gojq.OpGt, gojq.OpGe:
		_, left := literal(q.Left)
		_, right := literal(q.Right)
		if left || right { // of another kind, or compared as a scalar
			r.query(q.Left, in, scope)
			r.query(q.Right, in, scope)
			return nil
		}
	}
	r.need(r.query(q.Left, in, scope))
	return r.need(r.query(q.Right, in, scope))
}

// define brings a function into scope. gojq leaves some definitions in scope
// longer than they stand there, so a name must mean one thing in a program.
func (r *reach) define(d *gojq.FuncDef, scope *binding) *binding {
	id := d.Name + "/" + strconv.Itoa(len(d.Args))
	_, jq := r.lib.builtins[id]
	_, own := r.lib.added[d.Name]
	if was := r.defined[id]; jq || own || r.params[id] || was != nil && was != d {
		r.lost = true
	}
	r.defined[id] = d
	for _, a := range d.Args {
		a = strings.TrimPrefix(a, "$") + "/0"
		r.params[a] = true
		r.lost = r.lost || r.defined[a] != nil
	}
	return &binding{up: scope, name: id, fn: d}
}

func (r *reach) term(t *gojq.Term, in []*part, scope *binding) []*part {
	out := r.base(t, in, scope)
	for _, s := range t.SuffixList {
		switch {
		case s.Index != nil:
			out = r.index(s.Index, out, in, scope)
		case s.Iter:
			out = eachOf(out)
		}
	}
	return out
}

// index is of[x]; x itself sees in.
func (r *reach) index(x *gojq.Index, of, in []*part, scope *binding) []*part {
	switch {
	case x.Name != "":
		return membersOf(of, x.Name)
	case x.Str != nil && x.Str.Queries == nil:
		return membersOf(of, x.Str.Str)
	case x.Str != nil:
		r.text(x.Str, in, scope)
		return r.need(of)
	case x.IsSlice: // of an array, which has the same elements, or of a text
		r.need(r.query(x.Start, in, scope))
		r.need(r.query(x.End, in, scope))
		return of
	}
	if k, ok := literal(x.Start); ok {
		switch k := k.(type) {
		case string:
			return membersOf(of, k)
		case int:
			return eachOf(of)
		}
	}
	if t := x.Start.Term; t != nil && t.Type == gojq.TermTypeUnary && t.Unary.Term.Type == gojq.TermTypeNumber && len(t.SuffixList)+len(t.Unary.Term.SuffixList) == 0 {
		return eachOf(of)
	}
	r.need(r.query(x.Start, in, scope))
	return r.need(of)
}

func (r *reach) base(t *gojq.Term, in []*part, scope *binding) []*part {
	switch t.Type {
	case gojq.TermTypeIdentity:
		return in
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber, gojq.TermTypeBreak:
		return nil
	case gojq.TermTypeIndex:
		return r.index(t.Index, in, in, scope)
	case gojq.TermTypeFunc:
		return r.call(t.Func, in, scope)
	case gojq.TermTypeObject:
		return r.object(t.Object, in, scope)
	case gojq.TermTypeArray:
		return r.need(r.query(t.Array.Query, in, scope))
	case gojq.TermTypeUnary:
		return r.need(r.term(t.Unary.Term, in, scope))
	case gojq.TermTypeString:
		return r.text(t.Str, in, scope)
	case gojq.TermTypeFormat:
		if t.Str != nil {
			return r.text(t.Str, in, scope)
		}
		return r.need(in)
	case gojq.TermTypeIf:
		return r.choice(t.If, in, scope)
	case gojq.TermTypeTry:
		out := r.query(t.Try.Body, in, scope)
		return both(out, r.query(t.Try.Catch, []*part{r.caught}, scope))
	case gojq.TermTypeReduce:
		s := t.Reduce
		return r.loop(s.Query, s.Patterns, s.Start, s.Update, nil, in, scope)
	case gojq.TermTypeForeach:
		s := t.Foreach
		return r.loop(s.Query, s.Patterns, s.Start, s.Update, s.Extract, in, scope)
	case gojq.TermTypeLabel:
		return r.query(t.Label.Body, in, scope)
	case gojq.TermTypeQuery:
		return r.query(t.Query, in, scope)
	}
	r.lost = r.lost || t.Type != gojq.TermTypeRecurse
	return r.need(in)
}

func (r *reach) text(s *gojq.String, in []*part, scope *binding) []*part {
	for _, q := range s.Queries {
		r.need(r.query(q, in, scope))
	}
	return nil
}

func (r *reach) choice(c *gojq.If, in []*part, scope *binding) []*part {
	r.query(c.Cond, in, scope)
	out := r.query(c.Then, in, scope)
	for _, e := range c.Elif {
		r.query(e.Cond, in, scope)
		out = both(out, r.query(e.Then, in, scope))
	}
	if c.Else == nil {
		return both(out, in)
	}
	return both(out, r.query(c.Else, in, scope))
}

// loop follows a loop once: its state is needed whole, and of what is whole
// every part is, so another turn would find nothing else.
func (r *reach) loop(over *gojq.Query, patterns []*gojq.Pattern, start, update, extract *gojq.Query, in []*part, scope *binding) []*part {
	state := r.query(start, in, scope)
	r.need(state)
	scope = r.patterns(patterns, r.query(over, in, scope), scope)
	next := r.query(update, state, scope)
	r.need(next)
	if extract != nil {
		return r.query(extract, both(state, next), scope)
	}
	return nil
}

func (r *reach) object(o *gojq.Object, in []*part, scope *binding) []*part {
	for _, kv := range o.KeyVals {
		switch {
		case kv.Val != nil:
		case strings.HasPrefix(kv.Key, "$"):
			r.need(r.variable(kv.Key, scope))
		case kv.Key != "":
			r.need(membersOf(in, kv.Key))
		case kv.KeyString != nil && kv.KeyString.Queries == nil:
			r.need(membersOf(in, kv.KeyString.Str))
		default:
			r.need(in)
		}
		if kv.KeyString != nil {
			r.text(kv.KeyString, in, scope)
		}
		r.need(r.query(kv.KeyQuery, in, scope))
		r.need(r.query(kv.Val, in, scope))
	}
	return nil
}

// patterns binds variables to parts of values. With alternatives, which of
// them matches may depend on anything.
func (r *reach) patterns(ps []*gojq.Pattern, of []*part, scope *binding) *binding {
	if len(ps) > 1 {
		r.need(of)
	}
	for _, p := range ps {
		scope = r.pattern(p, of, scope)
	}
	return scope
}

func (r *reach) pattern(p *gojq.Pattern, of []*part, scope *binding) *binding {
	if p == nil {
		return scope
	}
	if p.Name != "" {
		return &binding{up: scope, name: p.Name, places: of}
	}
	for _, e := range p.Array {
		scope = r.pattern(e, eachOf(of), scope)
	}
	for _, o := range p.Object {
		var at []*part
		switch {
		case o.Key != "":
			at = membersOf(of, strings.TrimPrefix(o.Key, "$"))
			if o.Key[0] == '$' {
				scope = &binding{up: scope, name: o.Key, places: at}
			}
		case o.KeyString != nil && o.KeyString.Queries == nil:
			at = membersOf(of, o.KeyString.Str)
		default:
			r.need(of)
			at = of
			if o.KeyString != nil {
				r.text(o.KeyString, of, scope)
			}
			r.need(r.query(o.KeyQuery, of, scope))
		}
		scope = r.pattern(o.Val, at, scope)
	}
	return scope
}

func (r *reach) variable(name string, scope *binding) []*part {
	b := scope.find(name)
	if b == nil {
		r.lost = true
		return nil
	}
	return b.places
}
