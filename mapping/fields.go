package mapping

import (
	"slices"
	"strings"

	"github.com/itchyny/gojq"
)

// When a program fails, gojq does not say where. The program is then compiled
// and run a second time with a catch around every field of every object it
// builds; the catches that the error passes on its way out are the path of the
// field. The first run stays as fast as it can be.

// fieldPath wraps the value of a field.
func (w *rewriter) fieldPath(name string, q *gojq.Query) *gojq.Query {
	if !w.locate {
		return q
	}
	run, fn := w.run, w.newName()
	w.options = append(w.options, gojq.WithFunction(fn, 0, 0, func(in any, _ []any) any {
		run.fields = append(run.fields, name)
		return &passedOn{in}
	}))
	return query(&gojq.Term{Type: gojq.TermTypeTry, Try: &gojq.Try{Body: q, Catch: call(fn)}})
}

// passedOn throws again what was caught.
type passedOn struct{ v any }

func (*passedOn) Error() string { return "passed on" }
func (e *passedOn) Value() any  { return e.v }

// forgetFields stands where the program itself deals with an error.
func (w *rewriter) forgetFields(q *gojq.Query) *gojq.Query {
	if !w.locate {
		return q
	}
	run, fn := w.run, w.newName()
	w.options = append(w.options, gojq.WithFunction(fn, 0, 0, func(in any, _ []any) any {
		run.fields = nil
		return in
	}))
	return pipe(call(fn), q)
}

func (r *run) fieldPath() string {
	slices.Reverse(r.fields)
	return strings.Join(r.fields, ".")
}
