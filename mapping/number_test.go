package mapping

import (
	"fmt"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestArithmeticIsExact(t *testing.T) {
	const in = `{"a":1.10,"b":0.1,"c":0.2,"id":9007199254740993,"long":12345678901234567890,"z":0.00}`
	for expression, want := range map[string]string{
		".a + 1":                            "2.1",
		".b + .c":                           "0.3",
		"19.99 * 100":                       "1999",
		"8.29 * 100":                        "829",
		"4.56 * 100":                        "456",
		".a - .a":                           "0",
		"1 / 3":                             "0.3333333333333333333333333333333333",
		"2 / 3":                             "0.6666666666666666666666666666666667",
		"10 / 4":                            "2.5",
		"10 / 5":                            "2",
		"-7 / 2":                            "-3.5",
		"1e40 / 1":                          "1" + strings.Repeat("0", 40),
		".long + 1":                         "12345678901234567891",
		".long * 10":                        "123456789012345678900",
		".long / 10":                        "1234567890123456789",
		".id + 1":                           "9007199254740994",
		"9223372036854775807 + 1":           "9223372036854775808",
		"-9223372036854775808 - 1":          "-9223372036854775809",
		"-9223372036854775808 * -1":         "9223372036854775808",
		"-9223372036854775808 / -1":         "9223372036854775808",
		"9223372036854775807 * 2":           "18446744073709551614",
		"7 % 3":                             "1",
		"-7 % 3":                            "-1",
		"7.9 % 3.9":                         "1",
		"12345678901234567890 % 7":          "1",
		"5 % -1":                            "0",
		"-.a":                               "-1.10",
		"[.a, .b, .c] | add":                "1.4",
		"add(.a, .b)":                       "1.2",
		"[0.1, 0.1, 0.1] | add":             "0.3",
		".b += .c | .b":                     "0.3",
		".a *= 2 | .a":                      "2.2",
		".a -= 0.1 | .a":                    "1",
		".id /= 2 | .id":                    "4503599627370496.5",
		".id %= 10 | .id":                   "3",
		"1.5 | floor, ceil, round, trunc":   "1",
		"2.5 | round":                       "3",
		"-2.5 | round":                      "-3",
		"2.5 | rint":                        "2",
		"-1.5 | floor":                      "-2",
		"-1.5 | trunc":                      "-1",
		"-1.5 | ceil":                       "-1",
		"-1.5 | fabs":                       "1.5",
		"-1.50 | abs":                       "1.50",
		"9007199254740993.5 | floor":        "9007199254740993",
		"12345678901234567890 | round":      "12345678901234567890",
		`"1.10" | tonumber`:                 "1.10",
		`"12345678901234567890" | tonumber`: "12345678901234567890",
		`"\(.a) \(.long)"`:                  `"1.10 12345678901234567890"`,
		".a | tostring":                     `"1.10"`,
		"[.a, .long] | tojson":              `"[1.10,12345678901234567890]"`,
		"[.a, .long] | @csv":                `"1.10,12345678901234567890"`,
		`[.a, 2] | join("-")`:               `"1.10-2"`,
		`"{\"x\": 1.10}" | fromjson`:        `{"x":1.10}`,
		"1.10":                              "1.10",
		"{x: 12345678901234567890}.x":       "12345678901234567890",
		"1e3":                               "1000",
		".5":                                "0.5",
		"-1.50":                             "-1.50",
		"[range(0; 1; 0.25)]":               "[0,0.25,0.5,0.75]",
		"[range(2; 0; -0.5)]":               "[2,1.5,1,0.5]",
		"[range(3)]":                        "[0,1,2]",
		"[range(1; 1)]":                     "[]",
		"[range(0; 1; 0)]":                  "[]",
		`"ab" * 2.9`:                        `"abab"`,
		`"ab" * 0`:                          `""`,
		`"ab" * -1`:                         "null",
		`0 * "ab"`:                          `""`,
		"16 | sqrt":                         "4",
		"infinite > 1e400":                  "true",
		"nan < 1":                           "true",
		"[nan] == [nan]":                    "false",
		"(infinite - infinite) | isnan":     "true",
		"[1, infinite] | max | isinfinite":  "true",
	} {
		t.Run(expression, func(t *testing.T) {
			pairs, err := mapOnce(t, mustCompile(t, Source{Map: "{v: first(" + expression + ")}"}), in)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSuffix(strings.TrimPrefix(string(pairs[0].Body), `{"v":`), "}"); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestComparisonsAreExact(t *testing.T) {
	const in = `{"a":1780921717355446272,"b":1780921717355446273,"c":12345678901234567890123,"d":12345678901234567890124,
		"e":9007199254740993,"f":9007199254740992.0,"g":0.1,"h":0.10000000000000000001,"i":1.0,"j":1,"k":1e400,"l":1e401,"m":-1e400,"n":100e-2}`
	for _, expression := range []string{
		".a < .b", ".a != .b", ".b > .a", "(.a == .b) | not", ".b >= .a", ".a <= .b", ".c < .d", ".c != .d",
		".e != .f", ".e > .f", ".g != .h", ".g < .h", ".i == .j", ".i == .n", ".k < .l", ".m < .k", ".m < 0", "0 < .k",
		"[.b, .a] | sort | .[0] == $event.a",
		"[.h, .g] | sort | .[0] == $event.g",
		"[{x: .b}, {x: .a}] | sort_by(.x) | .[0].x == $event.a",
		"[.a, .b, .a] | unique | length == 2",
		"[.c, .d] | unique_by(.) | length == 2",
		"[.a, .b] | group_by(.) | length == 2",
		"[.a, .b] | max == $event.b",
		"[.d, .c] | min == $event.c",
		"[{x: .a}, {x: .b}] | max_by(.x).x == $event.b",
		"[{x: .d}, {x: .c}] | min_by(.x).x == $event.c",
		".b | IN($event.a) | not",
		"IN(.b; .a) | not",
		"[.a, .b] - [.a] == [.b]",
		"{x: .a} != {x: .b}",
		"[[.a]] < [[.b]]",
		"[(.a | tostring), (.b | tostring)] | unique | length == 2",
		`({} | .["\($event.a)"] = 1 | .["\($event.b)"] = 2 | length) == 2`,
	} {
		t.Run(expression, func(t *testing.T) {
			if got := eval(t, expression, in); got != "true" {
				t.Errorf("got %s", got)
			}
		})
	}
}

// Decimals of any size, as text.
func decimalText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		s := rapid.SampledFrom([]string{"", "-"}).Draw(t, "sign") + rapid.StringMatching(`(0|[1-9][0-9]{0,25})`).Draw(t, "whole")
		if rapid.Bool().Draw(t, "fraction") {
			s += "." + rapid.StringMatching(`[0-9]{1,20}`).Draw(t, "digits")
		}
		if rapid.Bool().Draw(t, "exponent") {
			s += fmt.Sprintf("e%d", rapid.IntRange(-40, 40).Draw(t, "e"))
		}
		return s
	})
}

func TestArithmeticAgreesWithRationals(t *testing.T) {
	p := mustCompile(t, Source{Map: "{add: (.a + .b), sub: (.a - .b), mul: (.a * .b), lt: (.a < .b), eq: (.a == .b), neg: -.a}"})
	rapid.Check(t, func(rt *rapid.T) {
		a, b := decimalText().Draw(rt, "a"), decimalText().Draw(rt, "b")
		pairs, err := mapOnce(t, p, `{"a":`+a+`,"b":`+b+`}`)
		if err != nil {
			rt.Fatal(err)
		}
		v, _, err := decode(pairs[0].Body)
		if err != nil {
			rt.Fatal(err)
		}
		got := v.(map[string]any)
		x, y := rational(a), rational(b)
		for name, want := range map[string]*big.Rat{
			"add": new(big.Rat).Add(x, y), "sub": new(big.Rat).Sub(x, y), "mul": new(big.Rat).Mul(x, y), "neg": new(big.Rat).Neg(x),
		} {
			text, _ := numberText(got[name])
			if rational(text).Cmp(want) != 0 {
				rt.Fatalf("%s of %s and %s is %s", name, a, b, text)
			}
		}
		if got["lt"] != (x.Cmp(y) < 0) || got["eq"] != (x.Cmp(y) == 0) {
			rt.Fatalf("%s < %s is %v, == is %v", a, b, got["lt"], got["eq"])
		}
	})
}

func rational(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		panic("not a number: " + s)
	}
	return r
}

func TestEveryPriceGivesItsExactCents(t *testing.T) {
	p := mustCompile(t, Source{Map: `{cents: (.p * 100), text: dec_round(dec_mul(.t; 100); 0; "half_even"),
		back: minor_to_dec(.p * 100; 2), money: money(.t; "EUR"; "exact"), sum: ([.p, .p] | add)}`})
	for cents := 1; cents <= 10000; cents++ {
		price := fmt.Sprintf("%d.%02d", cents/100, cents%100)
		pairs, err := mapOnce(t, p, `{"p":`+price+`,"t":"`+price+`"}`)
		if err != nil {
			t.Fatal(err)
		}
		sum := strings.TrimSuffix(fmt.Sprintf("%d.%02d", 2*cents/100, 2*cents%100), ".00")
		if strings.Contains(sum, ".") {
			sum = strings.TrimRight(sum, "0")
		}
		want := fmt.Sprintf(`{"back":"%s","cents":%d,"money":"%s","sum":%s,"text":"%d"}`, price, cents, price, sum, cents)
		if got := string(pairs[0].Body); got != want {
			t.Fatalf("price %s:\n got %s\nwant %s", price, got, want)
		}
	}
}

func TestArithmeticHasLimits(t *testing.T) {
	huge := strings.Repeat("9", 600)
	for expression, want := range map[string]string{
		".a * .a":       "map: field v: .a * .a: number has more than 1000 digits",
		"1e900 * 1e900": "map: field v: 1e900 * 1e900: number has more than 1000 digits",
		".b + 1":        "map: field v: .b + 1: number has more than 1000 digits",
		".b | floor":    "map: field v: floor: number has more than 1000 digits",
		"1 / 0":         "map: field v: 1 / 0: division by zero",
		"1.5 % 0.5":     "map: field v: 1.5 % 0.5: division by zero",
		"1 / 0.0":       "map: field v: 1 / 0.0: division by zero",
		"infinite":      "record: field v: is not a finite number, and JSON has no other",
		"nan":           "record: field v: is not a finite number, and JSON has no other",
	} {
		t.Run(expression, func(t *testing.T) {
			_, err := tryEval(t, expression, `{"a":`+huge+`,"b":1e1000000000}`)
			if err == nil || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
