package mapping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pgregory.net/rapid"
)

func TestNormalizeKey(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                         {"SKU123", "SKU123"},
		"blank behind":                  {"SKU123 ", "SKU123"},
		"no-break space before":         {"\u00a0SKU123", "SKU123"},
		"tab before":                    {"\tSKU123", "SKU123"},
		"line end behind":               {"SKU123\r\n", "SKU123"},
		"zero-width space inside":       {"SKU\u200b123", "SKU123"},
		"byte-order mark before":        {"\ufeffSKU123", "SKU123"},
		"direction mark from a paste":   {"\u202a+49 30 1\u202c", "+49 30 1"},
		"soft hyphen":                   {"SKU\u00ad123", "SKU123"},
		"blank under a zero-width one":  {"\u200b SKU123 \u200b", "SKU123"},
		"blank inside stays":            {"SKU 123", "SKU 123"},
		"composed":                      {"CAF\u00c9-1", "CAF\u00c9-1"},
		"decomposed":                    {"CAFE\u0301-1", "CAF\u00c9-1"},
		"case stays":                    {"aBc9", "aBc9"},
		"full width stays":              {"\uff21\uff22-1", "\uff21\uff22-1"},
		"variation selector stays":      {"\u2764\ufe0f", "\u2764\ufe0f"},
		"longest":                       {strings.Repeat("x", 512), strings.Repeat("x", 512)},
		"at sign inside":                {"a@b", "a@b"},
		"long only by invisible things": {strings.Repeat("\u200b", 1000) + "a", "a"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NormalizeKey(c.in)
			if err != nil || got != c.want {
				t.Errorf("NormalizeKey(%q) = %q, %v; want %q", c.in, got, err, c.want)
			}
		})
	}
}

func TestNormalizeKeyRefuses(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"empty":             {"", "key is empty"},
		"blank":             {" \u00a0\t", "key is empty"},
		"invisible":         {"\u200b\ufeff", "key is empty"},
		"too long":          {strings.Repeat("x", 513), "key is 513 bytes long, more than 512; use fit_key(x; n) to shorten it"},
		"too long in bytes": {strings.Repeat("ä", 257), "key is 514 bytes long, more than 512; use fit_key(x; n) to shorten it"},
		"far too long":      {strings.Repeat("x", 1<<20), "key is longer than 512 bytes; use fit_key(x; n) to shorten it"},
		"nul":               {"a\x00b", "key holds the control character U+0000 at byte 1"},
		"line end inside":   {"a\nb", "key holds the control character U+000A at byte 1"},
		"C1 control":        {"ä\u0090", "key holds the control character U+0090 at byte 2"},
		"invalid UTF-8":     {"a\xffb", "key is not valid UTF-8"},
		"reserved":          {"@a", "key begins with '@', which is reserved; put a prefix before it"},
		"reserved, hidden":  {"\u200b @a", "key begins with '@', which is reserved; put a prefix before it"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := NormalizeKey(c.in)
			if err == nil || err.Error() != c.want {
				t.Errorf("NormalizeKey(%q) = %q, %v; want the error %q", c.in, got, err, c.want)
			}
		})
	}
}

func TestNormalFormOfANormalFormIsItself(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune(" a\u0301\u0327\u200b\u00a0É\u1100\u1161\u11a8@\ufeff")))).Draw(t, "s")
		checkNormalForm(t, s)
	})
}

func checkNormalForm(t interface{ Fatalf(string, ...any) }, s string) {
	once, err := NormalizeKey(s)
	if err != nil {
		return
	}
	twice, err := NormalizeKey(once)
	if err != nil || twice != once {
		t.Fatalf("normal form of %q is %q, but the normal form of that is %q, %v", s, once, twice, err)
	}
}

func TestLongKeysThatBeginAlikeNeverMeet(t *testing.T) {
	long := strings.Repeat("k", 64)
	a, b := eval(t, `fit_key("`+long+`000001"; 64)`, "null"), eval(t, `fit_key("`+long+`000002"; 64)`, "null")
	if a == b {
		t.Errorf("both keys became %s", a)
	}
	rapid.Check(t, func(rt *rapid.T) {
		s := rapid.StringN(1, 200, 700).Draw(rt, "s")
		n := rapid.IntRange(minFitKey, MaxKeyBytes).Draw(rt, "n")
		v, err := fnFitKey(newRun(), nil, []any{s, n})
		if err != nil {
			return
		}
		got := v.(string)
		if len(got) > n {
			rt.Fatalf("fit_key(%q; %d) is %d bytes long", s, n, len(got))
		}
		if again, err := NormalizeKey(got); err != nil || again != got {
			rt.Fatalf("fit_key(%q; %d) = %q is not in normal form: %q, %v", s, n, got, again, err)
		}
		if whole, err := NormalizeKey(s); err == nil && len(whole) <= n && whole != got {
			rt.Fatalf("fit_key(%q; %d) changed a key that fits to %q", s, n, got)
		}
	})
}

// A key that is a path is read without jq, and says the same of every record.
func TestAKeyThatIsAPathIsWhatJQGives(t *testing.T) {
	for _, path := range []string{".a", ".a.b", ".a.b.c"} {
		plain, jq := mustCompile(t, Source{Map: ".", Key: path, Group: path}), mustCompile(t, Source{Map: ".", Key: "(" + path + ")", Group: "(" + path + ")"})
		if plain.idle[0].key.path == nil || jq.idle[0].key.path != nil {
			t.Fatalf("%s: the two are not read in two ways", path)
		}
		for _, record := range []string{`{}`, `{"a":"x"}`, `{"a":1.10}`, `{"a":null}`, `{"a":[1]}`, `{"a":{"b":"y"}}`, `{"a":{"b":{"c":true}}}`, `{"a":{"b":{"c":7}}}`, `{"a":{"b":[]}}`, `{"a":{}}`} {
			got, gerr := mapOnce(t, plain, record)
			want, werr := mapOnce(t, jq, record)
			if diff := cmp.Diff(want, got); diff != "" || fmt.Sprint(gerr) != fmt.Sprint(werr) {
				t.Errorf("%s of %s: %v, jq gives %v (-jq +path)\n%s", path, record, gerr, werr, diff)
			}
		}
	}
}
