package mapping

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"unicode"

	"github.com/cockroachdb/apd/v3"
)

// The decimal functions take strings and numbers and give strings, so that a
// result passes any later step with its zeros: "12.50" stays "12.50".

// maxPlaces bounds the decimal places a program may ask for.
const maxPlaces = 100

var (
	errEmptyDecimal = errors.New("the value is an empty string; use dec_or(x; default) where it may be missing")
	errNullDecimal  = errors.New("the value is null; use dec_or(x; default) where it may be missing")
)

// toDecimal reads a decimal out of a value of the event.
func toDecimal(v any) (*apd.Decimal, error) {
	switch v := v.(type) {
	case nil:
		return nil, errNullDecimal
	case string:
		s := strings.TrimFunc(v, unicode.IsSpace)
		if s == "" {
			return nil, errEmptyDecimal
		}
		d, err := parseDecimal(s)
		if errors.Is(err, errNotDecimal) {
			return nil, fmt.Errorf("the string is not a decimal number such as 12.50%s", decimalAdvice(s))
		}
		return d, err
	}
	if !isNumber(v) {
		return nil, fmt.Errorf("a decimal must be a string or a number but is %s", typeName(v))
	}
	return decimalOfNumber(v)
}

// decimalAdvice names the usual reason without showing the value.
func decimalAdvice(s string) string {
	switch {
	case strings.Contains(s, ","):
		return "; it holds a comma"
	case strings.ContainsFunc(s, unicode.IsSpace):
		return "; it holds a blank"
	case strings.ContainsFunc(s, func(r rune) bool { return unicode.Is(unicode.Sc, r) }):
		return "; it holds a currency sign"
	}
	return ""
}

func decText(d *apd.Decimal, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	s, err := plainText(d)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func fnDec(_ *run, _ any, args []any) (any, error) {
	return decText(toDecimal(args[0]))
}

func fnDecOr(r *run, in any, args []any) (any, error) {
	s, isText := args[0].(string)
	if args[0] == nil || isText && strings.TrimFunc(s, unicode.IsSpace) == "" {
		if args[1] == nil {
			return nil, nil
		}
		return decText(toDecimal(args[1]))
	}
	return fnDec(r, in, args)
}

func fnNum(_ *run, _ any, args []any) (any, error) {
	d, err := toDecimal(args[0])
	if err != nil {
		return nil, err
	}
	return numberWithZeros(d)
}

// exactFn makes dec_add, dec_sub and dec_mul.
func exactFn(op func(*apd.Context, *apd.Decimal, *apd.Decimal, *apd.Decimal) (apd.Condition, error)) callFunc {
	return func(_ *run, _ any, args []any) (any, error) {
		l, r, err := twoDecimals(args)
		if err != nil {
			return nil, err
		}
		var d apd.Decimal
		if err := exact(op)(&d, l, r); err != nil {
			return nil, err
		}
		return decText(&d, nil)
	}
}

func twoDecimals(args []any) (l, r *apd.Decimal, err error) {
	if l, err = toDecimal(args[0]); err != nil {
		return nil, nil, fmt.Errorf("first argument: %w", err)
	}
	if r, err = toDecimal(args[1]); err != nil {
		return nil, nil, fmt.Errorf("second argument: %w", err)
	}
	return l, r, nil
}

func fnDecSum(r *run, _ any, args []any) (any, error) {
	list, ok := args[0].([]any)
	if !ok {
		return nil, fmt.Errorf("an array of decimals was expected but there is %s", typeName(args[0]))
	}
	if err := r.spend(len(list)); err != nil {
		return nil, err
	}
	sum := apd.New(0, 0)
	for i, v := range list {
		d, err := toDecimal(v)
		if err != nil {
			return nil, fmt.Errorf("element %d: %w", i, err)
		}
		if err := exact((*apd.Context).Add)(sum, sum, d); err != nil {
			return nil, err
		}
	}
	return decText(sum, nil)
}

func fnDecCmp(_ *run, _ any, args []any) (any, error) {
	l, r, err := twoDecimals(args)
	if err != nil {
		return nil, err
	}
	return l.Cmp(r), nil
}

func fnDecRound(_ *run, _ any, args []any) (any, error) {
	d, err := toDecimal(args[0])
	if err != nil {
		return nil, err
	}
	places, err := placesArg(args[1])
	if err != nil {
		return nil, err
	}
	mode, err := modeArg(args[2])
	if err != nil {
		return nil, err
	}
	return decText(roundTo(d, places, mode))
}

// fnDecDiv rounds the true quotient once, whatever its length.
func fnDecDiv(_ *run, _ any, args []any) (any, error) {
	l, r, err := twoDecimals(args)
	if err != nil {
		return nil, err
	}
	places, err := placesArg(args[2])
	if err != nil {
		return nil, err
	}
	mode, err := modeArg(args[3])
	if err != nil {
		return nil, err
	}
	if r.IsZero() {
		return nil, errDivideByZero
	}
	// l / r = (lc / rc) · 10^shift; scale the fraction so that one whole
	// division gives the wanted places, and let the remainder decide.
	num, den := new(big.Int).Set(l.Coeff.MathBigInt()), new(big.Int).Set(r.Coeff.MathBigInt())
	shift := int64(l.Exponent) - int64(r.Exponent) + int64(places)
	if shift >= 0 {
		num.Mul(num, powerOfTen(shift))
	} else {
		den.Mul(den, powerOfTen(-shift))
	}
	q, rest := new(big.Int).QuoRem(num, den, new(big.Int))
	half := rest.Lsh(rest, 1).Cmp(den)
	if half > 0 || half == 0 && (mode == halfUp || q.Bit(0) == 1) {
		q.Add(q, big.NewInt(1))
	}
	d := apd.NewWithBigInt(new(apd.BigInt).SetMathBigInt(q), int32(-places))
	d.Negative = l.Negative != r.Negative
	return decText(d, nil)
}

func powerOfTen(n int64) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil)
}

