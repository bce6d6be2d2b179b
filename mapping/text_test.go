package mapping

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestTextFunctions(t *testing.T) {
	const in = `{"k":"\u00a0SKU\u200b123 ","n":228930314431312345,"z":null,"po":"4500098765/LOT-22/Cost-Center-7710/Berlin-Nord","d":"Please ring twice \ud83d\udc18 - leave at door"}`
	for name, c := range map[string]struct{ expression, want string }{
		"slug":                              {`slug("Hello, World! 2")`, `"hello-world-2"`},
		"slug, accents":                     {`slug("Ąčęė Ñandú Ångström")`, `"acee-nandu-angstrom"`},
		"slug, letters of their own":        {`slug("Straße Œuvre Łódź Þór Đak ıŁ")`, `"strasse-oeuvre-lodz-thor-dak-il"`},
		"slug, decomposed":                  {`slug("Cafe\u0301")`, `"cafe"`},
		"slug, full width":                  {`slug("ＡＢ１")`, `"ab1"`},
		"slug, dashes at the ends":          {`slug("--a__b--")`, `"a-b"`},
		"slug, number":                      {`slug(1.50)`, `"1-50"`},
		"slug, other script in it":          {`slug("日本 tea")`, `"tea"`},
		"slug, apostrophe":                  {`slug("O'Neill's")`, `"o-neill-s"`},
		"trim_key":                          {`trim_key(.k)`, `"SKU123"`},
		"trim_key, number":                  {`trim_key(.n)`, `"228930314431312345"`},
		"truncate, shorter":                 {`truncate("abc"; 5)`, `"abc"`},
		"truncate, as long":                 {`truncate("abc"; 3)`, `"abc"`},
		"truncate":                          {`truncate(.po; 35)`, `"4500098765/LOT-22/Cost-Center-7710/"`},
		"truncate to nothing":               {`truncate("abc"; 0)`, `""`},
		"truncate null":                     {`truncate(.z; 3)`, `null`},
		"truncate a number":                 {`truncate(.n; 3)`, `"228"`},
		"truncate keeps accents":            {`truncate("cafe\u0301s"; 4)`, `"caf"`},
		"truncate takes accents along":      {`truncate("cafe\u0301s"; 5)`, "\"cafe\u0301\""},
		"truncate keeps emoji sequences":    {`truncate("a👩‍🚀b"; 3)`, `"a"`},
		"truncate takes sequences along":    {`truncate("a👩‍🚀b"; 4)`, `"a👩‍🚀"`},
		"truncate keeps skin tones":         {`truncate("👍🏽👍"; 1)`, `""`},
		"truncate keeps flags":              {`truncate("🇩🇪🇫🇷"; 3)`, `"🇩🇪"`},
		"truncate between flags":            {`truncate("🇩🇪🇫🇷"; 2)`, `"🇩🇪"`},
		"truncate keeps line ends":          {`truncate("a\r\nb"; 2)`, `"a"`},
		"truncate_bytes":                    {`truncate_bytes("ä" * 35; 35) | length`, `17`},
		"truncate_bytes, emoji":             {`truncate_bytes("😀" * 35; 35) | length`, `8`},
		"truncate_utf16, emoji":             {`truncate_utf16("😀" * 35; 35) | length`, `17`},
		"truncate, emoji":                   {`truncate("😀" * 40; 35) | length`, `35`},
		"strip_astral":                      {`strip_astral(.d)`, `"Please ring twice  - leave at door"`},
		"strip_astral, joiner":              {`strip_astral("a👩‍🚀b")`, `"ab"`},
		"strip_astral keeps joiners":        {"strip_astral(\"क्\u200dष\")", "\"क्\u200dष\""},
		"strip_astral null":                 {`strip_astral(.z)`, `null`},
		"uuid5 of a UUID":                   {`uuid5("6ba7b810-9dad-11d1-80b4-00c04fd430c8"; "python.org")`, `"886313e1-3b8a-5372-9b90-0c9aee199e5d"`},
		"uuid5 of a text":                   {`uuid5("https://shop.example.com"; 55) == uuid5("https://shop.example.com"; "55")`, `true`},
		"uuid5 differs by namespace":        {`uuid5("a"; "1") == uuid5("b"; "1")`, `false`},
		"fit_key, fits":                     {`fit_key(.k; 64)`, `"SKU123"`},
		"fit_key, number":                   {`fit_key(.n; 24)`, `"228930314431312345"`},
		"fit_key, longer than a key may be": {`fit_key("x" * 2000; 40) | length`, `40`},
		"fit_key, never in a character":     {`fit_key("ä" * 30; 30) | utf8bytelength`, `29`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := eval(t, c.expression, in); got != c.want {
				t.Errorf("%s gives %s, want %s", c.expression, got, c.want)
			}
		})
	}
}

