package field

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const canary = "CANARY-7f3a9"

func TestASecretNeverShowsItself(t *testing.T) {
	type holder struct {
		Exported   Secret
		unexported Secret
		pointer    *Secret
		list       []Secret
	}
	s := NewSecret(canary)
	h := holder{Exported: s, unexported: s, pointer: &s, list: []Secret{s}}
	var out bytes.Buffer
	for _, v := range []any{s, &s, h, &h, []Secret{s}, map[string]Secret{"a": s}, map[string]any{"a": h}, struct{ any }{s}, fmt.Errorf("with %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T %v"} {
			if strings.HasPrefix(verb, "%T") {
				fmt.Fprintf(&out, verb+"\n", v, v)
				continue
			}
			fmt.Fprintf(&out, verb+"\n", v)
		}
		data, err := json.Marshal(v)
		if err == nil {
			out.Write(data)
		}
		for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
			slog.New(handler).Error("x", "secret", v, slog.Group("g", "secret", v))
		}
	}
	fmt.Fprintln(&out, s, s.String(), s.GoString(), s.LogValue())
	text, _ := s.MarshalText()
	out.Write(text)
	y, _ := s.MarshalYAML()
	fmt.Fprintln(&out, y)
	hex := fmt.Sprintf("%x", canary)
	if got := out.String(); strings.Contains(got, canary) || strings.Contains(strings.ToLower(got), hex) {
		t.Errorf("the secret shows: %s", got)
	}
	if !strings.Contains(out.String(), "[secret]") {
		t.Error("nothing says that there is a secret")
	}
}

func TestASecretIsRevealedAndCompared(t *testing.T) {
	a, b := NewSecret("x"), NewSecret("x")
	if a.Reveal() != "x" || !a.Equal(b) || a.Equal(NewSecret("y")) || a.Equal(Secret{}) || !(Secret{}).Equal(NewSecret("")) {
		t.Error("secrets compare wrongly")
	}
	if a.Empty() || !(Secret{}).Empty() || !NewSecret("").Empty() || (Secret{}).Reveal() != "" {
		t.Error("emptiness is wrong")
	}
}

