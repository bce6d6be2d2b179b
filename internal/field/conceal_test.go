package field

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// everyByte and everyRune write a text with an escape for each.
func everyByte(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

func everyRune(s, format string) string {
	var b strings.Builder
	for _, r := range s {
		fmt.Fprintf(&b, format, r)
	}
	return b.String()
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return string(b[1 : len(b)-1])
}

// escapings are the ways in which texts come back from servers, proxies and libraries.
var escapings = map[string]func(string) string{
	"none":                   func(s string) string { return s },
	"of a path":              url.PathEscape,
	"of a query":             url.QueryEscape,
	"of Go":                  func(s string) string { return strings.Trim(strconv.Quote("."+s+"."), `".`) },
	"of Go as ASCII":         func(s string) string { return strings.Trim(strconv.QuoteToASCII("."+s+"."), `".`) },
	"of JSON":                inJSON,
	"of HTML":                html.EscapeString,
	"of JSON with slashes":   func(s string) string { return strings.ReplaceAll(inJSON(s), "/", `\/`) },
	"percent, every byte":    func(s string) string { return everyByte(s, "%%%02X") },
	"percent, small letters": func(s string) string { return everyByte(s, "%%%02x") },
	"decimal entities":       func(s string) string { return everyRune(s, "&#%d;") },
	"hexadecimal entities":   func(s string) string { return everyRune(s, "&#x%X;") },
	`\u for every character`: bmp,
	"percent, some bytes":    someBytes,
}

// someBytes percent-encodes what it must, and of the rest the odd ones.
func someBytes(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c == '%' || c >= 0x80 || c%2 == 1 {
			fmt.Fprintf(&b, "%%%02X", c)
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// bmp writes every character as one or two \u.
func bmp(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			q := strconv.QuoteToASCII(string(r)) // "\U0001f511", which JSON has as a pair
			b.WriteString(q[1 : len(q)-1])
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// makes are secrets of every make.
var makes = []string{
	"abcdef", "shpat_0123456789abcdef", "p/w+d=x%41&<b>\"q'\\z", "with blank & tab\tend", "grüße-日本語", "key-🔑🔑-key", `back\\slash\"es\n`,
	"dGhpcyBpcyBiYXNlNjQ=", "%2525%25x", "&amp;amp;secret", "a.b~c_d-e", "<script>alert</script>", `\u0041\u0042`, `a \ within`,
}

func TestSecretIsCutOutHoweverItIsEscaped(t *testing.T) {
	for _, secret := range makes {
		r := &Resolver{}
		r.Conceal(secret)
		for inner, first := range escapings {
			for outer, second := range escapings {
				text := second("refused: «" + first(secret) + "» end")
				if want, got := second("refused: «")+hidden+second("» end"), r.Redact(text); got != want {
					t.Errorf("%q: %s, then %s\n text: %s\n  got: %s\n want: %s", secret, inner, outer, text, got, want)
				}
			}
		}
	}
}

func TestSecretIsCutOutOfWhatIsEncodedTogetherWithIt(t *testing.T) {
	encodings := map[string]func([]byte) string{
		"base64": base64.StdEncoding.EncodeToString, "base64 without padding": base64.RawStdEncoding.EncodeToString,
		"base64 for URLs": base64.URLEncoding.EncodeToString, "base64 for URLs without padding": base64.RawURLEncoding.EncodeToString,
	}
	for _, secret := range makes {
		if len(secret) < 8 {
			continue // six bytes in the middle of a group leave too little to be found
		}
		r := &Resolver{}
		r.Conceal(secret)
		for name, encode := range encodings {
			for _, before := range []string{"", "u", "us", "usr", "ann:", "user:"} {
				for _, after := range []string{"", "x", "xy", "xyz"} {
					for how, escape := range escapings {
						word := encode([]byte(before + secret + after))
						text := escape("Basic " + word + " end")
						got := r.Redact(text)
						left := strings.Contains(got, escape(word))
						for i := range len(word) - 5 {
							left = left || strings.Contains(got, word[i:i+6])
						}
						if !strings.Contains(got, hidden) || left {
							t.Errorf("%q within %q and %q, %s, escaped %s:\n text: %s\n  got: %s", secret, before, after, name, how, text, got)
						}
					}
				}
			}
		}
		for _, digits := range []string{hex.EncodeToString([]byte(secret)), fmt.Sprintf("%X", secret)} {
			if got := r.Redact("key 00" + digits + "ff end"); got != "key 00"+hidden+"ff end" {
				t.Errorf("hexadecimal: %s", got)
			}
		}
	}
}

func TestSecretIsCutOutWhereTheTextWasShortenedWithinIt(t *testing.T) {
	for _, secret := range makes {
		if len(secret) < minCutOff+4 {
			continue
		}
		r := &Resolver{}
		r.Conceal(secret)
		for name, escape := range escapings {
			whole := []rune("refused: " + escape(secret))
			for n := range whole {
				for _, mark := range []string{"", "…", "…: and more"} {
					got := r.Redact(string(whole[:n]) + mark)
					for part := minCutOff; part <= len(secret); part++ {
						if shown := escape(secret[:part]); strings.Contains(got, shown) && !strings.Contains(hidden, shown) && utf8Whole(secret, part) {
							t.Fatalf("%q, escaped %s, cut after %d: %s", secret, name, n, got)
						}
					}
				}
			}
		}
	}
}

func utf8Whole(s string, n int) bool { return n == len(s) || s[n]&0xc0 != 0x80 }

func TestPasswordInASecretAddressIsASecretByItself(t *testing.T) {
	r := &Resolver{}
	r.Conceal("postgres://ann:hunter%2F22@db.example.com/erp")
	if got := r.Redact(`no entry for ann with "hunter/22"`); got != `no entry for ann with "`+hidden+`"` {
		t.Error(got)
	}
}

func TestTextWithoutASecretIsLeftAsItIs(t *testing.T) {
	r := &Resolver{}
	for _, s := range makes {
		r.Conceal(s)
	}
	letters := []rune(`ab %+\&;#x41u0n"'<>/=…é`)
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOfN(rapid.SampledFrom(letters), 0, 60).Draw(t, "text"))
		got := r.Redact(text)
		if got != text && !slices.ContainsFunc(makes, func(s string) bool {
			return slices.ContainsFunc(versions(text), func(v version) bool { return strings.Contains(v.text, s[:min(len(s), minCutOff)]) })
		}) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	r := &Resolver{}
	for _, s := range makes {
		r.Conceal(s)
	}
	for name, line := range map[string]string{
		"plain":   `time=2026-11-29T10:00:00Z level=INFO msg=read flow=orders events=200 records=200 new=3`,
		"quoted":  `{"time":"2026-11-29T10:00:00Z","msg":"reading failed","error":"list orders: \"x\" & y"}`,
		"hostile": strings.Repeat(`%25&amp;\u0025+`, 100),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Redact(line)
			}
		})
	}
}