func TestTextFunctionsRefuse(t *testing.T) {
	const in = `{"z":null,"o":{},"n":"日本","long":"` + "x" + `","f":1.5,"w":"","c":"a\u0000b"}`
	for expression, want := range map[string]string{
		`slug(.z)`:                     `slug(.z): a string was expected but there is null`,
		`slug(.n)`:                     `slug(.n): nothing of the string is left: it has no letter that becomes a to z, and no digit`,
		`trim_key(.z)`:                 `trim_key(.z): key is null`,
		`trim_key(.w)`:                 `trim_key(.w): key is empty`,
		`trim_key(.o)`:                 `trim_key(.o): key must be a string or a number but is an object`,
		`trim_key("x" * 513)`:          `trim_key("x" * 513): key is 513 bytes long, more than 512; use fit_key(x; n) to shorten it`,
		`truncate(.o; 3)`:              `truncate(.o; 3): a string was expected but there is an object`,
		`truncate("a"; .f)`:            `truncate("a"; .f): the length must be a whole number from 0`,
		`fit_key("a"; .f)`:             `fit_key("a"; .f): the length must be a whole number from 24`,
		`fit_key("a"; 600)`:            `fit_key("a"; 600): the length must be at most 512`,
		`fit_key(.c; 30)`:              `fit_key(.c; 30): key holds the control character U+0000 at byte 1`,
		`fit_key("x" * 600 + .c; 30)`:  `fit_key("x" * 600 + .c; 30): key holds a control character`,
		`fit_key("@" + "x" * 600; 30)`: `fit_key("@" + "x" * 600; 30): key begins with '@', which is reserved; put a prefix before it`,
		`strip_astral(.o)`:             `strip_astral(.o): a string was expected but there is an object`,
		`uuid5(.w; "x")`:               `uuid5(.w; "x"): the namespace and the name must not be empty`,
		`uuid5("x"; .z)`:               `uuid5("x"; .z): name: a string was expected but there is null`,
	} {
		t.Run(expression, func(t *testing.T) {
			_, err := tryEval(t, expression, in)
			if err == nil || err.Error() != "map: field v: "+want {
				t.Errorf("got  %v\nwant map: field v: %s", err, want)
			}
		})
	}
}

func TestCuttingTextFitsAndSplitsNothing(t *testing.T) {
	letters := rapid.RuneFrom([]rune("aé e\u0301\u0327👩\u200d🚀🏽👍🇩🇪ä日\ufe0f❤\r\n"))
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.StringOf(letters).Draw(t, "s")
		n := rapid.IntRange(0, 40).Draw(t, "n")
		for name, size := range map[string]func(rune) int{"characters": oneEach, "bytes": utf8.RuneLen, "units": utf16Units} {
			got := cut(s, n, size)
			if !strings.HasPrefix(s, got) || !utf8.ValidString(got) {
				t.Fatalf("%s: cut(%q, %d) = %q", name, s, n, got)
			}
			used := 0
			for _, r := range got {
				used += size(r)
			}
			if used > n {
				t.Fatalf("%s: cut(%q, %d) = %q uses %d", name, s, n, got, used)
			}
			if cut(got, n, size) != got {
				t.Fatalf("%s: cutting %q again changes it", name, got)
			}
			if rest := s[len(got):]; got != "" && rest != "" {
				last, _ := utf8.DecodeLastRuneInString(got)
				if last == '\u200d' || strings.ContainsRune("\u0301\u0327\u200d\ufe0f🏽", firstRune(rest)) {
					t.Fatalf("%s: cut(%q, %d) = %q splits what belongs together", name, s, n, got)
				}
			}
		}
	})
}
