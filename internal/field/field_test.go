package field

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// sample has a field of every kind.
type sample struct {
	Name    string
	On      bool
	Count   int
	Big     int64
	Ratio   float64
	Wait    time.Duration
	Limit   int64
	Token   Secret
	URL     string
	Program Text
	Tags    []string
	Labels  map[string]string
	Extra   any
	Raw     json.RawMessage
	Inner   inner
	Named   map[string]*inner
	Listed  []*inner
	Kind    string
	Special Fielder
}

type inner struct {
	Mode string
	Min  int
	Max  int
}

func (i *inner) Fields(s *Set) {
	s.String(&i.Mode, "mode", "How.", OneOf("fast", "careful"), Default("fast"))
	s.Int(&i.Min, "min", "Least.", Default("1"), Range("0", "10"))
	s.Int(&i.Max, "max", "Most.", Default("5"), Range("0", ""))
}

func (i *inner) Validate(r *Report) {
	if i.Min > i.Max {
		r.At("min").Errorf("%d is more than max (%d); lower it", i.Min, i.Max)
	}
}

type special struct{ Depth int }

func (x *special) Fields(s *Set) {
	s.Int(&x.Depth, "depth", "How deep.", Required())
}

func (x *sample) Fields(s *Set) {
	s.String(&x.Name, "name", "Name.", Pattern("[a-z$#{}@:]*", "small letters"))
	s.Bool(&x.On, "on", "On.")
	s.Int(&x.Count, "count", "Count.", Default("3"), Range("1", "100"))
	s.Int64(&x.Big, "big", "Big.")
	s.Float(&x.Ratio, "ratio", "Ratio.", Default("0.5"), Range("0", "1"))
	s.Duration(&x.Wait, "wait", "Wait.", Default("30s"), Range("100ms", "7d"))
	s.Size(&x.Limit, "limit", "Limit.", Default("16MiB"), Range("1KiB", "1GiB"))
	s.Secret(&x.Token, "token", "Token.")
	s.URL(&x.URL, "url", "URL.")
	s.Text(&x.Program, "program", "Program.")
	s.Strings(&x.Tags, "tags", "Tags.", OneOf("a", "b", "c"))
	s.StringMap(&x.Labels, "labels", "Labels.", Names("[a-z]+", "small letters"))
	s.Any(&x.Extra, "extra", "Extra.")
	s.JSON(&x.Raw, "raw", "Raw.")
	s.Struct(&x.Inner, "inner", "Inner.")
	Map(s, &x.Named, "named", "Named.", Names("[a-z]+", "small letters"))
	List(s, &x.Listed, "listed", "Listed.")
	s.String(&x.Kind, "kind", "Kind.")
	s.Variant("kind", func(name string) (Fielder, bool) {
		if name == "special" {
			return &special{}, true
		}
		return nil, false
	}, []Choice{{Name: "special", Doc: "Deep."}}, func(f Fielder) { x.Special = f })
}

// The tree of a test is written with m, l, t (plain text) and q (quoted text); its positions are t.yaml:1:1.
func at() Pos          { return Pos{File: "t.yaml", Line: 1, Col: 1} }
func t(s string) *Node { return &Node{Kind: Scalar, Text: s, Pos: at()} }
func q(s string) *Node { return &Node{Kind: Scalar, Text: s, Quoted: true, Pos: at()} }
func null(s string) *Node {
	return &Node{Kind: Null, Text: s, Pos: at()}
}
func l(items ...*Node) *Node { return &Node{Kind: Sequence, Items: items, Pos: at()} }
func m(kv ...any) *Node {
	n := &Node{Kind: Mapping, Pos: at()}
	for i := 0; i < len(kv); i += 2 {
		n.Entries = append(n.Entries, Entry{Key: kv[i].(string), KeyPos: at(), Value: kv[i+1].(*Node)})
	}
	return n
}

func bind(n *Node, env ...string) (*sample, string) {
	x := &sample{}
	var lines []string
	for _, p := range Bind(n, x, &Resolver{Env: env}) {
		lines = append(lines, strings.TrimPrefix(p.String(), "t.yaml:1:1: "))
	}
	return x, strings.Join(lines, "\n")
}