func fnMinorToDec(_ *run, _ any, args []any) (any, error) {
	d, err := toDecimal(args[0])
	if err != nil {
		return nil, err
	}
	places, err := placesArg(args[1])
	if err != nil {
		return nil, err
	}
	if d.Exponent < 0 {
		var whole, fraction apd.Decimal
		d.Modf(&whole, &fraction)
		if !fraction.IsZero() {
			return nil, errors.New("an amount in minor units must be a whole number")
		}
		d = &whole
	}
	for ; d.Exponent > 0; d.Exponent-- {
		d.Coeff.Mul(&d.Coeff, apd.NewBigInt(10))
	}
	d.Exponent -= int32(places)
	return decText(d, nil)
}

// rounding is a rule for what lies exactly between two values.
type rounding string

const (
	halfEven  rounding = "half_even" // to the even neighbour
	halfUp    rounding = "half_up"   // away from zero
	exactOnly rounding = "exact"     // money only: nothing may be lost
)

func modeArg(v any) (rounding, error) {
	switch v {
	case string(halfEven), string(halfUp):
		return rounding(v.(string)), nil
	}
	return "", errors.New(`rounding must be "half_even" or "half_up"`)
}

func placesArg(v any) (int, error) {
	n, ok := asInt(v)
	if !ok || n < 0 || n > maxPlaces {
		return 0, fmt.Errorf("decimal places must be a whole number from 0 to %d", maxPlaces)
	}
	return n, nil
}

func roundTo(d *apd.Decimal, places int, mode rounding) (*apd.Decimal, error) {
	ctx := apd.BaseContext.WithPrecision(4 * maxDigits)
	ctx.Rounding = apd.RoundHalfEven
	if mode == halfUp {
		ctx.Rounding = apd.RoundHalfUp
	}
	out := new(apd.Decimal)
	lost, err := ctx.Quantize(out, d, int32(-places))
	if err != nil {
		return nil, errTooManyDigits
	}
	if mode == exactOnly && lost.Inexact() {
		return nil, fmt.Errorf("the amount has more than %d decimal places", places)
	}
	return out, nil
}

// fnMoney is money(x; currency) and money(x; currency; mode).
func fnMoney(_ *run, _ any, args []any) (any, error) {
	d, err := toDecimal(args[0])
	if err != nil {
		return nil, err
	}
	places, err := currencyArg(args[1])
	if err != nil {
		return nil, err
	}
	mode := halfEven
	if len(args) == 3 {
		if mode, err = moneyModeArg(args[2]); err != nil {
			return nil, err
		}
	}
	return decText(roundTo(d, places, mode))
}

func moneyModeArg(v any) (rounding, error) {
	if v == string(exactOnly) {
		return exactOnly, nil
	}
	if mode, err := modeArg(v); err == nil {
		return mode, nil
	}
	return "", errors.New(`rounding must be "half_even", "half_up" or "exact"`)
}

func currencyArg(v any) (places int, err error) {
	code, ok := v.(string)
	if !ok {
		return 0, fmt.Errorf("currency must be a string such as \"EUR\" but is %s", typeName(v))
	}
	places, ok = currencyPlaces(strings.ToUpper(strings.TrimSpace(code)))
	if !ok {
		return 0, errors.New("unknown currency; ISO 4217 has no code like it with a minor unit")
	}
	return places, nil
}