// secretFile writes a file of that mode.
func secretFile(t *testing.T, dir, name, content string, mode os.FileMode) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(p, mode); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestReferencesAreReplacedOnceAndExactly(t *testing.T) {
	dir := t.TempDir()
	secretFile(t, dir, "pw", "from file\n", 0o600)
	secretFile(t, dir, "crlf", "from file\r\n", 0o600)
	secretFile(t, dir, "two", "a\n\n", 0o600)
	secretFile(t, dir, "cred", "from systemd", 0o644)
	env := []string{
		"CREDENTIALS_DIRECTORY=" + dir, "COLON=myp@ss:", "FOLD=>abc", "ALIAS=*x", "ANCHOR=&x", "DASH=- a", "HASH=a #b", `QUOTED="q"`, `BACK=\C`,
		"YES=yes", "ZERO=0123", "LEAD= lead", "DOLLAR=pa$word#1", "NESTED=${env:YES}", "ESCAPED=$${x", "TWICE=first", "TWICE=second", "EMPTY=",
	}
	for _, c := range []struct{ name, text, want string }{
		{"dollar in the middle", "pas$word", "pas$word"},
		{"two dollars", "a$$b", "a$$b"},
		{"dollar at the end", "a$", "a$"},
		{"dollar before a name", "x$HOME#1", "x$HOME#1"},
		{"escaped reference", "$${env:YES}", "${env:YES}"},
		{"escaped with a dollar before", "$$${env:YES}", "$${env:YES}"},
		{"colon", "${env:COLON}", "myp@ss:"},
		{"fold mark", "${env:FOLD}", ">abc"},
		{"alias mark", "${env:ALIAS}", "*x"},
		{"anchor mark", "${env:ANCHOR}", "&x"},
		{"dash", "${env:DASH}", "- a"},
		{"hash", "${env:HASH}", "a #b"},
		{"quotes", "${env:QUOTED}", `"q"`},
		{"backslash", "${env:BACK}", `\C`},
		{"yes", "${env:YES}", "yes"},
		{"leading zero", "${env:ZERO}", "0123"},
		{"leading blank", "${env:LEAD}", " lead"},
		{"dollar in the value", "${env:DOLLAR}", "pa$word#1"},
		{"reference in the value", "${env:NESTED}", "${env:YES}"},
		{"escape in the value", "${env:ESCAPED}", "$${x"},
		{"within a text", "https://${env:YES}.test/${env:ZERO}", "https://yes.test/0123"},
		{"last of two variables wins", "${env:TWICE}", "second"},
		{"empty variable", "a${env:EMPTY}b", "ab"},
		{"file", "${file:" + dir + "/pw}", "from file"},
		{"file with a Windows line end", "${file:" + dir + "/crlf}", "from file"},
		{"only the last line end of a file is cut", "${file:" + dir + "/two}", "a\n"},
		{"relative file", "${file:pw}", "from file"},
		{"systemd credential, whatever its mode", "${credential:cred}", "from systemd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Resolver{Env: env, Dir: dir}
			got, _, err := r.expand(c.text)
			if err != nil || got != c.want {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestReferencesThatLeadNowhereAreExplained(t1 *testing.T) {
	dir := t1.TempDir()
	secretFile(t1, dir, "open", canary, 0o644)
	secretFile(t1, dir, "group", canary, 0o640)
	secretFile(t1, dir, "empty", "\n", 0o600)
	secretFile(t1, dir, "huge", strings.Repeat("x", maxSecretFile+1), 0o600)
	for _, c := range []struct{ name, ref, want string }{
		{"unset variable", "${env:NOPE}", "the environment variable NOPE is not set; set it before syncd starts"},
		{"variable without a name", "${env:}", "${env:…} needs the name of an environment variable: letters, digits and _"},
		{"file that others may read", "${file:open}", "the file DIR/open can be read by others than its owner (mode 0644); run chmod 600 on it"},
		{"file that the group may read", "${file:group}", "the file DIR/group can be read by others than its owner (mode 0640); run chmod 600 on it"},
		{"missing file", "${file:nope}", "cannot read the file of a reference: open DIR/nope: no such file or directory"},
		{"folder", "${file:/}", "/ is not a regular file"},
		{"device that never ends", "${file:/dev/zero}", "/dev/zero is not a regular file"},
		{"file that is too large", "${file:huge}", "the file DIR/huge is larger than 64 KiB"},
		{"no path", "${file:}", "${file:…} needs the path of a file"},
		{"empty secret", "${file:empty}", "the secret is empty; put a value where the reference points"},
		{"missing credential", "${credential:nope}", "there is no systemd credential nope; add LoadCredential=nope:/path to the unit"},
		{"credential outside of its folder", "${credential:../open}", "${credential:…} needs the name of a systemd credential: letters, digits, dot, _ and -"},
	} {
		t1.Run(c.name, func(t1 *testing.T) {
			x := &sample{}
			ps := Bind(m("token", q(c.ref)), x, &Resolver{Env: []string{"CREDENTIALS_DIRECTORY=" + dir}, Dir: dir})
			if len(ps) != 1 {
				t1.Fatalf("%d problems: %v", len(ps), ps)
			}
			got := strings.ReplaceAll(ps[0].String(), dir, "DIR")
			if want := "t.yaml:1:1: token: " + c.want; got != want {
				t1.Errorf("\n got: %s\nwant: %s", got, want)
			}
			if !x.Token.Empty() {
				t1.Error("the secret was set")
			}
		})
	}
}

func TestBrokenReferencesInATextAreExplained(t1 *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"not closed", "a${env:X", "a reference ${… is not closed by }; write $${ for the text ${"},
		{"without a kind", "${DB_PW}", "a reference must be ${env:NAME}, ${file:/path} or ${credential:name}; write one of these such as ${env:DB_PW}, or $${ for the text ${"},
		{"of an unknown kind", "${vault:a/b}", "a reference must be ${env:NAME}, ${file:/path} or ${credential:name}; write one of these, or $${ for the text ${"},
		{"credentials without systemd", "${credential:a}", "there are no systemd credentials (CREDENTIALS_DIRECTORY is not set); add LoadCredential=a:/path to the unit, or use ${file:/path}"},
	} {
		t1.Run(c.name, func(t1 *testing.T) {
			if _, got := bind(m("name", t(c.text))); got != "name: "+c.want {
				t1.Errorf("\n got: %s\nwant: name: %s", got, c.want)
			}
		})
	}
}

// leaky's checks repeat whatever they are given, as a careless connector might.
type leaky struct{ A, B string }

func (x *leaky) Fields(s *Set) {
	s.String(&x.A, "a", "A.", OneOf("one", "two"))
	s.String(&x.B, "b", "B.")
}

func (x *leaky) Validate(r *Report) {
	r.At("b").Errorf("%q is wrong, %s too, and %v", x.B, x.B, fmt.Errorf("parse %q", "https://h.test/?q="+url.QueryEscape(x.B)))
}

func TestWhatCameFromAReferenceIsNotRepeatedInProblems(t1 *testing.T) {
	secret := `pass/wo"rd-` + canary
	for name, tree := range map[string]*Node{
		"in a field with choices": m("a", t("${env:PW}")),
		"in a careless check":     m("b", t("${env:PW}")),
		"within another text":     m("b", t("x ${env:PW} y")),
		"from the environment":    m("a", &Node{Kind: Scalar, Text: secret, Literal: true, Pos: at()}),
	} {
		t1.Run(name, func(t1 *testing.T) {
			ps := Bind(tree, &leaky{}, &Resolver{Env: []string{"PW=" + secret}})
			if len(ps) == 0 {
				t1.Fatal("no problem")
			}
			if got := fmt.Sprint(ps); strings.Contains(got, canary) {
				t1.Errorf("shown: %s", got)
			}
		})
	}
}

func TestALiteralSecretIsNotRepeated(t1 *testing.T) {
	for name, tree := range map[string]*Node{
		"in a secret field":          m("token", t(canary)),
		"in a list for a secret":     m("token", l(t(canary))),
		"in a mapping for a secret":  m("token", m("a", t(canary))),
		"with a broken reference":    m("token", t("${env:X}"+canary)),
		"and once more in the file":  m("token", t(canary), "count", t(canary)),
		"in a URL":                   m("url", t("https://user:"+canary+"@h.test")),
		"in a URL that is no URL":    m("url", t("https://user:"+canary+"/x@h.test")),
		"in a query of a broken URL": m("url", t("ftp://h.test/?key="+canary)),
	} {
		t1.Run(name, func(t1 *testing.T) {
			_, got := bind(tree)
			if got == "" || strings.Contains(got, canary) {
				t1.Errorf("problems: %s", got)
			}
		})
	}
}

func TestAReferenceIsReadOncePerLoad(t *testing.T) {
	dir := t.TempDir()
	p := secretFile(t, dir, "pw", "first", 0o600)
	r := &Resolver{Dir: dir}
	if v, err := r.resolve("file:pw"); v != "first" || err != nil {
		t.Fatal(v, err)
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	if v, err := r.resolve("file:pw"); v != "first" || err != nil {
		t.Errorf("read again: %q, %v", v, err)
	}
}

func TestASecretFromTheEnvironmentLayerIsTaken(t1 *testing.T) {
	x := &sample{}
	if ps := Bind(m("token", &Node{Kind: Scalar, Text: "pa$word#${env:X}", Literal: true}), x, &Resolver{}); len(ps) > 0 {
		t1.Fatal(ps)
	}
	if x.Token.Reveal() != "pa$word#${env:X}" {
		t1.Errorf("token = %q", x.Token.Reveal())
	}
}
