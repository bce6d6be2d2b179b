package postgres

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// maxExponent bounds exponents: PostgreSQL's numeric has up to 131,072 digits before the point and 16,383 after it, but a number
// written with few bytes should not become one of many.
const maxExponent = 1000

// decimal is a decimal number taken apart: sign, digits without leading zeros, and the power of ten of the last digit.
type decimal struct {
	negative bool
	digits   string
	exp      int
}

// parseDecimal reads a number as JSON, or a text in a record, has it.
func parseDecimal(t string) (decimal, bool) {
	var d decimal
	t = strings.TrimSpace(t)
	if strings.HasPrefix(t, "-") || strings.HasPrefix(t, "+") {
		d.negative, t = t[0] == '-', t[1:]
	}
	if i := strings.IndexAny(t, "eE"); i >= 0 {
		e, err := strconv.Atoi(t[i+1:])
		if err != nil || e > maxExponent || e < -maxExponent {
			return d, false
		}
		d.exp, t = e, t[:i]
	}
	whole, fraction, point := strings.Cut(t, ".")
	if whole == "" && fraction == "" || point && fraction == "" || !allDigits(whole) || !allDigits(fraction) {
		return d, false
	}
	d.exp -= len(fraction)
	d.digits = strings.TrimLeft(whole+fraction, "0")
	return d, true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// trim takes zeros off the end of the digits.
func (d decimal) trim() decimal {
	n := strings.TrimRight(d.digits, "0")
	d.exp += len(d.digits) - len(n)
	d.digits = n
	if n == "" {
		d.exp = 0
	}
	return d
}

// String writes the number without exponent and needless zeros. d must be trimmed.
func (d decimal) String() string {
	if d.digits == "" {
		return "0"
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	switch point := len(d.digits) + d.exp; {
	case d.exp >= 0:
		return sign + d.digits + strings.Repeat("0", d.exp)
	case point > 0:
		return sign + d.digits[:point] + "." + d.digits[point:]
	default:
		return sign + "0." + strings.Repeat("0", -point) + d.digits
	}
}

// whole reads a whole number for an integer column. 5.0 and 1e3 are whole; 1.5 is refused, where a cast would round it.
func whole(t string, bits int) (string, error) {
	if n, err := strconv.ParseInt(t, 10, bits); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	d, ok := parseDecimal(t)
	if !ok {
		return "", errNotNumber
	}
	if d = d.trim(); d.exp < 0 {
		return "", errNotWhole
	}
	if len(d.digits)+d.exp > 19 {
		return "", errRange
	}
	sign := ""
	if d.negative {
		sign = "-"
	}
	n, err := strconv.ParseInt(sign+"0"+d.digits+strings.Repeat("0", d.exp), 10, bits)
	if err != nil {
		return "", errRange
	}
	return strconv.FormatInt(n, 10), nil
}

// numeric reads a number for a numeric column of that modifier, and refuses one that the column would round.
func numeric(t string, mod int32) (string, error) {
	d, ok := parseDecimal(t)
	if !ok {
		return "", errNotNumber
	}
	t = strings.TrimSpace(t)
	if mod < 4 {
		return t, nil
	}
	// numeric(precision, scale), see numeric_typmod_precision in the server's numeric.c; the scale has 11 bits and a sign.
	precision := int(mod-4) >> 16 & 0xffff
	scale := (int(mod-4)&0x7ff ^ 1024) - 1024
	d = d.trim()
	if d.exp < -scale {
		return "", fmt.Errorf("has %d digits after the point, and the column keeps %d; round it in the mapping", -d.exp, max(scale, 0))
	}
	if len(d.digits)+d.exp > precision-scale {
		return "", errRange
	}
	return t, nil
}

// isNumber reports whether a column's values are numbers in JSON.
func isNumber(c *column) bool {
	switch c.oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.NumericOID, pgtype.Float4OID, pgtype.Float8OID:
		return true
	}
	return false
}
