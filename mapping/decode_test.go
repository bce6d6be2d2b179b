package mapping

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Numbers that lose digits in a float64 or their form in any decoder that
// makes numbers of them.
var exactNumbers = []string{
	"0", "-0", "1", "-1", "123456789012345678", "1234567890123456789", "9007199254740993", "9223372036854775807",
	"9223372036854775808", "-9223372036854775808", "12345678901234567890", "12345678901234567890123",
	"1.0", "1.10", "12.50", "0.10", "-0.00", "1e3", "1E3", "1e+3", "1.5e-7", "1e400", "1e-400", "0.1000000000000000055511151231257827",
	"228930314431312345",
}

func TestNumbersPassThroughDigitForDigit(t *testing.T) {
	p := mustCompile(t, Source{Map: `{a: .n, b: {c: [.n]}, d: (.list | map(.)), e: (.o | to_entries | from_entries)}`})
	for _, n := range exactNumbers {
		pairs, err := mapOnce(t, p, `{"n":`+n+`,"list":[`+n+`],"o":{"x":`+n+`}}`)
		if err != nil {
			t.Errorf("%s: %v", n, err)
			continue
		}
		want := `{"a":` + n + `,"b":{"c":[` + n + `]},"d":[` + n + `],"e":{"x":` + n + `}}`
		if got := string(pairs[0].Body); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestNumberKeysKeepTheirDigits(t *testing.T) {
	p := mustCompile(t, Source{Map: "{n}", Key: ".n"})
	for _, n := range exactNumbers {
		pairs, err := mapOnce(t, p, `{"n":`+n+`}`)
		if err != nil || pairs[0].Key != n {
			t.Errorf("key of %s: %v, %v", n, pairs, err)
		}
	}
}

func TestBodiesThatAreRead(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"byte-order mark":                 {"\xef\xbb\xbf{\"id\":1}", `{"id":1}`},
		"blank lines":                     {"\n\r\n\t {\"id\":1} \n", `{"id":1}`},
		"blank lines, mark":               {"\n\ufeff\n{\"id\":1}", `{"id":1}`},
		"escapes":                         {`{"a":"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"}`, `{"a":"\"\\/\b\f\n\r\té😀"}`},
		"no HTML escaping":                {`{"a":"<b>&\u2028"}`, "{\"a\":\"<b>&\u2028\"}"},
		"nul":                             {`{"note":"abc\u0000def"}`, `{"note":"abc\u0000def"}`},
		"delete":                          {"{\"a\":\"\x7f\"}", "{\"a\":\"\x7f\"}"},
		"high surrogate alone":            {`{"a":"x\ud83dy"}`, `{"a":"x�y"}`},
		"low surrogate alone":             {`{"a":"\udc18"}`, `{"a":"�"}`},
		"surrogates the wrong way":        {`{"a":"\ude00\ud83d"}`, `{"a":"��"}`},
		"high surrogate, then escape":     {`{"a":"\ud83d\n"}`, `{"a":"�\n"}`},
		"invalid UTF-8":                   {"{\"a\":\"x\xff\xfey\"}", `{"a":"x�y"}`},
		"members sorted":                  {`{"b":1,"a":2,"B":3,"é":4}`, `{"B":3,"a":2,"b":1,"é":4}`},
		"member twice, same value":        {`{"a":[1,{"b":"x"}],"a":[1,{"b":"x"}]}`, `{"a":[1,{"b":"x"}]}`},
		"member thrice, same value":       {`{"a":1,"b":2,"a":1,"a":1}`, `{"a":1,"b":2}`},
		"empty containers":                {`{"a":{},"b":[ ],"c":{ }}`, `{"a":{},"b":[],"c":{}}`},
		"member with an escape":           {`{"\u0061":1}`, `{"a":1}`},
		"200 levels":                      {`{"a":` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + `}`, `{"a":` + strings.Repeat("[", 199) + strings.Repeat("]", 199) + `}`},
		"objects nested in arrays":        {`{"a":[{"b":[{"c":[1,2]},{"d":null}]},true,false]}`, `{"a":[{"b":[{"c":[1,2]},{"d":null}]},true,false]}`},
		"empty text is not a missing one": {`{"a":"","b":null}`, `{"a":"","b":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			pairs, err := mapOnce(t, mustCompile(t, Source{Map: "."}), c.body)
			if err != nil || string(pairs[0].Body) != c.want {
				t.Errorf("got %v, %v; want %s", pairs, err, c.want)
			}
		})
	}
}

func TestBodiesThatAreRefusedSayWhere(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"nothing":                 {"", "event body: nothing there at byte 0"},
		"blanks":                  {" \n", "event body: nothing there at byte 2"},
		"warning before":          {"<br />\n<b>Warning</b>{\"id\":1}", "event body: not JSON at byte 0"},
		"notice behind":           {"{\"id\":12}\n<br />PHP Notice", "event body: text after the end of the JSON value at byte 10"},
		"two values":              {"{} {}", "event body: text after the end of the JSON value at byte 3"},
		"cut short":               {`{"lines":[{"a":1},{"b":`, "event body: field lines[1].b: ends too early at byte 23"},
		"cut in a string":         {`{"a":"x`, "event body: field a: a string has no end at byte 5"},
		"missing comma":           {`{"a":[1 2]}`, "event body: field a: a comma or ']' is missing at byte 8"},
		"missing colon":           {`{"a" 1}`, "event body: a colon is missing at byte 5"},
		"comma at the end":        {`{"a":1,}`, "event body: a member name in quotes is missing at byte 7"},
		"comma at the end, list":  {`[1,]`, "event body: field [1]: not JSON at byte 3"},
		"single quotes":           {`{'a':1}`, "event body: a member name in quotes is missing at byte 1"},
		"leading zero":            {`{"a":007}`, "event body: field a: not a JSON number at byte 5"},
		"no digit after point":    {`{"a":1.}`, "event body: field a: not a JSON number at byte 5"},
		"no digit in exponent":    {`{"a":1e+}`, "event body: field a: not a JSON number at byte 5"},
		"plus":                    {`{"a":+1}`, "event body: field a: not JSON at byte 5"},
		"minus alone":             {`{"a":-}`, "event body: field a: not a JSON number at byte 5"},
		"NaN":                     {`{"a":NaN}`, "event body: field a: not JSON at byte 5"},
		"nul word":                {`{"a":nul}`, "event body: field a: not JSON at byte 5"},
		"raw line end":            {"{\"a\":\"x\ny\"}", "event body: field a: a control character in a string at byte 7"},
		"raw nul after escape":    {"{\"a\":\"\\n\x00\"}", "event body: field a: a control character in a string at byte 8"},
		"unknown escape":          {`{"a":"\x"}`, "event body: field a: not an escape of JSON at byte 6"},
		"short escape":            {`{"a":"\u12"}`, "event body: field a: not an escape of JSON at byte 6"},
		"signed escape":           {`{"a":"\u+123"}`, "event body: field a: not an escape of JSON at byte 6"},
		"too deep":                {strings.Repeat("[", 201), "event body: field " + strings.Repeat("[0]", 66) + "[0…: nested deeper than 200 levels at byte 200"},
		"member twice":            {`{"o":{"total":1,"x":2,"total":3}}`, "event body: field o.total: an object has this member twice, with different values; the object ends at byte 32"},
		"member twice, 1 and 1.0": {`{"a":1,"a":1.0}`, "event body: field a: an object has this member twice, with different values; the object ends at byte 15"},
		"field that is no name":   {`{"a b":[{"é\"":x}]}`, `event body: field ["a b"][0]["é\""]: not JSON at byte 16`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mapOnce(t, mustCompile(t, Source{Map: "."}), c.body)
			if err == nil || err.Error() != c.want {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestBodyOverTheLimitIsRefused(t *testing.T) {
	p := mustCompile(t, Source{Map: "{n: length}"})
	if _, err := p.Map(t.Context(), make([]byte, MaxBodyBytes+1), Meta{}); err == nil ||
		err.Error() != "event body: 16777217 bytes long, more than 16777216" {
		t.Errorf("got %v", err)
	}
	body := []byte(`["` + strings.Repeat("x", MaxBodyBytes-4) + `"]`)
	if _, err := p.Map(t.Context(), body, Meta{}); err != nil {
		t.Errorf("a body of exactly the limit: %v", err)
	}
}

func TestKeyWithABrokenCharacterIsRefused(t *testing.T) {
	p := mustCompile(t, Source{Map: "{id}", Key: ".id"})
	for name, body := range map[string]string{"half a pair": `{"id":"A\ud800"}`, "invalid UTF-8": "{\"id\":\"A\xff\"}"} {
		if _, err := mapOnce(t, p, body); err == nil ||
			err.Error() != "key: holds a character that is broken in the event, so it may not be the record's own" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if pairs, err := mapOnce(t, p, `{"id":"A\ufffd"}`); err != nil || pairs[0].Key != "A\ufffd" {
		t.Errorf("a replacement character that the source sent itself: %v, %v", pairs, err)
	}
}

// The decoder agrees with encoding/json on every JSON text it is given.
func TestDecoderAgreesWithEncodingJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyJSON(4).Draw(t, "v")
		body, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want any
		d := json.NewDecoder(strings.NewReader(string(body)))
		d.UseNumber()
		if err := d.Decode(&want); err != nil {
			t.Fatal(err)
		}
		got, _, err := decode(body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if !reflect.DeepEqual(withNumbers(got), want) {
			t.Fatalf("%s decoded to %v", body, got)
		}
	})
}

func anyJSON(depth int) *rapid.Generator[any] {
	scalar := rapid.OneOf(
		rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }),
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.Float64(), func(f float64) any { return f }),
		rapid.Map(rapid.String(), func(s string) any { return s }),
	)
	if depth == 0 {
		return scalar
	}
	inner := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(depth - 1) })
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(a []any) any { return a }),
		rapid.Map(rapid.MapOfN(rapid.String(), inner, 0, 4), func(m map[string]any) any { return m }))
}

// withNumbers turns the ints of decode into the json.Number of the standard
// decoder.
func withNumbers(v any) any {
	switch v := v.(type) {
	case int:
		text, _ := numberText(v)
		return json.Number(text)
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = withNumbers(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = withNumbers(e)
		}
		return out
	}
	return v
}
