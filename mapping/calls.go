package mapping

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// library is what calls and operators become; the same for all instances of a
// program, and never changed.
type library struct {
	added     map[string]function
	builtins  map[string]treatment
	operators map[gojq.Operator]binary
}

func newLibrary(maker *refMaker, now func() any) *library {
	lib := &library{added: added(maker), builtins: builtins(), operators: operators()}
	if now != nil {
		lib.builtins["now/0"] = treatment{kind: replaced, call: func(*run, any, []any) (any, error) { return now(), nil }}
	}
	return lib
}

func (w *rewriter) funcCall(t *gojq.Term) *gojq.Term {
	f := t.Func
	if f.Name[0] == '$' {
		w.variableUse(f.Name, t.SuffixList)
		return callTerm(f.Name)
	}
	nth := w.calls[f.Name]
	w.calls[f.Name]++
	id := f.Name + "/" + strconv.Itoa(len(f.Args))
	if slices.Contains(w.scope, id) {
		return callTerm(f.Name, w.args(f)...)
	}
	if fn, ok := w.lib.added[f.Name]; ok {
		return w.addedCall(f, fn, nth)
	}
	how, ok := w.lib.builtins[id]
	if !ok {
		w.unknown(f, nth)
		return t
	}
	if how.kind == refused {
		w.fail(f.Name, nth, f.Name+" cannot be used in a mapping", how.hint)
		return t
	}
	return w.builtinCall(f, how)
}

func (w *rewriter) args(f *gojq.Func) []*gojq.Query {
	var out []*gojq.Query
	for _, a := range f.Args {
		out = append(out, w.query(a))
	}
	return out
}

func (w *rewriter) addedCall(f *gojq.Func, fn function, nth int) *gojq.Term {
	if !slices.Contains(fn.counts(), len(f.Args)) {
		w.fail(f.Name, nth, fmt.Sprintf("%s was given %s", f.Name, arguments(len(f.Args))), fn.usage(f.Name))
		return callTerm(f.Name)
	}
	for i, a := range f.Args {
		check := fn.literal[i]
		if v, ok := literal(a); ok && check != nil {
			if err := check(v); err != nil {
				w.fail(f.Name, nth, fmt.Sprintf("%s, argument %d: %v", f.Name, i+1, err), fn.usage(f.Name))
			}
		}
	}
	return callTerm(w.site(len(f.Args), excerpt(f), fn.call), w.args(f)...)
}

func arguments(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}

func (f function) usage(name string) string {
	return fmt.Sprintf("use %s(%s)", name, strings.Join(f.params, "; "))
}

// unknown reports a function that does not exist, or not with so many
// arguments, with the likeliest cure.
func (w *rewriter) unknown(f *gojq.Func, nth int) {
	var names, counts []string
	for id := range w.lib.builtins {
		name, n, _ := strings.Cut(id, "/")
		if names = append(names, name); name == f.Name {
			counts = append(counts, n)
		}
	}
	for name := range w.lib.added {
		names = append(names, name)
	}
	for _, id := range w.scope {
		name, n, _ := strings.Cut(id, "/")
		if names = append(names, name); name == f.Name {
			counts = append(counts, n)
		}
	}
	if counts != nil {
		slices.Sort(counts)
		w.fail(f.Name, nth, fmt.Sprintf("%s was given %s", f.Name, arguments(len(f.Args))),
			"it takes "+strings.Join(slices.Compact(counts), " or ")+"; arguments are separated by semicolons")
		return
	}
	hint := didYouMean("", closest(f.Name, names))
	// A bare word is most often a field whose dot is missing, above all when it is the whole program.
	if word := len(f.Args) == 0 && !strings.HasPrefix(f.Name, "__") && !strings.Contains(f.Name, "::"); word && (hint == "" || strings.TrimSpace(w.src) == f.Name) {
		hint = didYouMean(".", f.Name)
	}
	w.fail(f.Name, nth, "there is no function "+f.Name, hint)
}

