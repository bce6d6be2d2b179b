package mapping

import "github.com/itchyny/gojq"

// Pieces of syntax trees.

func query(t *gojq.Term) *gojq.Query { return &gojq.Query{Term: t} }

func identity() *gojq.Query { return query(&gojq.Term{Type: gojq.TermTypeIdentity}) }

func variable(name string) *gojq.Query { return call(name) }

func call(name string, args ...*gojq.Query) *gojq.Query { return query(callTerm(name, args...)) }

func callTerm(name string, args ...*gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: name, Args: args}}
}

func pipe(l, r *gojq.Query) *gojq.Query {
	return &gojq.Query{Op: gojq.OpPipe, Left: l, Right: r}
}

func bind(l *gojq.Query, name string, r *gojq.Query) *gojq.Query {
	return &gojq.Query{Op: gojq.OpPipe, Left: l, Patterns: []*gojq.Pattern{{Name: name}}, Right: r}
}

// bracketed is a query in brackets.
func bracketed(q *gojq.Query) *gojq.Term {
	return &gojq.Term{Type: gojq.TermTypeQuery, Query: q}
}

// each is q[].
func each(t *gojq.Term) *gojq.Term {
	t.SuffixList = append(t.SuffixList, &gojq.Suffix{Iter: true})
	return t
}
