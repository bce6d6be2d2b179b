package mapping

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// text rewrites a string with \( … ) parts; gojq would add the parts up
// without any limit. Each part goes through format, or becomes text.
func (w *rewriter) text(s *gojq.String, format string) *gojq.Term {
	if s.Queries == nil {
		return &gojq.Term{Type: gojq.TermTypeString, Str: s}
	}
	what := excerpt(s)
	var parts []*gojq.Query
	for _, q := range s.Queries {
		switch {
		case q.Term.Str != nil && q.Term.Type == gojq.TermTypeString:
			parts = append(parts, query(&gojq.Term{Type: gojq.TermTypeString, Str: q.Term.Str}))
		case format == "":
			parts = append(parts, query(callTerm(w.site(1, what, fnText), w.query(q))))
		default:
			parts = append(parts, pipe(w.query(q), pipe(w.guard(what, weighFor(true)),
				query(&gojq.Term{Type: gojq.TermTypeFormat, Format: format}))))
		}
	}
	const most = 30 // arguments of a function in gojq
	for len(parts) > most {
		parts = append([]*gojq.Query{query(callTerm(w.site(most, what, fnConcat), parts[:most]...))}, parts[most:]...)
	}
	return callTerm(w.site(len(parts), what, fnConcat), parts...)
}

func (w *rewriter) format(t *gojq.Term) *gojq.Term {
	known := []string{"@text", "@json", "@html", "@uri", "@urid", "@csv", "@tsv", "@sh", "@base64", "@base64d"}
	if !slices.Contains(known, t.Format) {
		w.fail(t.Format, 0, "there is no format "+t.Format, "known are "+strings.Join(known, " "))
		return t
	}
	if t.Str != nil {
		return w.text(t.Str, t.Format)
	}
	return bracketed(pipe(w.guard(excerpt(t), weighFor(true)), query(&gojq.Term{Type: t.Type, Format: t.Format})))
}

// fnText is tostring: a string as it is, anything else as JSON.
func fnText(r *run, in any, args []any) (any, error) {
	if len(args) == 1 {
		in = args[0]
	}
	switch v := in.(type) {
	case string:
		return v, nil
	case int:
		return strconv.Itoa(v), nil
	case json.Number:
		return string(v), nil
	}
	return toJSON(r, in)
}

func fnToJSON(r *run, in any, _ []any) (any, error) { return toJSON(r, in) }

func toJSON(r *run, v any) (any, error) {
	if err := r.weigh(v, true); err != nil {
		return nil, err
	}
	b, err := gojq.Marshal(v)
	return string(b), err
}

func fnConcat(r *run, _ any, args []any) (any, error) {
	n := 0
	for _, a := range args {
		s, ok := a.(string)
		if !ok {
			return nil, fmt.Errorf("a part of the text is %s", typeName(a))
		}
		n += len(s)
	}
	if err := r.text(n); err != nil {
		return nil, err
	}
	var b strings.Builder
	b.Grow(n)
	for _, a := range args {
		b.WriteString(a.(string))
	}
	return b.String(), nil
}
