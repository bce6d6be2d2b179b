package mapping

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// rewriter turns the syntax tree that gojq parsed into the one it compiles:
// operators and functions are replaced by those of this package, functions
// that could run away are guarded, and what a mapping may not do is refused.
// Each replacement is a function of its own, which knows its place in the
// program for messages and the run it belongs to for limits.
//
// The tree it makes is new; the one it reads stays whole, for messages.
type rewriter struct {
	lib     *library
	run     *run
	field   string // "map" or "key"
	src     string
	vars    map[string]string
	locate  bool // see fieldPath
	options []gojq.CompilerOption
	calls   map[string]int // calls of each name met so far, for positions
	scope   []string       // the functions the program itself defines here, as "name/arguments"
	depth   int
	err     *CompileError
}

// maxProgramDepth bounds the nesting of a program.
const maxProgramDepth = 300

// fail keeps the first error; text names the token it belongs to.
func (w *rewriter) fail(text string, nth int, msg, hint string) {
	if w.err == nil {
		w.err = compileError(w.field, w.src, position(w.src, text, nth), msg, hint)
	}
}

func compileError(field, src string, offset int, msg, hint string) *CompileError {
	e := &CompileError{Field: field, Offset: offset, Msg: msg, Hint: hint}
	if offset >= 0 {
		e.Line, e.Col = lineAndColumn(src, offset)
	}
	return e
}

// site makes a function for one place of the program and returns its name.
func (w *rewriter) site(n int, text func() string, call callFunc) string {
	run := w.run
	name := w.newName()
	w.options = append(w.options, gojq.WithFunction(name, n, n, func(in any, args []any) any {
		v, err := call(run, in, args)
		if err != nil {
			return siteError(run, text, err)
		}
		return v
	}))
	return name
}

func (w *rewriter) newName() string { return "__" + strconv.Itoa(len(w.options)) }

func siteError(r *run, text func() string, err error) error {
	if own, ok := err.(*ownWords); ok {
		return own
	}
	if r.over != nil {
		r.over = &callError{site: text(), err: r.over}
		return r.over
	}
	return &callError{site: text(), err: err}
}

// excerpt is a piece of the program for messages.
func excerpt(text fmt.Stringer) func() string {
	return func() string {
		s := text.String()
		if short := truncateText(s, 80); short != s {
			return short + "…"
		}
		return s
	}
}

func (w *rewriter) query(q *gojq.Query) *gojq.Query {
	if q == nil {
		return nil
	}
	if w.depth++; w.depth > maxProgramDepth {
		if w.err == nil {
			w.err = compileError(w.field, w.src, -1, "the program is nested too deep", "")
		}
		return q
	}
	mark := len(w.scope)
	defer func() { w.depth--; w.scope = w.scope[:mark] }()
	if len(q.Imports) > 0 || q.Meta != nil {
		w.fail("", 0, "modules cannot be imported or declared", "define functions in the program itself with def")
		return q
	}
	out := &gojq.Query{}
	for _, d := range q.FuncDefs {
		out.FuncDefs = append(out.FuncDefs, w.funcDef(d))
	}
	w.expression(q, out)
	return out
}

func (w *rewriter) expression(q, out *gojq.Query) {
	if q.Term != nil {
		out.Term = w.term(q.Term)
		return
	}
	if op, ok := w.lib.operators[q.Op]; ok {
		l, r := w.query(q.Left), w.query(q.Right)
		out.Term = w.operatorCall(excerpt(bare(q)), op, l, r)
		return
	}
	if op, ok := updateOperator(q.Op); ok {
		w.update(q, op, out)
		return
	}
	out.Op = q.Op
	out.Left = w.query(q.Left)
	out.Patterns = w.patterns(q.Patterns)
	out.Right = w.query(q.Right)
	switch q.Op {
	case gojq.OpModify:
		// gojq walks the whole value when the right side gives empty
		*out = gojq.Query{FuncDefs: out.FuncDefs, Op: gojq.OpPipe, Left: w.guard(excerpt(bare(q)), weighFor(false)),
			Right: &gojq.Query{Op: q.Op, Left: out.Left, Right: out.Right}}
	}
}

// bare is q without its definitions, for messages.
func bare(q *gojq.Query) *gojq.Query {
	return &gojq.Query{Op: q.Op, Left: q.Left, Right: q.Right, Patterns: q.Patterns}
}