func TestEveryKindIsRead(t1 *testing.T) {
	x, problems := bind(m(
		"name", t("abc"), "on", t("true"), "count", t("7"), "big", t("-9007199254740993"), "ratio", t("0.25"),
		"wait", t("1d12h"), "limit", t("64 KiB"), "token", q("${env:TOKEN}"), "url", t("https://a.test/x?y=1"),
		"program", t(".a"), "tags", l(t("a"), q("c")), "labels", m("x", t("007"), "y", t("NO")),
		"extra", m("a", t("0123"), "b", t("1e3"), "c", t("true"), "d", null("~"), "e", l(t("12.50"), q("1"), t("NO"), t("1_000"))),
		"raw", m("b", t("1.10"), "a", q("x")),
		"inner", m("mode", t("careful")), "named", m("one", m("min", t("2")), "two", null("")),
		"listed", l(m("max", t("9"))), "kind", t("special"), "depth", t("4"),
	), "TOKEN=shh-secret")
	if problems != "" {
		t1.Fatalf("problems:\n%s", problems)
	}
	if x.Token.Reveal() != "shh-secret" {
		t1.Errorf("token = %q", x.Token.Reveal())
	}
	x.Token = Secret{}
	want := &sample{
		Name: "abc", On: true, Count: 7, Big: -9007199254740993, Ratio: 0.25, Wait: 36 * time.Hour, Limit: 64 << 10,
		URL: "https://a.test/x?y=1", Program: Text{Value: ".a", Pos: at()}, Tags: []string{"a", "c"},
		Labels: map[string]string{"x": "007", "y": "NO"},
		Extra: map[string]any{"a": "0123", "b": json.Number("1e3"), "c": true, "d": nil,
			"e": []any{json.Number("12.50"), "1", "NO", "1_000"}},
		Raw:    json.RawMessage(`{"a":"x","b":1.10}`),
		Inner:  inner{Mode: "careful", Min: 1, Max: 5},
		Named:  map[string]*inner{"one": {Mode: "fast", Min: 2, Max: 5}, "two": {Mode: "fast", Min: 1, Max: 5}},
		Listed: []*inner{{Mode: "fast", Min: 1, Max: 9}},
		Kind:   "special", Special: &special{Depth: 4},
	}
	if d := cmp.Diff(want, x, cmp.AllowUnexported(Text{}), cmp.Comparer(func(a, b Secret) bool { return a.Equal(b) })); d != "" {
		t1.Error(d)
	}
}

func TestDefaultsAreSetWithoutAnythingGiven(t1 *testing.T) {
	x, problems := bind(m())
	if problems != "" {
		t1.Fatal(problems)
	}
	if x.Count != 3 || x.Ratio != 0.5 || x.Wait != 30*time.Second || x.Limit != 16<<20 || x.Inner.Max != 5 {
		t1.Errorf("defaults: %+v", x)
	}
}

