package mapping

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// String is the part in the form {a b{c} []{d}}; a * stands for all of it.
func (p *part) String() string {
	if p.whole {
		return "*"
	}
	var inner []string
	for _, name := range slices.Sorted(maps.Keys(p.members)) {
		inner = append(inner, name+p.members[name].String())
	}
	if p.each != nil {
		inner = append(inner, "[]"+p.each.String())
	}
	if inner == nil {
		return ""
	}
	return "{" + strings.Join(inner, " ") + "}"
}

func TestWhatAProgramLooksAt(t *testing.T) {
	for _, c := range []struct{ program, want string }{
		// paths
		{`{v: .a.b}`, `{a{b*}}`},
		{`{v: .a["b"]."c"}`, `{a{b{c*}}}`},
		{`{a, "b": 1, "c", "x\(.d)": .e}`, `{a* c* d* e*}`},
		{`{"x\(.d)"}`, `*`},
		{`{v: [.a[].b]}`, `{a{[]{b*}}}`},
		{`{v: .a[0].b, w: .a[-1].c}`, `{a{[]{b* c*}}}`},
		{`{v: .a[1:3][0].b}`, `{a{[]{b*}}}`},
		{`{v: .a[.i].b}`, `{a* i*}`},
		{`{v: .a[.i:.j][].b}`, `{a{[]{b*}} i* j*}`},
		{`{v: .a["x\(.i)"]}`, `{a* i*}`},
		{`{v: .a?.b?}`, `{a{b*}}`},
		{`{v: (.a | .b | .c)}`, `{a{b{c*}}}`},
		{`{v: (.a, .b)}`, `{a* b*}`},
		{`.`, `*`},
		{`{v: ..}`, `*`},
		{`{v: .}`, `*`},
		{`.a`, `{a*}`},
		{`.a[]`, `{a{[]*}}`},
		{`{}`, ``},
		// conditions
		{`{v: (.a // .b).c}`, `{a{c*} b{c*}}`},
		{`{v: (if .a then .b.c elif .d then .e else .f end)}`, `{a b{c*} d e* f*}`},
		{`{v: (if .a then .b end)}`, `*`},
		{`{v: (.a and (.b or .c))}`, `{a b c}`},
		{`{v: (.a | not)}`, `{a}`},
		{`{v: (.a == null), w: ("x" != .b)}`, `{a b}`},
		{`{v: (.a == {}), w: (.b < .c)}`, `{a* b* c*}`},
		{`{v: (.a | type)}`, `{a}`},
		{`{v: (.a | length)}`, `{a{[]}}`},
		{`{v: (.a | has("b"))}`, `{a{b}}`},
		{`{v: (.a | has(.b))}`, `{a*}`},
		{`[.a[] | select(.b) | .c] | {v: .}`, `{a{[]{b c*}}}`},
		{`{v: [.a | objects.b, strings, (arrays | .[].c)]}`, `{a*}`},
		{`{v: (.a | any(.b)), w: all(.c[]; .d), x: (.e | all)}`, `{a{[]{b}} c{[]{d}} e{[]}}`},
		{`{v: isempty(.a[])}`, `{a{[]}}`},
		{`{v: first(.a[] | select(.b)).c, w: (.d | last).e}`, `{a{[]{b c*}} d{[]{e*}}}`},
		{`{v: [limit(2; .a[]).b], w: nth(.n; .c[]).d}`, `{a{[]{b*}} c{[]{d*}} n*}`},
		// calculations, calls and texts
		{`{v: (.a + .b * 2), w: -.c}`, `{a* b* c*}`},
		{`{v: "\(.a) and \(.b.c)", w: @csv "\(.d)", x: (.e | @json)}`, `{a* b{c*} d* e*}`},
		{`{v: money(.a; .b), w: ref("party"; .c.d)}`, `{a* b* c{d*}}`},
		{`{v: (.a | map(.b) | add), w: add(.c[].d)}`, `{a{[]{b*}} c{[]{d*}}}`},
		{`{v: (.a | keys), w: (.b | to_entries), x: (.c | del(.d))}`, `{a* b* c*}`},
		{`{v: path(.a)}`, `*`},
		{`{v: getpath(["a"])}`, `*`},
		{`{v: (.a | sort_by(.b))}`, `{a*}`},
		{`{v: INDEX(.a[]; .b)}`, `{a{[]*}}`},
		{`.a.b = 1`, `*`},
		{`.a |= .b | {v: .c}`, `*`},
		{`{v: (.a | .b += $event.c)}`, `{a* c*}`},
		{`{v: ({a: .b} | .a.c)}`, `{b*}`},
		// variables and patterns
		{`.a as $x | {v: $x.b, w: .c}`, `{a{b*} c*}`},
		{`. as {a: $x, b: [$y, {c: $z}], $d} | {v: $x.e, $y, w: $z.f, $d}`, `{a{e*} b{[]*} d*}`},
		{`. as {("a" + .b): $x} | {$x}`, `*`},
		{`.a as [$x] ?// $x | {v: $x.b}`, `{a*}`},
		{`{v: $event.a.b, w: $meta.id}`, `{a{b*}}`},
		{`. as $e | .a | {v: $e.b, w: .c}`, `{a{c*} b*}`},
		{`.a as $x | .b as $x | {v: $x.c}`, `{a b{c*}}`},
		// loops
		{`{v: (reduce .a[] as $x (0; . + $x.b))}`, `{a{[]{b*}}}`},
		{`{v: (reduce .a[] as $x (.b; . + $x.c))}`, `{a{[]{c*}} b*}`},
		{`{v: (reduce .a[] as $x (null; $x) | .b)}`, `{a{[]*}}`},
		{`{v: [foreach .a[] as $x (0; 1; $x.b)]}`, `{a{[]{b*}}}`},
		{`{v: (label $l | .a[] | if .b then ., break $l else empty end | .c)}`, `{a{[]{b c*}}}`},
		// functions
		{`def f: .a; {v: (.x | f)}`, `{x{a*}}`},
		{`def f(g): .a | g; {v: f(.b), w: (.x | f(.c))}`, `{a{b*} x{a{c*}}}`},
		{`def f($x): $x.a, (x | .b); {v: f(.c)}`, `{c{a* b*}}`},
		{`def f(g): def h: g | .a; .x | h; {v: f(.b)}`, `{x{b{a*}}}`},
		{`.y as $y | def f: $y.a; .x | {v: f}`, `{x y{a*}}`},
		{`def f(g): g; {v: f(f(.a)).b}`, `{a{b*}}`},
		{`def f: .a, (.b | f); {v: f}`, `*`},
		{`def length: .a; {v: (.b | length)}`, `*`},
		{`def f: .a; def g: f; def f: .b; {v: g}`, `*`},
		// what is caught may quote the input
		{`{v: (try date_in(.a; "Europe/Berlin") catch null)}`, `{a*}`},
		{`{v: (try .a.b catch .)}`, `*`},
		{`{v: (try .a.b catch "\(.)")}`, `*`},
		{`{v: (try .a.b catch if . then "x" else "y" end)}`, `{a{b*}}`},
		{`.a as $a | {v: (try $a.b catch $a.c)}`, `{a{b* c*}}`},
	} {
		p := mustCompile(t, Source{Map: c.program})
		if got := p.wanted.String(); got != c.want {
			t.Errorf("%s\n\tlooks at %s, want %s", c.program, got, c.want)
		}
	}
}

