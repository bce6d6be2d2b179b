package jsonscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// The standard library is the judge of the grammar; it lets bad UTF-8 through, which we do not.
func agrees(t *testing.T, text []byte) {
	t.Helper()
	if depth := bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{")); depth > MaxDepth {
		return
	}
	want := json.Valid(text) && utf8.Valid(text)
	if err := Valid(text); (err == nil) != want {
		t.Errorf("Valid(%q) = %v, encoding/json says %v", text, err, want)
	}
}

var texts = []string{
	``, ` `, `null`, `nul`, `nulll`, `true`, `tru`, `false`, `fals3`, `0`, `-0`, `-`, `+1`, `01`, `-01`, `1.`, `.5`, `1.5`, `1e`, `1e+`, `1E-7`, `1e5x`,
	`1.5e300`, `123456789012345678901234567890.1234567890`, `NaN`, `Infinity`, `""`, `"`, `"a`, `"\`, `"\"`, `"\\"`, `"\x"`, `"\u12"`, `"\u12g4"`, `"\u0000"`, `"\ud800"`,
	"\"tab\there\"", "\"new\nline\"", "\"\x00\"", "\"del\x7f\"", `"exactly8"`, `"exactly 16 bytes"`, `"quote at the 8th byte \"."`, "\"caf\u00e9\"", "\"\u2028\"",
	"\"\xff\"", "\"\xc3\"", "\"\xed\xa0\x80\"", `{}`, `{ }`, `{"a":1}`, `{"a":1,}`, `{"a" : 1 , "b":[ ]}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":1 "b":2}`, `{"a":1]`, `{,}`,
	`[]`, `[1,2]`, `[1,]`, `[,1]`, `[1 2]`, `[`, `]`, `[[[]]]`, `[}`, `{"a":{"b":[{"c":null}]}}`, "\ufeff{}", `{} {}`, `{}x`, " \t\r\n{}\n", "\v{}", `{"a":1}` + "\x00",
}

func TestValidAgreesWithTheStandardLibrary(t *testing.T) {
	for _, text := range texts {
		agrees(t, []byte(text))
		// The same at every alignment of the eight bytes that a string is read by.
		for n := range 9 {
			agrees(t, fmt.Appendf(nil, "[%q,%s]", strings.Repeat("x", n), text))
		}
	}
}

func FuzzValidAgreesWithTheStandardLibrary(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		agrees(t, text)
		if Valid(text) == nil && Kind(bytes.TrimSpace(text)) == '"' {
			var want string
			if err := json.Unmarshal(text, &want); err != nil || Text(bytes.Trim(text, " \t\r\n")) != want {
				t.Errorf("Text(%q) = %q, encoding/json gives %q", text, Text(bytes.TrimSpace(text)), want)
			}
		}
	})
}

func TestObjectHandsOutMembersAsTheyAreWritten(t *testing.T) {
	const text = ` {"id":9007199254740993, "price" : 1.50,"na\u006de":"caf\u00e9 \ud83d\ude00","tags":[1, 2 ],"id":null} `
	var got []string
	err := Object([]byte(text), func(k, v []byte) error {
		got = append(got, string(k)+"="+string(v))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `id=9007199254740993|price=1.50|name="caf\u00e9 \ud83d\ude00"|tags=[1, 2 ]|id=null`
	if s := strings.Join(got, "|"); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}

func TestObjectStopsAtTheCallersError(t *testing.T) {
	enough := errors.New("enough")
	calls := 0
	err := Object([]byte(`{"a":1,"b":2,"c":broken`), func(_, _ []byte) error {
		if calls++; calls == 2 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) || calls != 2 {
		t.Errorf("err = %v after %d calls", err, calls)
	}
}

func TestErrorsSayWhereAndWhat(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"cut off":       {`{"a":"b`, "a string without its end at byte 7"},
		"not an object": {`[1]`, "not an object at byte 0"},
		"leading zero":  {`{"a":007}`, "a number with a leading zero at byte 5"},
		"no comma":      {`{"a":1 "b":2}`, "expected a comma or the end of the object at byte 7"},
		"more after it": {`{"a":1}{"a":2}`, "something follows the value at byte 7"},
		"latin-1":       {"{\"a\":\"caf\xe9\"}", "not UTF-8 at byte 9"},
		"too deep":      {`{"a":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`, "nested deeper than 1000 at byte 1004"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Object([]byte(c.text), func(_, _ []byte) error { return nil })
			if err == nil || err.Error() != c.want {
				t.Errorf("err = %v, want %s", err, c.want)
			}
		})
	}
}

func TestArrayHandsOutElements(t *testing.T) {
	var got []string
	if err := Array([]byte(`[1, "a,]" ,[2],{"b":3}]`), func(v []byte) error { got = append(got, string(v)); return nil }); err != nil {
		t.Fatal(err)
	}
	if s := strings.Join(got, "|"); s != `1|"a,]"|[2]|{"b":3}` {
		t.Errorf("got %s", s)
	}
}

func TestScalarKeepsDigits(t *testing.T) {
	for value, want := range map[string]string{`12345678901234567890123`: "12345678901234567890123", `1.50`: "1.50", `"007"`: "007", `true`: "true", `"a\/b"`: "a/b", `"\ud800x"`: "\ufffdx"} {
		if got, ok := Scalar([]byte(value)); !ok || got != want {
			t.Errorf("Scalar(%s) = %q, %v", value, got, ok)
		}
	}
	for _, value := range []string{`null`, `[]`, `{}`, ``} {
		if got, ok := Scalar([]byte(value)); ok {
			t.Errorf("Scalar(%s) = %q, want none", value, got)
		}
	}
}

func TestAppendQuotedIsReadBackTheSame(t *testing.T) {
	for _, text := range []string{"", "plain", "a\"b\\c", "tab\tnl\ncr\r", "\x00\x1f\x7f", "caf\u00e9 \U0001f600", "a\xffb", "\xff", "end\xc3"} {
		var back string
		if err := json.Unmarshal(AppendQuoted(nil, text), &back); err != nil || back != strings.ToValidUTF8(text, "\ufffd") {
			t.Errorf("AppendQuoted(%q) = %s, read back %q, %v", text, AppendQuoted(nil, text), back, err)
		}
	}
}

// order is a document of some 4 KB as shops send them.
func order() []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":5001234567890,"name":"#1001","updated_at":"2026-11-29T10:00:00Z","currency":"EUR","note":"Please leave at the door","lines":[`)
	for i := range 12 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"id":%d,"sku":"SKU-%05d","title":"Blue cotton shirt, size M","quantity":%d,"price":"19.99","tax_lines":[{"title":"VAT","rate":0.19,"price":"3.19"}],"properties":{"gift":false,"engraving":null},"vendor":"acme","fulfillment_status":"unfulfilled","weight":250}`, 900000+i, i, i+1)
	}
	b.WriteString(`],"shipping_address":{"name":"Ada Example","street":"Invalidenstr. 116","zip":"10115","city":"Berlin","country":"DE"}}`)
	return b.Bytes()
}

func BenchmarkObject(b *testing.B) {
	text := order()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if err := Object(text, func(_, _ []byte) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStandardLibraryValid(b *testing.B) {
	text := order()
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if !json.Valid(text) {
			b.Fatal("not valid")
		}
	}
}
