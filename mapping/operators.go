package mapping

import (
	"fmt"
	"math"
	"strings"

	"github.com/itchyny/gojq"
)

// The operators of jq on exact numbers. gojq calculates every number with a
// fraction as float64, where 19.99 * 100 is 1998.9999999999998; these keep
// jq's rules for all other types and never leave decimal arithmetic. They also
// bound what gojq's own do not: the size of a product of strings, the depth
// and time of a comparison.

type binary func(r *run, x, y any) (any, error)

// operators lists the operators that are replaced.
func operators() map[gojq.Operator]binary {
	order := func(holds func(int) bool) binary {
		return func(r *run, x, y any) (any, error) {
			n, err := compare(r, x, y)
			return holds(n), err
		}
	}
	return map[gojq.Operator]binary{
		gojq.OpAdd: add,
		gojq.OpSub: subtract,
		gojq.OpMul: multiply,
		gojq.OpDiv: divide,
		gojq.OpMod: modulo,
		gojq.OpEq:  order(func(n int) bool { return n == 0 }),
		gojq.OpNe:  order(func(n int) bool { return n != 0 }),
		gojq.OpLt:  order(func(n int) bool { return n < 0 }),
		gojq.OpLe:  order(func(n int) bool { return n <= 0 }),
		gojq.OpGt:  order(func(n int) bool { return n > 0 }),
		gojq.OpGe:  order(func(n int) bool { return n >= 0 }),
	}
}

// updateOperator gives the operator behind +=, -=, *=, /= and %=.
func updateOperator(op gojq.Operator) (gojq.Operator, bool) {
	switch op {
	case gojq.OpUpdateAdd:
		return gojq.OpAdd, true
	case gojq.OpUpdateSub:
		return gojq.OpSub, true
	case gojq.OpUpdateMul:
		return gojq.OpMul, true
	case gojq.OpUpdateDiv:
		return gojq.OpDiv, true
	case gojq.OpUpdateMod:
		return gojq.OpMod, true
	}
	return 0, false
}

func mismatch(verb string, x, y any) error {
	return fmt.Errorf("cannot %s %s and %s", verb, typeName(x), typeName(y))
}

func add(r *run, x, y any) (any, error) {
	if x == nil {
		return y, nil
	}
	if y == nil {
		return x, nil
	}
	if isNumber(x) && isNumber(y) {
		return addition().apply(x, y)
	}
	switch x := x.(type) {
	case string:
		if y, ok := y.(string); ok {
			if err := r.text(len(x) + len(y)); err != nil {
				return nil, err
			}
			return x + y, nil
		}
	case []any:
		if y, ok := y.([]any); ok {
			return concat(r, x, y)
		}
	case map[string]any:
		if y, ok := y.(map[string]any); ok {
			if err := r.produce((len(x) + len(y)) * memberBytes); err != nil {
				return nil, err
			}
			return merged(x, y), nil
		}
	}
	return nil, mismatch("add", x, y)
}

func concat(r *run, x, y []any) (any, error) {
	if len(x) == 0 {
		return y, nil
	}
	if len(y) == 0 {
		return x, nil
	}
	if err := r.produce((len(x) + len(y)) * elementBytes); err != nil {
		return nil, err
	}
	return append(append(make([]any, 0, len(x)+len(y)), x...), y...), nil
}

func merged(x, y map[string]any) map[string]any {
	m := make(map[string]any, len(x)+len(y))
	for k, v := range x {
		m[k] = v
	}
	for k, v := range y {
		m[k] = v
	}
	return m
}

func subtract(r *run, x, y any) (any, error) {
	if isNumber(x) && isNumber(y) {
		return subtraction().apply(x, y)
	}
	xs, ok := x.([]any)
	ys, both := y.([]any)
	if !ok || !both {
		return nil, mismatch("subtract", x, y)
	}
	out := make([]any, 0, len(xs))
	for _, v := range xs {
		found, err := contained(r, v, ys)
		if err != nil {
			return nil, err
		}
		if !found {
			out = append(out, v)
		}
	}
	return out, nil
}

func contained(r *run, v any, list []any) (bool, error) {
	for _, e := range list {
		if n, err := compare(r, v, e); err != nil || n == 0 {
			return err == nil, err
		}
	}
	return false, nil
}

func multiply(r *run, x, y any) (any, error) {
	switch x := x.(type) {
	case string:
		if isNumber(y) {
			return repeat(r, x, y)
		}
	case map[string]any:
		if y, ok := y.(map[string]any); ok {
			return deepMerge(r, x, y, 0)
		}
	default:
		if s, ok := y.(string); ok && isNumber(x) {
			return repeat(r, s, x)
		}
		if isNumber(x) && isNumber(y) {
			return multiplication().apply(x, y)
		}
	}
	return nil, mismatch("multiply", x, y)
}

// repeat follows jq: a count below zero gives null.
func repeat(r *run, s string, count any) (any, error) {
	if compareNumbers(count, 0) < 0 || notFinite(count) && math.IsNaN(floatOf(count)) {
		return nil, nil
	}
	n, err := wholePart(count)
	if err != nil {
		return nil, r.stop(r.limits.errText())
	}
	if len(s) > 0 && n > r.limits.text/len(s) {
		return nil, r.stop(r.limits.errText())
	}
	if err := r.text(len(s) * n); err != nil {
		return nil, err
	}
	return strings.Repeat(s, n), nil
}

// wholePart cuts a number to an int; an error means that it does not fit.
func wholePart(v any) (int, error) {
	if notFinite(v) {
		return 0, errTooManyDigits
	}
	v, err := roundNumber(v, towardZero)
	if err != nil {
		return 0, err
	}
	i, ok := asInt(v)
	if !ok {
		return 0, errTooManyDigits
	}
	return i, nil
}

func deepMerge(r *run, x, y map[string]any, depth int) (any, error) {
	if depth > maxValueDepth {
		return nil, r.stop(errTooDeep)
	}
	if err := r.produce((len(x) + len(y)) * memberBytes); err != nil {
		return nil, err
	}
	if err := r.spend(len(y)); err != nil {
		return nil, err
	}
	m := merged(x, y)
	for k, v := range y {
		inner, ok := x[k].(map[string]any)
		if !ok {
			continue
		}
		if v, ok := v.(map[string]any); ok {
			both, err := deepMerge(r, inner, v, depth+1)
			if err != nil {
				return nil, err
			}
			m[k] = both
		}
	}
	return m, nil
}

func divide(r *run, x, y any) (any, error) {
	if isNumber(x) && isNumber(y) {
		return division().apply(x, y)
	}
	s, ok := x.(string)
	sep, both := y.(string)
	if !ok || !both {
		return nil, mismatch("divide", x, y)
	}
	return split(r, s, sep)
}

func split(r *run, s, sep string) (any, error) {
	if s == "" {
		return []any{}, nil
	}
	n := strings.Count(s, sep) + 1
	if err := r.produce(n * 2 * elementBytes); err != nil {
		return nil, err
	}
	parts := make([]any, 0, n)
	for _, p := range strings.Split(s, sep) {
		parts = append(parts, p)
	}
	return parts, nil
}

func modulo(_ *run, x, y any) (any, error) {
	if isNumber(x) && isNumber(y) {
		return remainder().apply(x, y)
	}
	return nil, mismatch("divide", x, y)
}