func (w *rewriter) builtinCall(f *gojq.Func, how treatment) *gojq.Term {
	text := excerpt(f)
	switch how.kind {
	case charged:
		return bracketed(pipe(w.guard(text, (*run).charge), call(f.Name, w.args(f)...)))
	case weighed:
		return bracketed(pipe(w.guard(text, weighFor(f.Name == "format")), call(f.Name, w.args(f)...)))
	case pair:
		const v = "$__a"
		check := w.site(1, text, func(r *run, in any, args []any) (any, error) {
			return in, checkPair(r, in, args[0])
		})
		return bracketed(bind(w.query(f.Args[0]), v, pipe(call(check, variable(v)), call(f.Name, variable(v)))))
	case replaced:
		return callTerm(w.site(len(f.Args), text, how.call), w.args(f)...)
	case special:
		return w.specialCall(f, text)
	}
	return callTerm(f.Name, w.args(f)...)
}

// checkPair bounds functions whose time is the product of two sizes.
func checkPair(r *run, in, arg any) error {
	const most = 50_000_000
	a, b := weight{run: r}, weight{run: r}
	if err := a.add(in, 0); err != nil {
		return err
	}
	if err := b.add(arg, 0); err != nil {
		return err
	}
	if product := (a.nodes + a.bytes/4) * (b.nodes + b.bytes/4); product > most || product < 0 {
		return r.stop(errors.New("the values are too large to be searched for each other"))
	}
	return r.produce(elementBytes * (a.bytes + b.bytes))
}

func (w *rewriter) specialCall(f *gojq.Func, text func() string) *gojq.Term {
	switch f.Name {
	case "error":
		return w.errorCall(f)
	case "debug":
		w.args(f)
		return &gojq.Term{Type: gojq.TermTypeIdentity}
	case "getpath", "setpath":
		args := w.args(f)
		args[0] = pipe(args[0], w.guard(text, checkPath))
		return callTerm(f.Name, args...)
	case "fromstream":
		return callTerm(f.Name, pipe(w.query(f.Args[0]), w.guard(text, checkStreamEvent)))
	case "strptime":
		return callTerm(f.Name, pipe(w.query(f.Args[0]), w.guard(text, refuseZoneName)))
	case "sort_by", "group_by", "unique_by", "min_by", "max_by":
		return callTerm(w.site(1, text, byKey(f.Name)), mapped(arrayOf(w.query(f.Args[0]))))
	case "add":
		return callTerm(w.site(1, text, fnAdd), arrayOf(w.query(f.Args[0])))
	case "IN":
		args := w.args(f)
		if len(args) == 1 {
			args = append(args, identity())
		}
		same := w.operatorCall(text, w.lib.operators[gojq.OpEq], args[0], args[1])
		return callTerm("any", query(same), identity())
	case "range":
		return w.rangeCall(f, text)
	case "sub", "gsub":
		return w.subCall(f, text)
	}
	return bracketed(query(each(callTerm(w.site(len(f.Args), text, matcher(f.Name)), w.args(f)...))))
}

// matcher is the function behind the regular expressions that give many
// values: it gives them as an array.
func matcher(name string) callFunc {
	switch name {
	case "match":
		return fnMatch
	case "capture":
		return fnCapture
	case "scan":
		return fnScan
	}
	return fnSplits
}

// errorCall shows the author's words where they stand in the program itself;
// what else goes into error may be data and is not shown.
func (w *rewriter) errorCall(f *gojq.Func) *gojq.Term {
	if len(f.Args) == 1 {
		if v, ok := literal(f.Args[0]); ok {
			if s, ok := v.(string); ok {
				return callTerm(w.site(0, nil, func(*run, any, []any) (any, error) { return nil, &ownWords{s} }))
			}
		}
	}
	return callTerm(f.Name, w.args(f)...)
}

func (w *rewriter) rangeCall(f *gojq.Func, text func() string) *gojq.Term {
	run, name := w.run, w.newName()
	w.options = append(w.options, gojq.WithIterFunction(name, len(f.Args), len(f.Args), func(_ any, args []any) gojq.Iter {
		c := &counter{run: run, next: 0, by: 1}
		switch len(args) {
		case 1:
			c.end = args[0]
		case 3:
			c.by = args[2]
			fallthrough
		default:
			c.next, c.end = args[0], args[1]
		}
		if !isNumber(c.next) || !isNumber(c.end) || !isNumber(c.by) {
			return gojq.NewIter[any](siteError(run, text, errors.New("a range is made of numbers")))
		}
		return c
	}))
	if len(f.Args) == 1 {
		return callTerm(name, w.args(f)...)
	}
	// jq binds the arguments from the left, which shows when they give several
	// values each
	names := []string{"$__0", "$__1", "$__2"}[:len(f.Args)]
	var vars []*gojq.Query
	for _, v := range names {
		vars = append(vars, variable(v))
	}
	out := call(name, vars...)
	args := w.args(f)
	for i := len(args) - 1; i >= 0; i-- {
		out = bind(args[i], names[i], out)
	}
	return bracketed(out)
}