func TestOfAnAddressOnlyWhatIsSecretIsCutOut(t *testing.T) {
	for _, c := range []struct{ value, text, want string }{
		{"postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "write sqlite:PATH, or a mapping with postgres", ""},
		{"postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "connect to db.example.com:5432, database stock, as syncd: refused by postgres://syncd", ""},
		{"postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "the password hunter2-hunter2 is wrong", "the password [secret] is wrong"},
		{"postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "dial postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "dial [secret]"},
		{"postgres://syncd:hunter2-hunter2@db.example.com:5432/stock", "dial postgres://syncd:hun…", "dial [secret]…"},
		{"postgres://syncd@db.example.com/stock", "dial postgres://syncd@db.example.com/stock", ""},
		{"https://shop.example.com", "GET https://shop.example.com/orders: 404", ""},
		{"https://shop.example.com/", "GET https://shop.example.com/orders: 404 from https://shop.example.com/", ""},
		{"https://hooks.example.com/T0/B0/aXbYcZ", "POST https://hooks.example.com/T0/B0/aXbYcZ", "POST [secret]"},
		{"https://hooks.example.com/T0/B0/aXbYcZ", "no such host: hooks.example.com, in https://hooks.example.com", ""},
		{"https://hooks.example.com/T0/B0/aXbYcZ", "POST https://hooks.example.com/T0/B…", "POST [secret]…"},
		{"https://sk_live_abcdef@api.example.com/v1", "user sk_live_abcdef is unknown", "user [secret] is unknown"},
		{"https://key_1234:s3cr3t-s3cr3t@api.example.com/v1", "key_1234 with s3cr3t-s3cr3t", "[secret] with [secret]"},
		{"mongodb://db.example.com/x?authSource=admin&password=open-sesame", "open-sesame", "[secret]"},
		{"postgres", "use postgres or sqlite", ""},
		{"Disable", "sslmode disable", ""},
		{"database-2024-x", "cannot reach the database", ""},
		{"database-2024-x", "database-2024-x and database-20…", "[secret] and [secret]…"},
		{"abcdefghijklmnop", "it begins with abcdefghij…", "it begins with [secret]…"},
	} {
		r := &Resolver{}
		r.Conceal(c.value)
		if c.want == "" {
			c.want = c.text
		}
		if got := r.Redact(c.text); got != c.want {
			t.Errorf("%s makes of %q\n%q, want\n%q", c.value, c.text, got, c.want)
		}
	}
}
