package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzMap gives any body to programs of the usual kinds. What comes out must
// be what the documentation promises of a Pair.
func FuzzMap(f *testing.F) {
	f.Add(orderJSON)
	for _, s := range []string{
		`{}`, `null`, `[1.10,12345678901234567890,1e3,-0]`, `{"a":1,"a":2}`, `{"a":"\ud83d"}`, "\xef\xbb\xbf{\"a\":\"\xff\"}", `{"$ref":{"entity":"e","key":"k"}}`,
		strings.Repeat("[", 150) + strings.Repeat("]", 150), `{"id":" x\u200b ","l":[{"p":"1.10"},{"p":null}],"t":"2026-11-29T10:00:00+01:00"}`,
	} {
		f.Add([]byte(s))
	}
	programs := []*Program{
		mustCompile(f, Source{Map: "{v: .}"}),
		mustCompile(f, Source{Map: ".[]? | {v: ., k: (try tojson catch \"k\")[:100]}", Key: `.k`}),
		mustCompile(f, Source{Map: `{id: (.id? // "k"), l: [.l[]?.p? | dec_or(.; "0") | dec_add(.; "1.1")], t: (try parse_time(.t) catch null), p: ref("p"; .id? // "x"; "optional")}`, Key: ".id"}),
		mustCompile(f, Source{Map: `walk(if type == "number" then . * 3 / 7 + 1 elif type == "string" then truncate(.; 3) | gsub("[aeiou]"; "") else . end) | {v: ., s: ([.. | scalars] | sort | unique)}`}),
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for i, p := range programs {
			pairs, err := p.Map(context.Background(), body, testMeta())
			if err != nil {
				var failed *Error
				if !errors.As(err, &failed) || strings.Contains(err.Error(), "unexpectedly") {
					t.Fatalf("program %d: %v", i, err)
				}
				continue
			}
			for _, pair := range pairs {
				checkPromises(t, pair)
			}
		}
	})
}

func checkPromises(t *testing.T, pair Pair) {
	t.Helper()
	if key, err := NormalizeKey(pair.Key); err != nil || key != pair.Key {
		t.Fatalf("key %q is not in normal form: %q, %v", pair.Key, key, err)
	}
	if !json.Valid(pair.Body) || !utf8.Valid(pair.Body) {
		t.Fatalf("not JSON: %q", pair.Body)
	}
	refs, err := FindRefs(pair.Body)
	if err != nil || !slices.Equal(refs, pair.Refs) {
		t.Fatalf("%s: refs %v, found %v, %v", pair.Body, pair.Refs, refs, err)
	}
	out, missing, err := ResolveRefs(pair.Body, func(Ref) (json.RawMessage, bool) { return json.RawMessage(`"link"`), true })
	if err != nil || missing != nil || !json.Valid(out) {
		t.Fatalf("%s: resolved to %s, %v, %v", pair.Body, out, missing, err)
	}
	// canonical: reading and writing changes nothing
	v, _, err := decode(out)
	if err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	again := encoder{limit: MaxBodyBytes, owner: newRefMaker()}
	if err := again.value(v, 0); err != nil || !bytes.Equal(again.buf, out) {
		t.Fatalf("%s is written as %s, %v", out, again.buf, err)
	}
}

// FuzzProgram compiles and runs any program. It must end, with an error or
// without, and never in a panic.
func FuzzProgram(f *testing.F) {
	for _, s := range []string{orderMap, orderMapFull, "{a: .b}", `"\(1 + 2)"`, "def f(g; $x): g | f(.; $x); f(1; 2)", ".a[1:2] |= map(. + 1)", "reduce .[] as [$x] (0; . + $x)", "[limit(3; repeat(.))] | transpose",
		`gsub("(?<x>a)"; .x)`, "try error catch .", "label $a | break $a", `@csv "\([1])"`, "{(.a): 1, $meta, \"b\": 2}", ". as {a: [$x]} ?// $x | $x", "..|numbers", `parse_time("2026-11-29 10:00:00"; "%F %T"; "Europe/Berlin")`, "1.10 * -2e3 % 7", "getpath([\"a\", 0]) = 1", "[.[]?] | sort_by(.) | group_by(.)[0]",
		"def f: f; f", "[[1,2]]|combinations", "ref(\"a\";\"b\")|tojson", "path(..)", "input", "$__loc__", "import \"a\" as b; b::c", "{a:1}|.a as $b|$b", "?", "'x'", "\"\\(", "{"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, program string) {
		p, err := Compile(Source{Map: program, Key: `"k"`, Timeout: 5 * time.Second})
		if err != nil {
			var e *CompileError
			if !errors.As(err, &e) || e.Offset > len(program) || e.Offset >= 0 && (e.Line < 1 || e.Col < 1) || strings.Contains(e.Msg, "makes the compiler fail") {
				t.Fatalf("%q: %T %v", program, err, err)
			}
			return
		}
		lowerLimits(p)
		for _, body := range []string{`{"a":{"b":[1,2.50,"x"]},"b":"ab","l":[{"p":1}],"id":12345678901234567890}`, `null`} {
			_, err := p.Map(context.Background(), []byte(body), testMeta())
			if err != nil && (strings.Contains(err.Error(), "unexpectedly") || strings.Contains(err.Error(), "too long: more than 5s")) {
				t.Fatalf("%q: %v", program, err)
			}
		}
	})
}