func TestTheEventInTheKeyIsLookedAt(t *testing.T) {
	p := mustCompile(t, Source{Map: "{v: .a}", Key: `"\($event.b.c)-\(.d)"`, Group: "$event.e[0]"})
	if got, want := p.wanted.String(), "{a* b{c*} e{[]*}}"; got != want {
		t.Errorf("looks at %s, want %s", got, want)
	}
}

// sameInPart maps a body with all that spares work, and by gojq on the whole event.
func sameInPart(t interface{ Fatalf(string, ...any) }, p *Program, body []byte) {
	wanted, direct := p.wanted, p.direct
	defer func() { p.wanted, p.direct = wanted, direct }()
	once := func() ([]Pair, error) {
		if len(p.idle) > 0 { // the last one may have panicked
			lowerLimits(p)
		}
		return p.Map(context.Background(), body, testMeta())
	}
	part, perr := once()
	p.wanted, p.direct = nil, nil
	whole, werr := once()
	if fmt.Sprint(perr) != fmt.Sprint(werr) {
		t.Fatalf("%q, which looks at %s, on %q:\nin part %v\nwhole   %v", p.src.Map, wanted, body, perr, werr)
	}
	if diff := cmp.Diff(whole, part); diff != "" {
		t.Fatalf("%q, which looks at %s, on %q (-whole +part):\n%s", p.src.Map, wanted, body, diff)
	}
	var d decoder
	_, got, err := d.decode(body, wanted)
	if _, want, _ := decode(body); got != want && err == nil {
		t.Fatalf("%q: replaced is %v, want %v", body, got, want)
	}
}

