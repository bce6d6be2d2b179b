package mapping

import (
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Numbers in a mapping are ints, or json.Number with the digits as they were
// written; *big.Int and float64 come only out of jq's own functions. Nothing
// here calculates with float64 except when an operand is NaN or infinite.

// maxDigits bounds exact arithmetic: the digits of an operand or result, and
// the size of an exponent.
const maxDigits = 1000

// divisionDigits is the precision of the / operator where a quotient does not
// end: the 34 digits of IEEE 754 decimal128.
const divisionDigits = 34

var (
	errTooManyDigits = errors.New("number has more than 1000 digits")
	errDivideByZero  = errors.New("division by zero")
)

// isNumber reports whether v is one of the types jq calls a number.
func isNumber(v any) bool {
	switch v.(type) {
	case int, json.Number, float64, *big.Int:
		return true
	}
	return false
}

// asInt returns v as an int where it is an integer that fits, written without
// fraction and exponent.
func asInt(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case json.Number:
		if len(v) > 20 {
			return 0, false
		}
		i, err := strconv.ParseInt(string(v), 10, 0)
		return int(i), err == nil
	}
	return 0, false
}

// numberText gives the decimal text of a number; ok is false for NaN and the
// infinities, which have none.
func numberText(v any) (text string, ok bool) {
	switch v := v.(type) {
	case int:
		return strconv.Itoa(v), true
	case json.Number:
		return string(v), true
	case *big.Int:
		return v.String(), true
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return "", false
		}
		return strconv.FormatFloat(v, 'g', -1, 64), true
	}
	return "", false
}

// decimalSyntax checks [sign] digits [. digits] [e [sign] digits], with at
// least one digit before the exponent, and bounds its size.
func decimalSyntax(s string) error {
	if len(s) > maxDigits+16 {
		return errTooManyDigits
	}
	i, digits := 0, 0
	if i < len(s) && (s[i] == '+' || s[i] == '-') {
		i++
	}
	for ; i < len(s) && isDigit(s[i]); i++ {
		digits++
	}
	if i < len(s) && s[i] == '.' {
		for i++; i < len(s) && isDigit(s[i]); i++ {
			digits++
		}
	}
	if digits == 0 {
		return errNotDecimal
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		i++
		start := i
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		first := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		if i == first {
			return errNotDecimal
		}
		if e, err := strconv.Atoi(s[start:i]); err != nil || e > maxDigits || e < -maxDigits {
			return errTooManyDigits
		}
	}
	if i != len(s) {
		return errNotDecimal
	}
	return nil
}

func isDigit(b byte) bool { return '0' <= b && b <= '9' }

var errNotDecimal = errors.New("not a decimal number such as 12.50")

// parseDecimal reads a decimal text that decimalSyntax accepts.
func parseDecimal(s string) (*apd.Decimal, error) {
	if err := decimalSyntax(s); err != nil {
		return nil, err
	}
	d, _, err := apd.NewFromString(s)
	if err != nil {
		return nil, errTooManyDigits
	}
	if d.IsZero() {
		d.Negative = false
	}
	return d, nil
}

func decimalOfNumber(v any) (*apd.Decimal, error) {
	if i, ok := v.(int); ok {
		return apd.New(int64(i), 0), nil
	}
	text, ok := numberText(v)
	if !ok {
		return nil, errors.New("not a finite number")
	}
	return parseDecimal(text)
}

// plainText writes d without an exponent, keeping its trailing zeros.
func plainText(d *apd.Decimal) (string, error) {
	if d.NumDigits() > maxDigits || d.Exponent > maxDigits || d.Exponent < -2*maxDigits {
		return "", errTooManyDigits
	}
	if d.IsZero() {
		d.Negative = false
	}
	return d.Text('f'), nil
}

// numberOf turns an arithmetic result into a jq number. Zeros at the end of
// the fraction are dropped, as jq itself prints numbers: 19.99 * 100 is 1999.
func numberOf(d *apd.Decimal) (any, error) {
	var r apd.Decimal
	r.Reduce(d)
	return numberWithZeros(&r)
}

// numberWithZeros is numberOf for a number that was read and not calculated:
// its zeros stay.
func numberWithZeros(d *apd.Decimal) (any, error) {
	text, err := plainText(d)
	if err != nil {
		return nil, err
	}
	if len(text) < 19 && !strings.Contains(text, ".") {
		i, err := strconv.Atoi(text)
		return i, err
	}
	return json.Number(text), nil
}