func (w *rewriter) operatorCall(text func() string, call binary, l, r *gojq.Query) *gojq.Term {
	name := w.site(2, text, func(r *run, _ any, args []any) (any, error) {
		return call(r, args[0], args[1])
	})
	return callTerm(name, l, r)
}

// update turns L op= R into R as $u | L |= (. op $u), as gojq does.
func (w *rewriter) update(q *gojq.Query, op gojq.Operator, out *gojq.Query) {
	text := excerpt(bare(q))
	l, r := w.query(q.Left), w.query(q.Right)
	const v = "$__u"
	change := query(w.operatorCall(text, w.lib.operators[op], identity(), variable(v)))
	out.Op = gojq.OpPipe
	out.Left = r
	out.Patterns = []*gojq.Pattern{{Name: v}}
	out.Right = pipe(w.guard(text, weighFor(false)), &gojq.Query{Op: gojq.OpModify, Left: l, Right: change})
}

// guard is a step that passes its input on after check.
func (w *rewriter) guard(text func() string, check func(r *run, v any) error) *gojq.Query {
	return query(callTerm(w.site(0, text, func(r *run, in any, _ []any) (any, error) {
		return in, check(r, in)
	})))
}

// weighFor counts a value before gojq walks it; for a text it may hold no ref.
func weighFor(text bool) func(*run, any) error {
	return func(r *run, v any) error {
		switch v.(type) {
		case []any, map[string]any, string:
			return r.weigh(v, text)
		}
		return nil
	}
}

func (w *rewriter) funcDef(d *gojq.FuncDef) *gojq.FuncDef {
	if strings.HasPrefix(d.Name, "__") {
		w.fail("", 0, "the name "+d.Name+" is reserved", "names that begin with two underscores are syncd's own")
	}
	w.scope = append(w.scope, d.Name+"/"+strconv.Itoa(len(d.Args)))
	mark := len(w.scope)
	for _, a := range d.Args {
		if strings.HasPrefix(a, "$") {
			w.ownVariable(a)
		}
		w.scope = append(w.scope, strings.TrimPrefix(a, "$")+"/0")
	}
	body := w.query(d.Body)
	w.scope = w.scope[:mark]
	// counted, because gojq keeps each call that has not returned
	enter := w.guard(func() string { return "def " + d.Name }, func(r *run, _ any) error { return r.produce(frameBytes) })
	return &gojq.FuncDef{Name: d.Name, Args: d.Args, Body: pipe(enter, body)}
}

// ownVariable refuses to bind a name that syncd gives.
func (w *rewriter) ownVariable(name string) {
	if strings.HasPrefix(name, "$__") || slices.Contains(variables(), name) {
		w.fail(name, 0, name+" is given by syncd and cannot be bound", "choose another name")
	}
}

// variables are those that every program has, in the order of their values.
func variables() []string { return []string{"$event", "$meta", "$vars"} }

func (w *rewriter) term(t *gojq.Term) *gojq.Term {
	out := w.base(t)
	for _, s := range t.SuffixList {
		if s.Optional && w.locate {
			out = &gojq.Term{Type: gojq.TermTypeTry, Try: &gojq.Try{Body: query(out), Catch: w.forgetFields(call("empty"))}}
			out = bracketed(query(out))
			continue
		}
		out.SuffixList = append(out.SuffixList, &gojq.Suffix{Index: w.index(s.Index), Iter: s.Iter, Optional: s.Optional})
	}
	return out
}