// programs draws programs that look at a few names.
type programs struct {
	t    *rapid.T
	vars []string
	fns  []string
}

func (g *programs) pick(of ...string) string { return rapid.SampledFrom(of).Draw(g.t, "of") }

func (g *programs) name() string { return g.pick("a", "b", "c") }

// expr draws an expression of some depth.
func (g *programs) expr(n int) string {
	if n <= 0 {
		return g.pick(".", ".a?", ".b?", ".a.b?", ".c[]?", ".a[0]?", ".a?", ".b?", ".c?", ".b[]?.a?", "1", "null", `"x"`, "$event.c", "$event.a", g.variable(), g.function(), g.variable(), g.function())
	}
	e := func() string { return "(" + g.expr(n-1-rapid.IntRange(0, 1).Draw(g.t, "less")) + ")" }
	switch rapid.IntRange(0, 21).Draw(g.t, "kind") {
	case 0:
		return e() + " | " + e()
	case 1:
		return e() + "." + g.name() + "?"
	case 2:
		return e() + g.pick("[]", "[]?", "[]?", "[0]?", "[0]", "[-1]?", `["a"]`, "[1:]", "?", "[$event.b]", "[:$event.c]?")
	case 3:
		return e() + g.pick(", ", " // ", " + ", " == ", " < ", " and ", " or ", " != ", " - ", " * ") + e()
	case 4:
		return "if " + e() + " then " + e() + g.pick(" end", " else "+e()+" end", " elif "+e()+" then "+e()+" end")
	case 5:
		return "try " + e() + g.pick("", " catch null", " catch .", " catch "+e())
	case 6:
		return "{" + g.pick(g.name(), g.name()+": "+e(), `"x\(`+e()+`)": `+e(), "("+e()+"): "+e(), `"a"`) + ", b: " + e() + "}"
	case 7:
		return "[" + e() + "]"
	case 8:
		return "(" + e() + g.pick(" == null", ` != "x"`, " == 1", " == true") + ")"
	case 9:
		return g.bound(e(), n)
	case 10:
		return g.loop(e(), n)
	case 11:
		return e() + " | " + g.pick("length", "type", "not", "keys", "to_entries", "values", "strings", "objects", "arrays", "scalars", "first?", "last?", "add", "any", "all", "tojson", "@text", "tostring", "paths", "error", "..", "has(\"a\")", "has(0)", "unique", "ascii_downcase", "join(\",\")", "del(.a)")
	case 12:
		return e() + " | " + g.pick("select", "map", "first", "last", "isempty", "any", "all", "sort_by", "map_values", "with_entries", "path", "del", "add", "has", "recurse", "group_by", "walk", "pick") + "(" + e() + ")"
	case 13:
		return g.pick("limit", "nth", "skip") + "(" + g.pick("0", "1", "2", e()) + "; " + e() + ")"
	case 14:
		return g.pick("any", "all", "IN", "INDEX") + "(" + e() + "; " + e() + ")"
	case 15:
		return e() + g.pick(" |= ", " = ", " += ", " //= ") + e()
	case 16:
		return `"\(` + e() + `) \(` + e() + `)"`
	case 17:
		return g.defined(n)
	case 18:
		return g.pick("dec_add", "dec_or", "ref", "truncate", "money") + "(" + e() + "; " + e() + ")"
	case 19:
		return "label $l | " + e() + " | " + g.pick("if "+e()+" then break $l else . end", e())
	case 20:
		return "-" + e()
	}
	return g.expr(0)
}

func (g *programs) variable() string {
	if len(g.vars) == 0 {
		return "$event.b"
	}
	return g.pick(g.vars...)
}

func (g *programs) function() string {
	if len(g.fns) == 0 {
		return ".c"
	}
	return g.pick(g.fns...)
}

// within draws an expression with more in scope.
func (g *programs) within(n int, vars, fns []string) string {
	v, f := g.vars, g.fns
	g.vars, g.fns = append(slices.Clone(v), vars...), append(slices.Clone(f), fns...)
	defer func() { g.vars, g.fns = v, f }()
	return "(" + g.expr(n) + ")"
}