func FuzzResolveRefs(f *testing.F) {
	for _, s := range []string{
		`{"a":{"$ref":{"entity":"party","key":"C1"}}}`, `[{"$ref":{"entity":"p","key":"1","optional":true}},"$ref"]`, `{"\u0024ref":{"key":"a","entity":"b"}}`, `{"$ref":1}`, `{"a":"\"$ref\""`,
		`{"x":1,"$ref":{"entity":"p","key":"1"}}`, `{"$ref":{"entity":"p","key":"1"},"x":1}`, strings.Repeat(`{"a":`, 199) + `{"$ref":{"entity":"p","key":"1"}}` + strings.Repeat("}", 199),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := slices.Clone(body)
		refs, err := FindRefs(body)
		out, missing, rerr := ResolveRefs(body, func(r Ref) (json.RawMessage, bool) { return json.RawMessage("17"), len(r.Key)%3 != 0 })
		if !bytes.Equal(body, before) {
			t.Fatal("the body was changed")
		}
		if (err == nil) != (rerr == nil) {
			t.Fatalf("FindRefs: %v, ResolveRefs: %v", err, rerr)
		}
		if err != nil || missing != nil || refs == nil {
			return
		}
		if json.Valid(body) && !json.Valid(out) {
			t.Fatalf("%s became %s", body, out)
		}
		if left, err := FindRefs(out); err != nil || left != nil {
			t.Fatalf("%s became %s, which has the refs %v, %v", body, out, left, err)
		}
	})
}

func FuzzNormalizeKey(f *testing.F) {
	for _, s := range []string{"SKU123 ", "\u00a0SKU123", "SKU\u200b123", "CAFE\u0301-1", "\uff21\uff22-1", "@x", "a\x00b", "\xff", "\u1100\u1161\u11a8", " \u0301", "a\u0327\u0301", strings.Repeat("\u0301", 100), "\u202a+49\u202c"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		checkNormalForm(t, s)
		if key, err := NormalizeKey(s); err == nil {
			if key == "" || len(key) > MaxKeyBytes || !utf8.ValidString(key) || strings.TrimSpace(key) != key || key[0] == '@' || hasControl(key) {
				t.Fatalf("NormalizeKey(%q) = %q", s, key)
			}
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range [][2]string{
		{"2026-11-29T10:00:00+08:00", "%F %T"}, {"2026-11-29 10:00:00 +08", "%F %T %z"}, {"2026-03-29 02:30:00", "%F %T"}, {"29/11/26 1:05 pm", "%d/%m/%y %I:%M %p"}, {"Sun, 29 Nov 2026", "%a, %d %b %Y"}, {"1795946400", "%s"}, {"2026-02-31T00:00:00Z", "%FT%T%z"}, {"0001-01-01T00:00:00.999999999999-23:59", "%Y%m%d"}, {"9999-12-31T23:59:59-01:00", "%%%"},
	} {
		f.Add(s[0], s[1])
	}
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text, layout string) {
		if v, err := fnParseTime(newRun(), nil, []any{text}); err == nil {
			got, err := time.Parse(time.RFC3339Nano, v.(string))
			if err != nil || !strings.HasSuffix(v.(string), "Z") {
				t.Fatalf("parse_time(%q) = %v: %v", text, v, err)
			}
			if want, err := time.Parse(time.RFC3339Nano, text); err == nil && !want.Equal(got) {
				t.Fatalf("parse_time(%q) = %v, Go says %v", text, got, want)
			}
		}
		expanded, err := layoutArg(layout)
		if err != nil {
			return
		}
		got, err := parseLayout(text, expanded, zone)
		if err != nil {
			return
		}
		// what a layout reads, it writes so that it reads the same again
		if strings.Contains(expanded, "%y") || strings.Contains(expanded, "%f") || !strings.Contains(expanded, "%S") {
			return
		}
		written := formatLayout(got.In(zone).Truncate(time.Second), expanded)
		again, err := parseLayout(written, expanded, zone)
		if err == nil && again.Sub(got.Truncate(time.Second)).Abs() > time.Hour {
			t.Fatalf("%q by %q is %v, written as %q it is %v", text, layout, got, written, again)
		}
	})
}
