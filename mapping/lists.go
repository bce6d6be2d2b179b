package mapping

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Functions of jq written again, to work on exact numbers and within limits.
// Their results are jq's.

// fnAdd is add and add(f), the latter with the array of what f gives.
func fnAdd(r *run, in any, args []any) (any, error) {
	if len(args) == 1 {
		in = args[0]
	}
	list, err := elements(in)
	if err != nil {
		return nil, err
	}
	return sum(r, list)
}

// elements are those of an array, or the values of an object by its keys.
func elements(v any) ([]any, error) {
	switch v := v.(type) {
	case []any:
		return v, nil
	case map[string]any:
		list := make([]any, 0, len(v))
		for _, k := range sortedKeys(v) {
			list = append(list, v[k])
		}
		return list, nil
	}
	return nil, fmt.Errorf("an array was expected but there is %s", typeName(v))
}

// sum adds a list up. Strings and arrays are gathered first, because adding
// them one by one copies the beginning each time.
func sum(r *run, list []any) (any, error) {
	if err := r.spend(len(list)); err != nil {
		return nil, err
	}
	if s, ok, err := joinStrings(r, list, ""); ok || err != nil {
		return s, err
	}
	if all, ok, err := joinArrays(r, list); ok || err != nil {
		return all, err
	}
	var total any
	var err error
	for _, v := range list {
		if total, err = add(r, total, v); err != nil {
			return nil, err
		}
	}
	return total, nil
}

// joinStrings joins a list of strings and nulls, with at least one string.
func joinStrings(r *run, list []any, sep string) (any, bool, error) {
	n, found := 0, false
	for _, v := range list {
		switch v := v.(type) {
		case nil:
		case string:
			n, found = n+len(v)+len(sep), true
		default:
			return nil, false, nil
		}
	}
	if !found {
		return nil, false, nil
	}
	if err := r.text(n); err != nil {
		return nil, false, err
	}
	var b strings.Builder
	b.Grow(n)
	for i, v := range list {
		if i > 0 {
			b.WriteString(sep)
		}
		s, _ := v.(string)
		b.WriteString(s)
	}
	return b.String(), true, nil
}

func joinArrays(r *run, list []any) (any, bool, error) {
	n, found := 0, false
	for _, v := range list {
		switch v := v.(type) {
		case nil:
		case []any:
			n, found = n+len(v), true
		default:
			return nil, false, nil
		}
	}
	if !found {
		return nil, false, nil
	}
	if err := r.produce(n * elementBytes); err != nil {
		return nil, false, err
	}
	all := make([]any, 0, n)
	for _, v := range list {
		a, _ := v.([]any)
		all = append(all, a...)
	}
	return all, true, nil
}

func fnJoin(r *run, in any, args []any) (any, error) {
	list, err := elements(in)
	if err != nil {
		return nil, err
	}
	sep, ok := args[0].(string)
	if !ok && args[0] != nil {
		return nil, fmt.Errorf("the separator must be a string but is %s", typeName(args[0]))
	}
	if err := r.spend(len(list)); err != nil {
		return nil, err
	}
	texts := make([]any, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case nil, string:
			texts[i] = v
		case bool:
			texts[i] = fmt.Sprint(v)
		default:
			text, ok := numberText(v)
			if !ok {
				return nil, fmt.Errorf("element %d: cannot join %s", i, typeName(v))
			}
			texts[i] = text
		}
	}
	s, ok, err := joinStrings(r, texts, sep)
	if ok || err != nil {
		return s, err
	}
	// nothing, or nothing but nulls
	gaps := max(len(list)-1, 0)
	if err := r.text(len(sep) * gaps); err != nil {
		return nil, err
	}
	return strings.Repeat(sep, gaps), nil
}

func fnSplit(r *run, in any, args []any) (any, error) {
	s, ok := in.(string)
	sep, both := args[0].(string)
	if !ok || !both {
		return nil, fmt.Errorf("cannot split %s by %s", typeName(in), typeName(args[0]))
	}
	return split(r, s, sep)
}

func fnExplode(r *run, in any, _ []any) (any, error) {
	s, err := subject(in)
	if err != nil {
		return nil, err
	}
	if err := r.produce(len(s) * 3 * elementBytes / 2); err != nil {
		return nil, err
	}
	codes := make([]any, 0, len(s))
	for _, c := range s {
		codes = append(codes, int(c))
	}
	return codes, nil
}

func fnToNumber(_ *run, in any, _ []any) (any, error) {
	s, ok := in.(string)
	if !ok {
		if isNumber(in) {
			return in, nil
		}
		return nil, fmt.Errorf("%s is not a number", typeName(in))
	}
	d, err := parseDecimal(strings.TrimSpace(s))
	if err != nil {
		return nil, fmt.Errorf("the string is not a number%s", decimalAdvice(s))
	}
	return numberWithZeros(d)
}