func (g *programs) pattern() (text string, vars []string) {
	switch g.pick("x", "y", "[]", "{}", "$", "()", "?//") {
	case "x":
		return "$x", []string{"$x"}
	case "y":
		return "$y", []string{"$y"}
	case "[]":
		return "[$x, {a: $y}]", []string{"$x", "$y"}
	case "{}":
		return `{a: $x, "b": [$y]}`, []string{"$x", "$y"}
	case "$":
		return "{$a, $b: {c: $x}}", []string{"$a", "$b", "$x"}
	case "()":
		return `{(.a? // "b"): $x}`, []string{"$x"}
	}
	return "[$x] ?// {a: $x} ?// $y", []string{"$x", "$y"}
}

func (g *programs) bound(e string, n int) string {
	p, vars := g.pattern()
	return e + " as " + p + " | " + g.within(n-1, vars, nil)
}

func (g *programs) loop(e string, n int) string {
	p, vars := g.pattern()
	body := p + " (" + g.within(n-2, nil, nil) + "; " + g.within(n-1, vars, nil)
	if g.pick("reduce", "foreach") == "reduce" {
		return "reduce " + e + " as " + body + ")"
	}
	return "foreach " + e + " as " + body + g.pick(")", "; "+g.within(n-1, vars, nil)+")")
}

func (g *programs) defined(n int) string {
	switch g.pick("f", "g", "h", "r") {
	case "f":
		return "def f: " + g.within(n-1, nil, nil) + "; " + g.within(n-1, nil, []string{"f"})
	case "g":
		return "def g(p): " + g.within(n-1, nil, []string{"p", "(p | .a)"}) + "; " + g.within(n-1, nil, []string{"g(.a)", "g(" + g.expr(0) + ")", "g(g(.b))"})
	case "h":
		return "def h($p; q): " + g.within(n-1, []string{"$p"}, []string{"q", "p"}) + "; " + g.within(n-1, nil, []string{"h(.a; .b)", "h(.; .c)"})
	}
	return "def r: .a, (.b? | if . then r else empty end); " + g.within(n-1, nil, []string{"r"})
}

// document draws JSON of a few names, now and then with a mistake in it.
func document(t *rapid.T, n int) string {
	kind := rapid.IntRange(0, 12).Draw(t, "value")
	switch {
	case n <= 0 && kind > 5:
		kind = 5
	case n > 3:
		kind = max(kind, 4) + 2
	}
	inner := func() string { return document(t, n-1) }
	switch kind {
	case 0:
		return rapid.SampledFrom([]string{"null", "true", "false"}).Draw(t, "word")
	case 1, 2:
		return rapid.SampledFrom([]string{"0", "1", "-2", "1.10", "1e3", "-0", "12345678901234567890"}).Draw(t, "number")
	case 3, 4, 5:
		return rapid.SampledFrom([]string{`"x"`, `"a"`, `""`, `"é \"quoted\" 😀"`, `"\u00e9\ud83d\ude00"`, `"a longer text, and\nits end"`, `"\ud83d"`}).Draw(t, "text")
	case 6, 7, 8:
		var es []string
		for range rapid.IntRange(0, 3).Draw(t, "elements") {
			es = append(es, inner())
		}
		return "[" + strings.Join(es, ",") + "]"
	}
	var ms []string
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c", "a", "b", "c", "d", `\u0062`, ""}), 0, 4, rapid.ID).Draw(t, "names") {
		ms = append(ms, ` "`+name+`" : `+inner())
	}
	if len(ms) > 0 && rapid.IntRange(0, 30).Draw(t, "twice") == 0 {
		ms = append(ms, ms[0], `"\u0062":1`)
	}
	return "{" + strings.Join(ms, ",") + "}"
}