func TestMistakesAreExplained(t1 *testing.T) {
	for _, c := range []struct {
		name string
		tree *Node
		want string
	}{
		{"unknown key near a known one", m("cuont", t("1")), `cuont: unknown key; did you mean count?`},
		{"unknown key far from all", m("inner", m("zzzzzzzz", t("1"))), `inner.zzzzzzzz: unknown key; known here: max, min, mode`},
		{"text where a mapping is due", m("inner", t("x")), `inner: expected a mapping, not a single value; its fields are mode, min, max`},
		{"mapping where a text is due", m("name", m("a", t("b"))), `name: expected text, not a mapping`},
		{"list where a number is due", m("count", l()), `count: expected a whole number, not a list`},
		{"nothing where a text is due", m("name", null("")), `name: no value; give text, or take the key out`},
		{"null where a text is due", m("name", null("null")), `name: expected text, not null; quote it if the word is meant`},
		{"text where a list is due", m("tags", t("a")), `tags: expected a list, not a single value; write [ ] around it, or - before each item`},
		{"list item outside of the choices", m("tags", l(t("a"), t("d"))), `tags[1]: "d": not accepted; one of a, b, c`},
		{"mapping where a list item is due", m("listed", l(t("a"))), `listed[0]: expected a mapping, not a single value; its fields are mode, min, max`},
		{"leading zero", m("count", t("007")), `count: "007": a number with a leading zero could be meant as octal; write it without`},
		{"underscore", m("count", t("1_000")), `count: "1_000": not a plain whole number; write it in decimal digits alone`},
		{"hexadecimal", m("count", t("0x10")), `count: "0x10": not a plain whole number; write it in decimal digits alone`},
		{"exponent", m("count", t("1e1")), `count: "1e1": not a plain whole number; write it in decimal digits alone`},
		{"word for a number", m("count", t("many")), `count: "many": expected a whole number`},
		{"number beyond 64 bits", m("big", t("9223372036854775808")), `big: "9223372036854775808": a number too large to count`},
		{"number below its range", m("count", t("0")), `count: "0": out of range; 1 to 100`},
		{"number above its range", m("count", t("101")), `count: "101": out of range; 1 to 100`},
		{"number below an open range", m("inner", m("max", t("-1"))), `inner.max: "-1": out of range; at least 0`},
		{"ratio above its range", m("ratio", t("1.5")), `ratio: "1.5": out of range; 0 to 1`},
		{"ratio that is not a number", m("ratio", t("NaN")), `ratio: "NaN": expected a number, for example 0.6`},
		{"yes for true", m("on", t("yes")), `on: "yes": only true and false are accepted here; write true`},
		{"NO for false", m("on", t("NO")), `on: "NO": only true and false are accepted here; write false`},
		{"True for true", m("on", t("True")), `on: "True": only true and false are accepted here; write true`},
		{"neither true nor false", m("on", t("perhaps")), `on: "perhaps": expected true or false`},
		{"duration without a unit", m("wait", t("30")), `wait: "30": a duration needs a unit, for example 30s, 5m or 2h`},
		{"negative duration", m("wait", t("-3s")), `wait: "-3s": a duration cannot be negative`},
		{"duration of an unknown unit", m("wait", t("3 weeks")), `wait: "3 weeks": not a duration; write for example 500ms, 30s, 5m, 1h30m or 7d`},
		{"duration beyond its range", m("wait", t("7d1s")), `wait: "7d1s": out of range; 100ms to 7d`},
		{"duration beyond counting", m("wait", t("999999999d")), `wait: "999999999d": a duration longer than 290 years`},
		{"size without a unit", m("limit", t("100")), `limit: "100": a size needs a unit, for example 64KiB or 16MiB`},
		{"size of an unknown unit", m("limit", t("3MB/s")), `limit: "3MB/s": not a size; write for example 64KiB or 16MiB`},
		{"size of a misspelt unit", m("limit", t("3mb")), `limit: "3mb": not a unit of size; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB`},
		{"size beyond counting", m("limit", t("99999999999TiB")), `limit: "99999999999TiB": a size too large to count`},
		{"misspelt choice", m("inner", m("mode", t("carefull"))), `inner.mode: "carefull": not accepted; did you mean careful? (one of fast, careful)`},
		{"text against its pattern", m("name", t("ABC")), `name: "ABC": not accepted; expected small letters`},
		{"name against its rule", m("named", m("X1", m())), `named.X1: the name "X1" cannot be used; expected small letters`},
		{"name of a label against its rule", m("labels", m("X", t("a"))), `labels.X: the name "X" cannot be used; expected small letters`},
		{"name with a dot", m("named", m("a.b", m())), `named."a.b": the name "a.b" cannot be used; expected small letters`},
		{"check across fields", m("inner", m("min", t("9"))), `inner.min: 9 is more than max (5); lower it`},
		{"check across fields of a list", m("listed", l(m(), m("min", t("9")))), `listed[1].min: 9 is more than max (5); lower it`},
		{"required field of a variant", m("kind", t("special")), `depth: missing; give a whole number`},
		{"unknown variant", m("kind", t("specal"), "depth", t("4")), `kind: "specal": not accepted; did you mean special? (one of special)`},
		{"field of a variant without the variant", m("depth", t("4")), `depth: unknown key`},
		{"unknown key beside an unknown variant", m("kind", t("x"), "depth", t("4"), "cuont", t("4")), "kind: \"x\": not accepted; one of special\ncuont: unknown key; did you mean count?"},
		{"literal secret", m("token", t("hunter2hunter2")), `token: a secret must not stand in the file; give it as ${env:NAME}, ${file:/path} or ${credential:name}`},
		{"secret with a reference in it", m("token", t("Bearer ${env:TOKEN}")), `token: a secret must not stand in the file; give it as ${env:NAME}, ${file:/path} or ${credential:name}`},
		{"list for a secret", m("token", l(t("hunter2"))), `token: expected a reference to a secret, not a list; give it as ${env:NAME}, ${file:/path} or ${credential:name}`},
		{"URL with a password", m("url", t("https://u:hunter2@a.test")), `url: a URL must not hold a user name or password; give credentials in their own fields`},
		{"URL that cannot be read", m("url", t("https://hunter2\x7f")), `url: not a URL that can be read; write for example https://erp.example.com, and credentials in their own fields`},
		{"URL of another scheme", m("url", t("ftp://a.test")), `url: a URL must begin with https:// (or http://)`},
		{"URL without a host", m("url", t("https:///x")), `url: a URL needs a host name, for example https://erp.example.com`},
	} {
		t1.Run(c.name, func(t1 *testing.T) {
			if _, got := bind(c.tree); got != c.want {
				t1.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestAllMistakesAreReportedAtOnce(t1 *testing.T) {
	_, got := bind(m("name", t("ABC"), "on", t("no"), "inner", m("mode", t("x"), "min", t("11")), "listed", l(m("max", t("a")), m("q", t("b"))), "z", t("1")))
	want := strings.Join([]string{
		`name: "ABC": not accepted; expected small letters`,
		`on: "no": only true and false are accepted here; write false`,
		`inner.mode: "x": not accepted; one of fast, careful`,
		`inner.min: "11": out of range; 0 to 10`,
		`listed[0].max: "a": expected a whole number`,
		`listed[1].q: unknown key; known here: max, min, mode`,
		`z: unknown key`,
	}, "\n")
	if got != want {
		t1.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestTextsOfTheirOwnNotationKeepEveryCharacter(t1 *testing.T) {
	for _, text := range []string{"0510210600", "0008", "NO", "no", "1e3", "1_000", "2026-01-31", "0x1F", "007", "1.10", "true", ".5", "12:30:45"} {
		x, problems := bind(m("labels", m("a", t(text))))
		if problems != "" || x.Labels["a"] != text {
			t1.Errorf("%s became %q (%s)", text, x.Labels["a"], problems)
		}
	}
}

func TestDeclarationsThatCannotWorkPanic(t1 *testing.T) {
	var str string
	var n int
	for name, declare := range map[string]func(*Set){
		"declared twice":            func(s *Set) { s.String(&str, "a", "A."); s.String(&str, "a", "A.") },
		"no documentation":          func(s *Set) { s.String(&str, "a", "") },
		"default out of range":      func(s *Set) { s.Int(&n, "a", "A.", Default("5"), Range("1", "3")) },
		"default not a choice":      func(s *Set) { s.String(&str, "a", "A.", Default("x"), OneOf("y")) },
		"example that is refused":   func(s *Set) { s.Int(&n, "a", "A.", Example("x")) },
		"range that is no number":   func(s *Set) { s.Int(&n, "a", "A.", Range("x", "")) },
		"range of a text":           func(s *Set) { s.String(&str, "a", "A.", Range("1", "2")) },
		"required with a default":   func(s *Set) { s.String(&str, "a", "A.", Required(), Default("x")) },
		"variant on what is absent": func(s *Set) { s.Variant("a", nil, nil, nil) },
		"secret with a default":     func(s *Set) { s.Secret(&Secret{}, "a", "A.", Default("x")) },
	} {
		t1.Run(name, func(t1 *testing.T) {
			defer func() {
				if recover() == nil {
					t1.Error("no panic")
				}
			}()
			declare(&Set{})
		})
	}
}

func TestAVariantMustNotRepeatAField(t1 *testing.T) {
	defer func() {
		if recover() == nil {
			t1.Error("no panic")
		}
	}()
	Bind(m("depth", t("1"), "kind", t("special")), &clash{}, &Resolver{})
}

type clash struct {
	Depth int
	Kind  string
}

func (c *clash) Fields(s *Set) {
	s.Int(&c.Depth, "depth", "Depth.")
	s.String(&c.Kind, "kind", "Kind.")
	s.Variant("kind", func(string) (Fielder, bool) { return &special{}, true }, []Choice{{Name: "special"}}, func(Fielder) {})
}