// base rewrites a term without its suffixes.
func (w *rewriter) base(t *gojq.Term) *gojq.Term {
	out := &gojq.Term{Type: t.Type, Break: t.Break}
	switch t.Type {
	case gojq.TermTypeIndex:
		out.Index = w.index(t.Index)
	case gojq.TermTypeFunc:
		return w.funcCall(t)
	case gojq.TermTypeObject:
		out.Object = w.object(t.Object)
	case gojq.TermTypeArray:
		out.Array = w.array(t.Array)
	case gojq.TermTypeNumber:
		return w.number(t)
	case gojq.TermTypeUnary:
		out.Unary = &gojq.Unary{Op: t.Unary.Op, Term: w.term(t.Unary.Term)}
	case gojq.TermTypeFormat:
		return w.format(t)
	case gojq.TermTypeString:
		return w.text(t.Str, "")
	case gojq.TermTypeIf:
		out.If = &gojq.If{Cond: w.query(t.If.Cond), Then: w.query(t.If.Then)}
		for _, e := range t.If.Elif {
			out.If.Elif = append(out.If.Elif, &gojq.IfElif{Cond: w.query(e.Cond), Then: w.query(e.Then)})
		}
		out.If.Else = w.query(t.If.Else)
	case gojq.TermTypeTry:
		out.Try = w.try(t.Try)
	case gojq.TermTypeReduce:
		out.Reduce = &gojq.Reduce{Query: w.query(t.Reduce.Query), Patterns: w.patterns(t.Reduce.Patterns),
			Start: w.query(t.Reduce.Start), Update: w.query(t.Reduce.Update)}
	case gojq.TermTypeForeach:
		out.Foreach = &gojq.Foreach{Query: w.query(t.Foreach.Query), Patterns: w.patterns(t.Foreach.Patterns),
			Start: w.query(t.Foreach.Start), Update: w.query(t.Foreach.Update), Extract: w.query(t.Foreach.Extract)}
	case gojq.TermTypeLabel:
		out.Label = &gojq.Label{Ident: t.Label.Ident, Body: w.query(t.Label.Body)}
	case gojq.TermTypeQuery:
		out.Query = w.query(t.Query)
	}
	return out
}

func (w *rewriter) try(t *gojq.Try) *gojq.Try {
	out := &gojq.Try{Body: w.query(t.Body), Catch: w.query(t.Catch)}
	if !w.locate {
		return out
	}
	if out.Catch == nil {
		out.Catch = call("empty")
	}
	out.Catch = w.forgetFields(out.Catch)
	return out
}

// number keeps the digits of a number in the program: gojq would read 1.10 as
// a float64.
func (w *rewriter) number(t *gojq.Term) *gojq.Term {
	if len(t.Number) <= 18 && !strings.ContainsAny(t.Number, ".eE") {
		return &gojq.Term{Type: t.Type, Number: t.Number}
	}
	d, err := parseDecimal(t.Number)
	if err != nil {
		w.err = compileError(w.field, w.src, strings.Index(w.src, t.Number), err.Error(), "")
		return t
	}
	v, err := numberWithZeros(d)
	if err != nil {
		w.err = compileError(w.field, w.src, strings.Index(w.src, t.Number), err.Error(), "")
		return t
	}
	return callTerm(w.site(0, nil, func(*run, any, []any) (any, error) { return v, nil }))
}

func (w *rewriter) array(a *gojq.Array) *gojq.Array {
	if a.Query == nil || constant(a.Query) {
		return a
	}
	text := func() string { return "an array of the program" }
	return &gojq.Array{Query: pipe(w.query(a.Query), w.guard(text, func(r *run, v any) error {
		return r.produce(elementSize(v))
	}))}
}

// elementSize is what an element of a new array counts.
func elementSize(v any) int {
	switch v := v.(type) {
	case map[string]any:
		return 2*elementBytes + len(v)*memberBytes
	case []any:
		return (2 + len(v)) * elementBytes
	}
	return 2 * elementBytes
}

// constant reports literals separated by commas, which gojq folds.
func constant(q *gojq.Query) bool {
	if q.Op == gojq.OpComma {
		return constant(q.Left) && constant(q.Right)
	}
	_, ok := literal(q)
	return ok
}

// literal gives the value of a string, whole number, null or boolean that
// stands in the program as such.
func literal(q *gojq.Query) (any, bool) {
	if q == nil || q.Term == nil || len(q.FuncDefs) > 0 || len(q.Term.SuffixList) > 0 {
		return nil, false
	}
	switch t := q.Term; t.Type {
	case gojq.TermTypeString:
		return t.Str.Str, t.Str.Queries == nil
	case gojq.TermTypeNumber:
		n, err := strconv.Atoi(t.Number)
		if err != nil || len(t.Number) > 18 {
			return nil, false
		}
		return n, true
	case gojq.TermTypeNull:
		return nil, true
	case gojq.TermTypeTrue, gojq.TermTypeFalse:
		return t.Type == gojq.TermTypeTrue, true
	}
	return nil, false
}