// subCall builds, for sub(re; str; flags):
//
//	. as $s | find(re; flags) as $m | [$m[] | .[2] | [str]] as $r | $s | join($m; $r)[]
func (w *rewriter) subCall(f *gojq.Func, text func() string) *gojq.Term {
	const s, m, r = "$__s", "$__m", "$__r"
	args := w.args(f)
	findArgs := append([]*gojq.Query{args[0]}, args[2:]...)
	find := call(w.site(len(findArgs), text, subFind(f.Name == "gsub")), findArgs...)
	groups := query(&gojq.Term{Type: gojq.TermTypeIndex, Index: &gojq.Index{Start: query(&gojq.Term{Type: gojq.TermTypeNumber, Number: "2"})}})
	replacements := arrayOf(pipe(query(each(callTerm(m))), pipe(groups, arrayOf(args[1]))))
	join := query(each(callTerm(w.site(2, text, fnSubJoin), variable(m), variable(r))))
	return bracketed(bind(identity(), s, bind(find, m, bind(replacements, r, pipe(variable(s), join)))))
}

func arrayOf(q *gojq.Query) *gojq.Query {
	return query(&gojq.Term{Type: gojq.TermTypeArray, Array: &gojq.Array{Query: q}})
}

// mapped is [.[] | q].
func mapped(q *gojq.Query) *gojq.Query {
	all := each(&gojq.Term{Type: gojq.TermTypeIdentity})
	return arrayOf(pipe(query(all), q))
}

// checkPath bounds the indexes of a path that is going to be written to.
func checkPath(r *run, v any) error {
	path, _ := v.([]any)
	for _, p := range path {
		if err := checkIndex(r, p); err != nil {
			return err
		}
	}
	return nil
}

func checkStreamEvent(r *run, v any) error {
	event, ok := v.([]any)
	if !ok || len(event) == 0 {
		return nil
	}
	return checkPath(r, event[0])
}

func refuseZoneName(_ *run, v any) error {
	if s, ok := v.(string); ok && strings.Contains(s, "%Z") {
		return errors.New("%Z is not supported, because an abbreviation such as CST stands for several zones; use parse_time(text; layout; zone)")
	}
	return nil
}

func fnFabs(_ *run, in any, _ []any) (any, error) {
	if !isNumber(in) {
		return nil, fmt.Errorf("a number was expected but there is %s", typeName(in))
	}
	if f, ok := in.(float64); ok {
		return math.Abs(f), nil
	}
	if compareNumbers(in, 0) < 0 {
		return subtraction().apply(0, in)
	}
	return in, nil
}

// fnTranspose turns rows into columns; short rows are filled with null.
func fnTranspose(r *run, in any, _ []any) (any, error) {
	rows, ok := in.([]any)
	if !ok {
		return nil, fmt.Errorf("an array was expected but there is %s", typeName(in))
	}
	width := 0
	for _, row := range rows {
		cells, ok := row.([]any)
		if !ok {
			return nil, fmt.Errorf("an array of arrays was expected but there is %s in it", typeName(row))
		}
		width = max(width, len(cells))
	}
	if width > 0 && len(rows) > r.limits.nodes/width {
		return nil, r.stop(r.limits.errNodes())
	}
	if err := r.produce(width * len(rows) * elementBytes); err != nil {
		return nil, err
	}
	columns := make([]any, width)
	for j := range columns {
		column := make([]any, len(rows))
		for i, row := range rows {
			if cells := row.([]any); j < len(cells) {
				column[i] = cells[j]
			}
		}
		columns[j] = column
	}
	return columns, nil
}
