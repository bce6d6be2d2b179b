package mapping

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDecimalFunctions(t *testing.T) {
	const in = `{"p":"19.99","n":1.10,"e":"","blank":" ","z":null,"big":12345678901234567890.55,"list":["1.10",2,"-0.05"],"cur":"kwd"}`
	for expression, want := range map[string]string{
		`dec(.p)`:                                    `"19.99"`,
		`dec(.n)`:                                    `"1.10"`,
		`dec("+007.50")`:                             `"7.50"`,
		`dec("-0.00")`:                               `"0.00"`,
		`dec(".5")`:                                  `"0.5"`,
		`dec("5.")`:                                  `"5"`,
		`dec("1E+3")`:                                `"1000"`,
		`dec("1.5e-3")`:                              `"0.0015"`,
		`dec(.big)`:                                  `"12345678901234567890.55"`,
		`dec("\u00a012.5\n")`:                        `"12.5"`,
		`dec_or(.e; "0.00")`:                         `"0.00"`,
		`dec_or(.blank; 1)`:                          `"1"`,
		`dec_or(.z; null)`:                           `null`,
		`dec_or("0"; 5)`:                             `"0"`,
		`dec_add(.p; .n)`:                            `"21.09"`,
		`dec_add("0.1"; "0.2")`:                      `"0.3"`,
		`dec_sub("5.00"; "7")`:                       `"-2.00"`,
		`dec_mul("1.10"; "1.10")`:                    `"1.2100"`,
		`dec_mul(.p; -1)`:                            `"-19.99"`,
		`dec_div(1; 3; 5; "half_up")`:                `"0.33333"`,
		`dec_div(1; 8; 2; "half_even")`:              `"0.12"`,
		`dec_div(1; 8; 2; "half_up")`:                `"0.13"`,
		`dec_div(-1; 8; 2; "half_up")`:               `"-0.13"`,
		`dec_div(3; 8; 2; "half_even")`:              `"0.38"`,
		`dec_div("119.00"; "1.19"; 2; "half_even")`:  `"100.00"`,
		`dec_div(5; 2; 0; "half_even")`:              `"2"`,
		`dec_div(7; 2; 0; "half_even")`:              `"4"`,
		`dec_div("1e30"; "1e-30"; 0; "half_even")`:   `"1` + strings.Repeat("0", 60) + `"`,
		`dec_sum(.list)`:                             `"3.05"`,
		`dec_sum([])`:                                `"0"`,
		`dec_cmp(.p; "20")`:                          `-1`,
		`dec_cmp("1e2"; 100.0)`:                      `0`,
		`dec_cmp(.big; "12345678901234567890.54")`:   `1`,
		`dec_round("2.345"; 2; "half_up")`:           `"2.35"`,
		`dec_round("2.345"; 2; "half_even")`:         `"2.34"`,
		`dec_round("2.355"; 2; "half_even")`:         `"2.36"`,
		`dec_round("-2.345"; 2; "half_up")`:          `"-2.35"`,
		`dec_round("-2.345"; 2; "half_even")`:        `"-2.34"`,
		`dec_round("2.3450000001"; 2; "half_even")`:  `"2.35"`,
		`dec_round("0.5"; 0; "half_even")`:           `"0"`,
		`dec_round("0.5"; 0; "half_up")`:             `"1"`,
		`dec_round("1.5"; 0; "half_even")`:           `"2"`,
		`dec_round("0.004"; 2; "half_up")`:           `"0.00"`,
		`dec_round("-0.004"; 2; "half_up")`:          `"0.00"`,
		`dec_round("9.999"; 2; "half_up")`:           `"10.00"`,
		`dec_round(7; 3; "half_up")`:                 `"7.000"`,
		`money("705"; "JPY")`:                        `"705"`,
		`money("704.5"; "JPY")`:                      `"704"`,
		`money("705"; "EUR")`:                        `"705.00"`,
		`money("705"; .cur)`:                         `"705.000"`,
		`money("1.00005"; "CLF")`:                    `"1.0000"`,
		`money("2.345"; "USD")`:                      `"2.34"`,
		`money("2.345"; "USD"; "half_up")`:           `"2.35"`,
		`money("12.50"; "EUR"; "exact")`:             `"12.50"`,
		`money("12.5000"; "EUR"; "exact")`:           `"12.50"`,
		`money("16.00"; "JPY"; "exact")`:             `"16"`,
		`money(-0.001; "EUR")`:                       `"0.00"`,
		`minor_to_dec(1999; 2)`:                      `"19.99"`,
		`minor_to_dec("705"; 0)`:                     `"705"`,
		`minor_to_dec(-5; 2)`:                        `"-0.05"`,
		`minor_to_dec(1e3; 2)`:                       `"10.00"`,
		`minor_to_dec("7.0"; 3)`:                     `"0.007"`,
		`minor_to_dec("12345678901234567890123"; 2)`: `"123456789012345678901.23"`,
		`num("1.10")`:                                `1.10`,
		`num("12345678901234567890.10")`:             `12345678901234567890.10`,
		`num("+7")`:                                  `7`,
		`num(dec_add(.p; .n))`:                       `21.09`,
		`[.list[] | money(.; "EUR")] | dec_sum(.)`:   `"3.05"`,
	} {
		t.Run(expression, func(t *testing.T) {
			if got := eval(t, expression, in); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestDecimalFunctionsRefuse(t *testing.T) {
	const in = `{"comma":"1,234.50","blank":"1 234","sign":"€5","word":"free","e":"","z":null,"o":{},"l":[1,null],"c":"EURO","g":"XAU","f":1.5}`
	for expression, want := range map[string]string{
		`dec(.comma)`:                    `dec(.comma): the string is not a decimal number such as 12.50; it holds a comma`,
		`dec(.blank)`:                    `dec(.blank): the string is not a decimal number such as 12.50; it holds a blank`,
		`dec(.sign)`:                     `dec(.sign): the string is not a decimal number such as 12.50; it holds a currency sign`,
		`dec(.word)`:                     `dec(.word): the string is not a decimal number such as 12.50`,
		`dec("Infinity")`:                `dec("Infinity"): the string is not a decimal number such as 12.50`,
		`dec("0x10")`:                    `dec("0x10"): the string is not a decimal number such as 12.50`,
		`dec("1_000")`:                   `dec("1_000"): the string is not a decimal number such as 12.50`,
		`dec("1e99999")`:                 `dec("1e99999"): number has more than 1000 digits`,
		`dec(.e)`:                        `dec(.e): the value is an empty string; use dec_or(x; default) where it may be missing`,
		`dec(.z)`:                        `dec(.z): the value is null; use dec_or(x; default) where it may be missing`,
		`dec(.o)`:                        `dec(.o): a decimal must be a string or a number but is an object`,
		`dec(true)`:                      `dec(true): a decimal must be a string or a number but is a boolean`,
		`dec(nan)`:                       `dec(nan): not a finite number`,
		`dec_or(.word; 0)`:               `dec_or(.word; 0): the string is not a decimal number such as 12.50`,
		`dec_add(.z; 1)`:                 `dec_add(.z; 1): first argument: the value is null; use dec_or(x; default) where it may be missing`,
		`dec_mul(1; .e)`:                 `dec_mul(1; .e): second argument: the value is an empty string; use dec_or(x; default) where it may be missing`,
		`dec_sum(.l)`:                    `dec_sum(.l): element 1: the value is null; use dec_or(x; default) where it may be missing`,
		`dec_sum(.o)`:                    `dec_sum(.o): an array of decimals was expected but there is an object`,
		`dec_div(1; 0; 2; "half_up")`:    `dec_div(1; 0; 2; "half_up"): division by zero`,
		`dec_div(1; 2; .f; "half_up")`:   `dec_div(1; 2; .f; "half_up"): decimal places must be a whole number from 0 to 100`,
		`dec_round(1; 2; .word)`:         `dec_round(1; 2; .word): rounding must be "half_even" or "half_up"`,
		`money(1; .c)`:                   `money(1; .c): unknown currency; ISO 4217 has no code like it with a minor unit`,
		`money(1; .g)`:                   `money(1; .g): unknown currency; ISO 4217 has no code like it with a minor unit`,
		`money(1; .z)`:                   `money(1; .z): currency must be a string such as "EUR" but is null`,
		`money("0.705"; "EUR"; "exact")`: `money("0.705"; "EUR"; "exact"): the amount has more than 2 decimal places`,
		`money("705.5"; "JPY"; "exact")`: `money("705.5"; "JPY"; "exact"): the amount has more than 0 decimal places`,
		`money(1; "EUR"; .word)`:         `money(1; "EUR"; .word): rounding must be "half_even", "half_up" or "exact"`,
		`minor_to_dec(.f; 2)`:            `minor_to_dec(.f; 2): an amount in minor units must be a whole number`,
		`num(.e)`:                        `num(.e): the value is an empty string; use dec_or(x; default) where it may be missing`,
		`.word | tonumber`:               `tonumber: the string is not a number`,
		`.comma | tonumber`:              `tonumber: the string is not a number; it holds a comma`,
	} {
		t.Run(expression, func(t *testing.T) {
			_, err := tryEval(t, expression, in)
			if err == nil || err.Error() != "map: field v: "+want {
				t.Errorf("got  %v\nwant map: field v: %s", err, want)
			}
		})
	}
}

// Totals that differ by where they are rounded; both must come out exactly.
func TestTaxRoundedPerLineAndOnce(t *testing.T) {
	const tax = `def tax($places): dec_round(dec_mul(.; "0.085"); $places; "half_up");
		{line: dec_sum([.lines[] | tax(2)]), once: (dec_sum(.lines) | tax(2)), net: dec_sum(.lines)}`
	pairs, err := mapOnce(t, mustCompile(t, Source{Map: tax}), `{"lines":["598.89","329.84","-59.89","-32.98"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(pairs[0].Body), `{"line":"71.06","net":"835.86","once":"71.05"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	half := `{line: dec_sum([.lines[] | dec_round(dec_mul(.; "0.15"); 2; "half_up")]), once: dec_round(dec_mul(dec_sum(.lines); "0.15"); 2; "half_up")}`
	pairs, err = mapOnce(t, mustCompile(t, Source{Map: half}), `{"lines":["6.70","6.70"]}`)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(pairs[0].Body), `{"line":"2.02","once":"2.01"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRoundingAgreesWithRationals(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, places := decimalText().Draw(t, "a"), rapid.IntRange(0, 30).Draw(t, "places")
		mode := rapid.SampledFrom([]rounding{halfEven, halfUp}).Draw(t, "mode")
		got, err := fnDecRound(nil, nil, []any{a, places, string(mode)})
		if err != nil {
			t.Fatal(err)
		}
		if want := rounded(rational(a), places, mode); got != want {
			t.Fatalf("dec_round(%s; %d; %s) = %s, want %s", a, places, mode, got, want)
		}
		b := decimalText().Draw(t, "b")
		if rational(b).Sign() == 0 {
			return
		}
		got, err = fnDecDiv(nil, nil, []any{a, b, places, string(mode)})
		if err != nil {
			t.Fatal(err)
		}
		if want := rounded(new(big.Rat).Quo(rational(a), rational(b)), places, mode); got != want {
			t.Fatalf("dec_div(%s; %s; %d; %s) = %s, want %s", a, b, places, mode, got, want)
		}
	})
}

// rounded is rounding by the book: the nearest multiple of 10^-places.
func rounded(x *big.Rat, places int, mode rounding) string {
	scale := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	scaled := new(big.Rat).Mul(new(big.Rat).Abs(x), new(big.Rat).SetInt(scale))
	whole := new(big.Int).Quo(scaled.Num(), scaled.Denom())
	rest := new(big.Rat).Sub(scaled, new(big.Rat).SetInt(whole))
	switch rest.Cmp(big.NewRat(1, 2)) {
	case 1:
		whole.Add(whole, big.NewInt(1))
	case 0:
		if mode == halfUp || whole.Bit(0) == 1 {
			whole.Add(whole, big.NewInt(1))
		}
	}
	digits := fmt.Sprintf("%0*s", places+1, whole.String())
	text := digits[:len(digits)-places]
	if places > 0 {
		text += "." + digits[len(digits)-places:]
	}
	if x.Sign() < 0 && whole.Sign() != 0 {
		text = "-" + text
	}
	return text
}

func TestCurrencyPlaces(t *testing.T) {
	codes := 0
	for a := 'A'; a <= 'Z'; a++ {
		for b := 'A'; b <= 'Z'; b++ {
			for c := 'A'; c <= 'Z'; c++ {
				if _, ok := currencyPlaces(string([]rune{a, b, c})); ok {
					codes++
				}
			}
		}
	}
	if codes != 179 {
		t.Errorf("the table has %d currencies", codes)
	}
	for code, want := range map[string]int{"EUR": 2, "USD": 2, "TWD": 2, "HUF": 2, "ISK": 0, "KRW": 0, "JPY": 0, "CLP": 0, "UGX": 0, "IQD": 3, "KWD": 3,
		"TND": 3, "CLF": 4, "UYW": 4, "UYI": 0, "MGA": 2, "MRU": 2, "XCG": 2, "ZWG": 2, "SLE": 2, "HRK": 2, "BGN": 2} {
		if got, ok := currencyPlaces(code); !ok || got != want {
			t.Errorf("%s has %d places, %v; want %d", code, got, ok, want)
		}
	}
	for _, code := range []string{"", "EU", "EURO", "XAU", "XDR", "XXX", "XTS", "ZZZ", "eur"} {
		if _, ok := currencyPlaces(code); ok {
			t.Errorf("%q is in the table", code)
		}
	}
}