// arithmetic is one of + - * / % on two numbers.
type arithmetic struct {
	ints     func(l, r int) (int, bool) // false: overflow, or not exact
	decimals func(d, l, r *apd.Decimal) error
	floats   func(l, r float64) float64
}

func (a arithmetic) apply(l, r any) (any, error) {
	if li, ok := asInt(l); ok {
		if ri, ok := asInt(r); ok {
			if v, ok := a.ints(li, ri); ok {
				return v, nil
			}
		}
	}
	if notFinite(l) || notFinite(r) {
		return a.floats(floatOf(l), floatOf(r)), nil
	}
	ld, err := decimalOfNumber(l)
	if err != nil {
		return nil, err
	}
	rd, err := decimalOfNumber(r)
	if err != nil {
		return nil, err
	}
	var d apd.Decimal
	if err := a.decimals(&d, ld, rd); err != nil {
		return nil, err
	}
	return numberOf(&d)
}

func notFinite(v any) bool {
	f, ok := v.(float64)
	return ok && (math.IsNaN(f) || math.IsInf(f, 0))
}

// floatOf is used only beside an operand that is itself NaN or infinite.
func floatOf(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	text, _ := numberText(v)
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

func exact(op func(*apd.Context, *apd.Decimal, *apd.Decimal, *apd.Decimal) (apd.Condition, error)) func(d, l, r *apd.Decimal) error {
	return func(d, l, r *apd.Decimal) error {
		if _, err := op(&apd.BaseContext, d, l, r); err != nil {
			return errTooManyDigits
		}
		return nil
	}
}

func addition() arithmetic {
	return arithmetic{
		ints: func(l, r int) (int, bool) {
			v := l + r
			return v, (v >= l) == (r >= 0)
		},
		decimals: exact((*apd.Context).Add),
		floats:   func(l, r float64) float64 { return l + r },
	}
}

func subtraction() arithmetic {
	return arithmetic{
		ints: func(l, r int) (int, bool) {
			v := l - r
			return v, (v <= l) == (r >= 0)
		},
		decimals: exact((*apd.Context).Sub),
		floats:   func(l, r float64) float64 { return l - r },
	}
}

func multiplication() arithmetic {
	return arithmetic{
		ints: func(l, r int) (int, bool) {
			if l == 0 || r == 0 {
				return 0, true
			}
			if l == math.MinInt || r == math.MinInt {
				return 0, false
			}
			v := l * r
			return v, v/r == l
		},
		decimals: exact((*apd.Context).Mul),
		floats:   func(l, r float64) float64 { return l * r },
	}
}

// division is exact where the quotient ends, and otherwise rounded half-even
// to divisionDigits digits.
func division() arithmetic {
	return arithmetic{
		ints: func(l, r int) (int, bool) {
			if r == 0 || r == -1 || l%r != 0 {
				return 0, false
			}
			return l / r, true
		},
		decimals: func(d, l, r *apd.Decimal) error {
			if r.IsZero() {
				return errDivideByZero
			}
			ctx := apd.BaseContext.WithPrecision(uint32(max(divisionDigits, l.NumDigits()+r.NumDigits())))
			ctx.Rounding = apd.RoundHalfEven
			if _, err := ctx.Quo(d, l, r); err != nil {
				return errTooManyDigits
			}
			return nil
		},
		floats: func(l, r float64) float64 { return l / r },
	}
}

// remainder follows jq: both sides are cut to whole numbers first, and the
// result has the sign of the left side.
func remainder() arithmetic {
	return arithmetic{
		ints: func(l, r int) (int, bool) {
			if r == 0 || r == -1 {
				return 0, r == -1
			}
			return l % r, true
		},
		decimals: func(d, l, r *apd.Decimal) error {
			var li, ri, frac apd.Decimal
			l.Modf(&li, &frac)
			r.Modf(&ri, &frac)
			if ri.IsZero() {
				return errDivideByZero
			}
			ctx := apd.BaseContext.WithPrecision(3 * maxDigits)
			if _, err := ctx.Rem(d, &li, &ri); err != nil {
				return errTooManyDigits
			}
			return nil
		},
		floats: func(_, _ float64) float64 { return math.NaN() },
	}
}