func damaged(t *rapid.T, body string) string {
	if rapid.IntRange(0, 9).Draw(t, "damage") > 0 || body == "" {
		return body
	}
	at := rapid.IntRange(0, len(body)-1).Draw(t, "at")
	return body[:at] + rapid.SampledFrom([]string{"", "\x01", "\xff", `"`, "}", ",", `\`, "0", "]", ":", "x"}).Draw(t, "by") + body[at+rapid.IntRange(0, 1).Draw(t, "instead"):]
}

func TestAnEventReadInPartIsMappedTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := programs{t: t}
		program := g.expr(rapid.IntRange(1, 5).Draw(t, "depth"))
		switch rapid.IntRange(0, 5).Draw(t, "record") {
		case 0: // as it is, most often an error
		case 1:
			program = "{v: (" + program + ")}"
		default: // all that it gives before it fails
			program = "{v: [(" + program + ")?]}"
		}
		key := rapid.SampledFrom([]string{`"k"`, ".v", `"\($event.a.b?)"`, "$event.c[0]?"}).Draw(t, "key")
		p, err := Compile(Source{Map: program, Key: key, Timeout: 10 * time.Second})
		if err != nil {
			t.Skip(err)
		}
		for range 4 {
			sameInPart(t, p, []byte(damaged(t, document(t, 4))))
		}
	})
}

// straight draws an expression of what is evaluated without gojq, for the most part.
func (g *programs) straight(n int) string {
	if n <= 0 {
		return g.pick(".", ".a", ".b", ".a.b", ".c", ".a?", ".c[0]", ".b[0]?", "1", "null", `"x"`, `"a"`, "true", "$event.c", "$meta.id", "[]", "empty", g.variable())
	}
	e := func() string { return "(" + g.straight(n-1-rapid.IntRange(0, 1).Draw(g.t, "less")) + ")" }
	switch rapid.IntRange(0, 12).Draw(g.t, "kind") {
	case 0:
		return e() + " | " + e()
	case 1:
		return e() + g.pick(".a", ".b?", ".a.c", "[0]", "[1]?", "[]", "[]?", `["a"]`, "[-1]")
	case 2:
		return e() + g.pick(", ", " // ", " // ", " + ", " == ", " < ", " and ", " or ", " != ", " - ") + e()
	case 3:
		return "if " + e() + " then " + e() + g.pick(" end", " else "+e()+" end", " elif "+e()+" then "+e()+" end", " elif "+e()+" then "+e()+" else "+e()+" end")
	case 4:
		return "{" + g.pick("a", "a: "+e(), `"a"`, `"a": `+e(), "$event", "d: "+g.variable()) + ", b: " + e() + "}"
	case 5, 6:
		return "[" + e() + "]"
	case 7:
		vars := g.vars
		defer func() { g.vars = vars }()
		v, of := g.pick("$x", "$y"), e()
		g.vars = append(slices.Clone(vars), v)
		return of + " as " + v + " | " + e()
	case 8:
		return e() + " | " + g.pick("length", "type", "not", "add", "tojson", "tostring", "ascii_downcase", "ascii_upcase", "join(\"-\")", "unique", "sort", "tonumber", `ltrimstr("a")`, `rtrimstr("x")`, `startswith("a")`, `endswith("x")`)
	case 9:
		return e() + " | " + g.pick("select", "map", "add") + "(" + e() + ")"
	case 10:
		return `"\(` + e() + `)-\(` + e() + `)"`
	case 11:
		return g.pick("dec_add", "dec_or", "ref", "truncate", "money") + "(" + e() + "; " + e() + ")"
	}
	return g.straight(0)
}

func TestWhatIsEvaluatedDirectlyIsWhatJQGives(t *testing.T) {
	direct, decided := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := programs{t: t}
		program := "{v: [" + g.straight(rapid.IntRange(1, 4).Draw(t, "depth")) + "]}"
		if rapid.IntRange(0, 5).Draw(t, "record") == 0 {
			program = g.straight(3)
		}
		p, err := Compile(Source{Map: program, Key: `"k"`, Timeout: 10 * time.Second})
		if err != nil {
			t.Skip(err)
		}
		if p.direct == nil {
			return
		}
		direct++
		for range 4 {
			body := []byte(document(t, 4))
			sameInPart(t, p, body)
			in := p.idle[0]
			in.run.reset(context.Background(), time.Second)
			if event, _, err := in.dec.decode(body, nil); err == nil {
				e := evaluation{instance: in, event: event}
				if e.directly(p.direct) {
					decided++
				}
			}
		}
	})
	if direct == 0 || decided == 0 {
		t.Errorf("%d programs were direct, and %d events mapped by them", direct, decided)
	}
	t.Logf("%d programs were direct, and %d events mapped by them", direct, decided)
}

func TestOrdersAreMappedDirectly(t *testing.T) {
	for _, program := range []string{orderMap, orderMapFull} {
		p := mustCompile(t, Source{Map: program, Key: ".ext_id"})
		in := p.idle[0]
		in.run.reset(context.Background(), time.Second)
		event, _, err := in.dec.decode(orderJSON, p.wanted)
		if err != nil {
			t.Fatal(err)
		}
		e := evaluation{instance: in, event: event}
		if !e.directly(p.direct) || len(e.pairs) != 1 {
			t.Errorf("it is left to jq, or gives %d records", len(e.pairs))
		}
		sameInPart(t, p, orderJSON)
	}
}

// Where much is to do, gojq's limits decide.
func TestMuchWorkIsLeftToJQ(t *testing.T) {
	p := mustCompile(t, Source{Map: "{v: [.a[] | .b] | length}"})
	body := []byte(`{"a":[` + strings.Repeat(`{"b":1},`, maxWork) + `{"b":1}]}`)
	pairs, err := p.Map(context.Background(), body, testMeta())
	if err != nil || string(pairs[0].Body) != `{"v":20001}` {
		t.Fatalf("%v, %v", pairs, err)
	}
	sameInPart(t, p, body)

	p = mustCompile(t, Source{Map: "{v: [" + strings.Repeat("(., .) | ", 60) + "empty]}"})
	if p.direct == nil {
		t.Fatal("the program is not direct")
	}
	sameInPart(t, p, []byte(`{}`))
}

func TestWhatIsPassedOverIsChecked(t *testing.T) {
	p := mustCompile(t, Source{Map: "{v: .a}", Key: ".v"})
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	many := func(more string) string {
		var b strings.Builder
		for i := range 3 * fewNames {
			fmt.Fprintf(&b, `"m%d":%d,`, i, i)
		}
		return `{"a":"k","x":{` + b.String() + more + `}}`
	}
	for _, body := range []string{
		`{"a":"k"`, `{"a":"k",}`, `{"a":"k"}x`, `{"x":tru,"a":"k"}`, `{"x":01,"a":"k"}`, `{"x":-,"a":"k"}`, `{"x":1.,"a":"k"}`, `{"x":nul`, `{"x":"\q","a":"k"}`,
		`{"x":"\u12g4","a":"k"}`, "{\"x\":\"\x01\",\"a\":\"k\"}", `{"x":"`, `{"x":"\`, `{"x":"\u`, `{x:1}`, `{"x" 1}`, `{"x":[1 2]}`, `{"x":[1,]}`, `{"x":{"y":1,"y":2},"a":"k"}`,
		`{"x":{"y":1,"\u0079":2},"a":"k"}`, `{"x":{"y":1,"y":1.0},"a":"k"}`, `{"x":1,"x":2,"a":"k"}`, `{"a":"k","a":"l"}`, `{"x":{"":1,"":2},"a":"k"}`, `{"x":{" ":1,"":2},"a":"k"}`,
		`{"x":` + deep(199) + `,"a":"k"}`, `{"x":` + deep(200) + `,"a":"k"}`, many(`"n":1`), many(`"m5":6`), many(`"m5":5`), "\ufeff{\"x\":1,\"a\":\"k\"}", "{\"x\":\"\xff\",\"a\":\"k\"}",
		`{"x":"\ud800","a":"\ufffd"}`, `{"x":"\ud800","a":"k"}`, `{"x":{"\ud800":1},"a":"\ufffd"}`, `[]`, `[1,{"a":2,"a":3}]`, `"x"`, ``, ` `, `{}`,
	} {
		sameInPart(t, p, []byte(body))
	}
}

// FuzzMapInPart gives any body to any program, read in part and as a whole.
func FuzzMapInPart(f *testing.F) {
	for _, program := range []string{orderMap, orderMapFull, "{v: .a}", "{v: [.line_items[] | select(.quantity > 1).sku]}", "def f(g): .a | g; {v: f(.b)}", ".a as [$x] ?// $x | {v: $x.b}", "{v: (try .a.b catch .)}", "reduce .[] as {a: $x} (null; $x) | {v: .b}"} {
		f.Add(program, orderJSON)
		f.Add(program, []byte(`{"a":{"b":[1,2.50,"x"]},"b":"\ud800","a":1}`))
	}
	f.Fuzz(func(t *testing.T, program string, body []byte) {
		p, err := Compile(Source{Map: program, Key: `"k"`, Timeout: 5 * time.Second})
		if err != nil {
			return
		}
		sameInPart(t, p, bytes.Clone(body))
	})
}
