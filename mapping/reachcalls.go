package mapping

import (
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

func (r *reach) call(f *gojq.Func, in []*part, scope *binding) []*part {
	if f.Name[0] == '$' {
		return r.variable(f.Name, scope)
	}
	id := f.Name + "/" + strconv.Itoa(len(f.Args))
	if b := scope.find(id); b != nil {
		if b.fn == nil {
			return r.query(b.arg, in, b.scope)
		}
		inner := b
		for i, a := range b.fn.Args {
			name := strings.TrimPrefix(a, "$")
			if name != a {
				inner = &binding{up: inner, name: a, places: r.query(f.Args[i], in, scope)}
			}
			inner = &binding{up: inner, name: name + "/0", arg: f.Args[i], scope: scope}
		}
		return r.query(b.fn.Body, in, inner)
	}
	if out, ok := r.known(id, f.Args, in, scope); ok {
		return out
	}
	if _, ok := r.lib.added[f.Name]; !ok {
		r.need(in) // those added know their arguments alone
	}
	for _, a := range f.Args {
		r.need(r.query(a, in, scope))
	}
	return nil
}

// known follows the functions of jq that do not need their input whole.
func (r *reach) known(id string, args []*gojq.Query, in []*part, scope *binding) (out []*part, ok bool) {
	arg := func(i int, in []*part) []*part { return r.query(args[i], in, scope) }
	switch id {
	case "empty/0", "not/0", "type/0":
		return nil, true
	case "values/0", "nulls/0", "booleans/0", "numbers/0", "strings/0", "arrays/0", "objects/0", "iterables/0", "scalars/0":
		return in, true
	case "select/1":
		arg(0, in)
		return in, true
	case "map/1":
		return r.need(arg(0, eachOf(in))), true
	case "first/0", "last/0":
		return eachOf(in), true
	case "first/1", "last/1":
		return arg(0, in), true
	case "limit/2", "skip/2", "nth/2":
		r.need(arg(0, in))
		return arg(1, in), true
	case "isempty/1":
		arg(0, in)
		return nil, true
	case "any/0", "all/0", "length/0":
		eachOf(in)
		return nil, true
	case "any/1", "all/1":
		arg(0, eachOf(in))
		return nil, true
	case "any/2", "all/2":
		arg(1, arg(0, in))
		return nil, true
	case "add/1", "error/1", "IN/2", "range/1", "range/2", "range/3":
		for i := range args {
			r.need(arg(i, in))
		}
		return nil, true
	case "has/1":
		name, ok := literal(args[0])
		if name, isName := name.(string); ok && isName {
			membersOf(in, name)
		}
		return nil, ok
	case "INDEX/2":
		rows := arg(0, in)
		r.need(rows)
		return r.need(arg(1, rows)), true
	}
	return nil, false
}
