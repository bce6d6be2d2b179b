package mapping

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// sameInPart maps a body read in part, and whole.
func sameInPart(t interface{ Fatalf(string, ...any) }, p *Program, body []byte) {
	wanted := p.wanted
	defer func() { p.wanted = wanted }()
	once := func() ([]Pair, error) {
		if len(p.idle) > 0 { // the last one may have panicked
			lowerLimits(p)
		}
		return p.Map(context.Background(), body, testMeta())
	}
	part, perr := once()
	p.wanted = nil
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

// straight draws an expression such as mappings have, without much that catches errors.
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
		if rapid.Bool().Draw(g.t, "again") { // bound within what is bound, and looked at between two values
			of = "(" + of + " as $z | [1], $z, [$z, .b], " + e() + ", $z)"
		}
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