func fnFromJSON(r *run, in any, _ []any) (any, error) {
	s, err := subject(in)
	if err != nil {
		return nil, err
	}
	if err := r.produce(len(s) * 8); err != nil {
		return nil, err
	}
	return decodeText(s)
}

// direction of roundNumber.
type direction int

const (
	towardZero direction = iota
	down
	up
	nearest     // a half goes away from zero
	nearestEven // a half goes to the even neighbour
)

// roundNumber rounds to a whole number.
func roundNumber(v any, to direction) (any, error) {
	if _, ok := asInt(v); ok || notFinite(v) {
		return v, nil
	}
	d, err := decimalOfNumber(v)
	if err != nil {
		return nil, err
	}
	ctx := apd.BaseContext.WithPrecision(4 * maxDigits)
	switch to {
	case towardZero:
		ctx.Rounding = apd.RoundDown
	case down:
		ctx.Rounding = apd.RoundFloor
	case up:
		ctx.Rounding = apd.RoundCeiling
	case nearest:
		ctx.Rounding = apd.RoundHalfUp
	case nearestEven:
		ctx.Rounding = apd.RoundHalfEven
	}
	var out apd.Decimal
	if _, err := ctx.Quantize(&out, d, 0); err != nil {
		return nil, errTooManyDigits
	}
	return numberOf(&out)
}

func roundFn(to direction) callFunc {
	return func(_ *run, in any, _ []any) (any, error) {
		if !isNumber(in) {
			return nil, fmt.Errorf("a number was expected but there is %s", typeName(in))
		}
		return roundNumber(in, to)
	}
}

// keyed is an element with what it is sorted by.
type keyed struct{ value, key any }

// sorting makes sort, sort_by, group_by and their like from what they do with
// the sorted elements. With one argument it is the array of keys.
func sorting(finish func(r *run, list []keyed) (any, error)) callFunc {
	return func(r *run, in any, args []any) (any, error) {
		list, err := keyedElements(in, args)
		if err != nil {
			return nil, err
		}
		if err := r.produce(len(list) * 3 * elementBytes); err != nil {
			return nil, err
		}
		var failed error
		slices.SortStableFunc(list, func(a, b keyed) int {
			if failed != nil {
				return 0
			}
			n, err := compare(r, a.key, b.key)
			failed = err
			return n
		})
		if failed != nil {
			return nil, failed
		}
		return finish(r, list)
	}
}

func keyedElements(in any, args []any) ([]keyed, error) {
	values, ok := in.([]any)
	if !ok {
		return nil, fmt.Errorf("an array was expected but there is %s", typeName(in))
	}
	keys := values
	if len(args) == 1 {
		if keys, ok = args[0].([]any); !ok || len(keys) != len(values) {
			return nil, errors.New("there must be one key for each element")
		}
	}
	list := make([]keyed, len(values))
	for i, v := range values {
		list[i] = keyed{v, keys[i]}
	}
	return list, nil
}

func inOrder(_ *run, list []keyed) (any, error) {
	out := make([]any, len(list))
	for i, e := range list {
		out[i] = e.value
	}
	return out, nil
}

func grouped(r *run, list []keyed) (any, error) {
	out := []any{}
	for i, e := range list {
		same, err := sameKey(r, list, i)
		if err != nil {
			return nil, err
		}
		if same {
			last := len(out) - 1
			out[last] = append(out[last].([]any), e.value)
		} else {
			out = append(out, []any{e.value})
		}
	}
	return out, nil
}

func firstOfEach(r *run, list []keyed) (any, error) {
	out := []any{}
	for i, e := range list {
		same, err := sameKey(r, list, i)
		if err != nil {
			return nil, err
		}
		if !same {
			out = append(out, e.value)
		}
	}
	return out, nil
}

func sameKey(r *run, list []keyed, i int) (bool, error) {
	if i == 0 {
		return false, nil
	}
	n, err := compare(r, list[i-1].key, list[i].key)
	return n == 0, err
}

// extreme makes min, max and their _by forms: the first least, the last
// greatest, null of an empty array.
func extreme(better func(n int) bool) callFunc {
	return func(r *run, in any, args []any) (any, error) {
		list, err := keyedElements(in, args)
		if err != nil || len(list) == 0 {
			return nil, err
		}
		best := list[0]
		for _, e := range list[1:] {
			n, err := compare(r, e.key, best.key)
			if err != nil {
				return nil, err
			}
			if better(n) {
				best = e
			}
		}
		return best.value, nil
	}
}

// counter is range: it gives its numbers one by one.
type counter struct {
	run           *run
	next, end, by any
}

func (c *counter) Next() (any, bool) {
	sign := compareNumbers(c.by, 0)
	if sign == 0 || sign*compareNumbers(c.next, c.end) >= 0 {
		return nil, false
	}
	v := c.next
	next, err := addition().apply(c.next, c.by)
	if err != nil {
		return c.run.stop(err), true
	}
	c.next = next
	return v, true
}