func (w *rewriter) object(o *gojq.Object) *gojq.Object {
	out := &gojq.Object{}
	for _, kv := range o.KeyVals {
		n := &gojq.ObjectKeyVal{Key: kv.Key, KeyString: kv.KeyString}
		name := kv.Key
		switch {
		case strings.HasPrefix(kv.Key, "$"):
			w.variableUse(kv.Key, nil)
		case kv.KeyString != nil && kv.KeyString.Queries == nil:
			name = kv.KeyString.Str
		case kv.KeyString != nil:
			n.KeyString, n.KeyQuery = nil, query(w.text(kv.KeyString, ""))
			name = "(…)"
			if kv.Val == nil {
				n.Val = query(&gojq.Term{Type: gojq.TermTypeIndex, Index: &gojq.Index{Start: n.KeyQuery}})
			}
		case kv.KeyQuery != nil:
			n.KeyQuery = w.query(kv.KeyQuery)
			name = "(…)"
		}
		if kv.Val != nil {
			n.Val = w.fieldPath(name, w.query(kv.Val))
		}
		out.KeyVals = append(out.KeyVals, n)
	}
	return out
}

func (w *rewriter) patterns(ps []*gojq.Pattern) []*gojq.Pattern {
	var out []*gojq.Pattern
	for _, p := range ps {
		out = append(out, w.pattern(p))
	}
	return out
}

func (w *rewriter) pattern(p *gojq.Pattern) *gojq.Pattern {
	if p == nil {
		return nil
	}
	if p.Name != "" {
		w.ownVariable(p.Name)
	}
	out := &gojq.Pattern{Name: p.Name, Array: w.patterns(p.Array)}
	for _, o := range p.Object {
		n := &gojq.PatternObject{Key: o.Key, KeyString: o.KeyString}
		if strings.HasPrefix(o.Key, "$") {
			w.ownVariable(o.Key)
		}
		if o.KeyString != nil && o.KeyString.Queries != nil {
			n.KeyString, n.KeyQuery = nil, query(w.text(o.KeyString, ""))
		}
		if o.KeyQuery != nil {
			n.KeyQuery = w.query(o.KeyQuery)
		}
		n.Val = w.pattern(o.Val)
		out.Object = append(out.Object, n)
	}
	return out
}

func (w *rewriter) index(x *gojq.Index) *gojq.Index {
	if x == nil {
		return nil
	}
	if x.Str != nil && x.Str.Queries != nil {
		return &gojq.Index{Start: query(w.text(x.Str, ""))}
	}
	out := &gojq.Index{Name: x.Name, Str: x.Str, Start: w.query(x.Start), End: w.query(x.End), IsSlice: x.IsSlice}
	if x.IsSlice || x.Start == nil {
		return out
	}
	if v, ok := literal(x.Start); ok {
		if n, ok := v.(int); ok && n > maxIndex {
			offset := strings.Index(w.src, strconv.Itoa(n))
			w.err = compileError(w.field, w.src, offset, errArrayHuge.Error(), "")
		}
		return out
	}
	out.Start = pipe(out.Start, w.guard(excerpt(x), checkIndex))
	return out
}

func checkIndex(r *run, v any) error {
	if isNumber(v) && compareNumbers(v, maxIndex) > 0 {
		return r.stop(errArrayHuge)
	}
	return nil
}

// variableUse checks a variable that stands in the program.
func (w *rewriter) variableUse(name string, suffixes []*gojq.Suffix) {
	nth := w.calls[name]
	w.calls[name]++
	switch {
	case name == "$ENV":
		w.fail(name, nth, "a mapping cannot read the environment", "declare constants and use $vars.NAME")
	case strings.HasPrefix(name, "$__"):
		w.fail(name, nth, "there is no variable "+name, "")
	case name == "$vars" && len(suffixes) > 0 && suffixes[0].Index != nil && suffixes[0].Index.Name != "":
		key := suffixes[0].Index.Name
		if _, ok := w.vars[key]; !ok {
			w.fail(name, nth, "the flow has no constant "+key, didYouMean("$vars.", closest(key, slices.Collect(maps.Keys(w.vars)))))
		}
	}
}

func didYouMean(prefix, name string) string {
	if name == "" {
		return ""
	}
	return "did you mean " + prefix + name + "?"
}
