package mapping

import (
	"cmp"
	"encoding/json"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// compare orders two values as jq does (null, false, true, numbers, strings,
// arrays, objects), with numbers compared digit for digit: two ids that differ
// in their last digit are different, whatever their length.
func compare(r *run, x, y any) (int, error) {
	c := comparison{run: r}
	n := c.values(x, y, 0)
	return n, c.err
}

type comparison struct {
	run *run
	err error
}

func (c *comparison) values(x, y any, depth int) int {
	if c.err != nil {
		return 0
	}
	if c.err = c.run.spend(1); c.err != nil {
		return 0
	}
	if depth > maxValueDepth {
		c.err = c.run.stop(errTooDeep)
		return 0
	}
	if tx, ty := typeRank(x), typeRank(y); tx != ty {
		return cmp.Compare(tx, ty)
	}
	switch x := x.(type) {
	case string:
		return strings.Compare(x, y.(string))
	case []any:
		return c.arrays(x, y.([]any), depth)
	case map[string]any:
		return c.objects(x, y.(map[string]any), depth)
	}
	if isNumber(x) {
		return compareNumbers(x, y)
	}
	return 0
}

func (c *comparison) arrays(x, y []any, depth int) int {
	for i := range min(len(x), len(y)) {
		if n := c.values(x[i], y[i], depth+1); n != 0 {
			return n
		}
	}
	return cmp.Compare(len(x), len(y))
}

func (c *comparison) objects(x, y map[string]any, depth int) int {
	kx, ky := sortedKeys(x), sortedKeys(y)
	if c.err = c.run.spend(len(kx) + len(ky)); c.err != nil {
		return 0
	}
	if n := slices.Compare(kx, ky); n != 0 {
		return n
	}
	for _, k := range kx {
		if n := c.values(x[k], y[k], depth+1); n != 0 {
			return n
		}
	}
	return 0
}

func sortedKeys(m map[string]any) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func typeRank(v any) int {
	switch v := v.(type) {
	case nil:
		return 0
	case bool:
		if v {
			return 2
		}
		return 1
	case int, json.Number, float64, *big.Int:
		return 3
	case string:
		return 4
	case []any:
		return 5
	}
	return 6
}

func compareNumbers(x, y any) int {
	if xi, ok := asInt(x); ok {
		if yi, ok := asInt(y); ok {
			return cmp.Compare(xi, yi)
		}
	}
	if notFinite(x) || notFinite(y) {
		return compareFloats(beyond(x), beyond(y))
	}
	xt, _ := numberText(x)
	yt, _ := numberText(y)
	return compareDecimalText(xt, yt)
}

// beyond is v where v is not finite; every finite number lies between the
// infinities, and where is all the same.
func beyond(v any) float64 {
	if notFinite(v) {
		return v.(float64)
	}
	return 0
}

// compareFloats orders NaN below every number, itself included, as jq does.
func compareFloats(x, y float64) int {
	switch {
	case x < y || math.IsNaN(x):
		return -1
	case x == y:
		return 0
	}
	return 1
}

// compareDecimalText compares two JSON numbers by their digits, without limit
// on their size and without building the number.
func compareDecimalText(x, y string) int {
	a, b := digitsOf(x), digitsOf(y)
	if a.sign != b.sign {
		return cmp.Compare(a.sign, b.sign)
	}
	if a.sign == 0 {
		return 0
	}
	n := cmp.Compare(a.exponent, b.exponent)
	if n == 0 {
		n = compareDigits(a, b)
	}
	return a.sign * n
}

// digitRun is a number as 0.d1d2d3… · 10^exponent with d1 ≠ 0. The digits
// stand in whole followed by fraction, to spare joining them.
type digitRun struct {
	sign            int
	whole, fraction string
	exponent        int64
}

func digitsOf(s string) digitRun {
	d := digitRun{sign: 1}
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			d.sign = -1
		}
		s = s[1:]
	}
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		d.exponent = clampedExponent(s[i+1:])
		s = s[:i]
	}
	d.whole, d.fraction, _ = strings.Cut(s, ".")
	d.whole = strings.TrimLeft(d.whole, "0")
	if d.whole == "" {
		stripped := strings.TrimLeft(d.fraction, "0")
		d.exponent -= int64(len(d.fraction) - len(stripped))
		d.fraction = stripped
	}
	d.exponent += int64(len(d.whole))
	d.fraction = strings.TrimRight(d.fraction, "0")
	if d.whole == "" && d.fraction == "" {
		d.sign = 0
	}
	return d
}

// clampedExponent reads an exponent; what is beyond any text's length is all
// the same to a comparison.
func clampedExponent(s string) int64 {
	e, err := strconv.ParseInt(s, 10, 64)
	const limit = 1 << 40
	if err != nil {
		if strings.HasPrefix(s, "-") {
			return -limit
		}
		return limit
	}
	return min(max(e, -limit), limit)
}

func (d digitRun) len() int { return len(d.whole) + len(d.fraction) }

func (d digitRun) at(i int) byte {
	switch {
	case i < len(d.whole):
		return d.whole[i]
	case i < d.len():
		return d.fraction[i-len(d.whole)]
	}
	return '0'
}

func compareDigits(a, b digitRun) int {
	for i := range max(a.len(), b.len()) {
		if n := cmp.Compare(a.at(i), b.at(i)); n != 0 {
			return n
		}
	}
	return 0
}
