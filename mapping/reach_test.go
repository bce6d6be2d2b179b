package mapping

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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

func TestAnEventReadInPartIsMappedTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := programs{t: t}
		program := g.expr(rapid.IntRange(1, 5).Draw(t, "depth"))
		if rapid.IntRange(0, 2).Draw(t, "usual") == 0 {
			program = g.straight(rapid.IntRange(1, 4).Draw(t, "depth"))
		}
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

func TestUsualExpressions(t *testing.T) {
	const doc = `{"a":{"b":1.10,"t":true,"f":false,"n":null},"l":[{"p":1,"q":"x"},{"p":2},{"p":null}],"s":"aXb","z":0,"e":[],"n":null}`
	for _, c := range []struct{ expression, want string }{
		{`.a.b, .a.missing, .n.x`, `[1.10,null,null]`},
		{`.a.f // 1, .a.n // 2, .a.t // 3, .z // 4, .s // 5`, `[1,2,true,0,"aXb"]`},
		{`(.a.f, .a.n, .z) // 6, (.a.f, .a.n) // 7, empty // 8`, `[0,7,8]`},
		{`(.l[].p) // 9`, `[1,2]`},
		{`2 as $x | (1 as $x | $x), $x`, `[1,2]`},
		{`1 as $x | 2 as $y | (3 as $x | $y), $x, $y`, `[2,1,2]`},
		{`.l[].p as $x | [$x, (.s as $x | $x), $x]`, `[[1,"aXb",1],[2,"aXb",2],[null,"aXb",null]]`},
		{`(.l[0:1] | .[]) as $x | $x`, `[{"p":1,"q":"x"}]`},
		{`(.l[].p as $x | ($x // 5, ($x // 7) + 1)) as $y | $y`, `[1,2,2,3,5,8]`},
		{`((.z, 4) as $x | [$x + 1, ((1, 2) as $y | $x + $y), $x]) as $z | $z`, `[[1,1,2,0],[5,5,6,4]]`},
		{`.l[0].q, .l[9], .n[0]`, `["x",null,null]`},
		{`.s.x?, .l.x?, .a.b?`, `[1.10]`},
		{`.s[]?, .z[]?, .n[]?, .l[]?.p`, `[1,2,null]`},
		{`(.a.f and .s.x), (.a.t or .s.x), (.n and true), (.z and .s), (.n or .n)`, `[false,true,false,true,false]`},
		{`if .z then 1 else 2 end, if .n then 1 elif .a.f then 2 elif .a.t then 3 else 4 end, if .a.f then 5 end | .a? // .`, `[1,3,{"b":1.10,"f":false,"n":null,"t":true}]`},
		{`[.l[] | select(.p > 1)], [.l[] | select(.p, .q)]`, `[[{"p":2}],[{"p":1,"q":"x"},{"p":1,"q":"x"},{"p":2}]]`},
		{`(.l | map(.p) | add), add(.l[].p), ([] | add), (.l | map(.p, .q) | length)`, `[3,3,null,6]`},
		{`{s, "z", $meta, x: .a.t} | del(.meta)?`, `[{"s":"aXb","x":true,"z":0}]`},
		{`{s, "z", x: .a.t, "y z": -1}`, `[{"s":"aXb","x":true,"y z":-1,"z":0}]`},
		{`{s, "z", x: .a.t, "y z": "w"}`, `[{"s":"aXb","x":true,"y z":"w","z":0}]`},
		{`"\(.s)-\(.a.b)-\(.e)-\(.n)", (.s | ascii_upcase, ascii_downcase, ltrimstr("a"), rtrimstr("b"), startswith("a"), endswith("X"))`, `["aXb-1.10-[]-null","AXB","axb","Xb","aX",true,false]`},
		{`(.a, .l, .s, .z, .n, .a.t | type), (.a | length), (.l | length), (.n | length)`, `["object","array","string","number","null","boolean",4,3,0]`},
		{`(.a.b + 1, .a.b * 2, 3 - .z, .s + "c", .e + [1])`, `[2.1,2.2,3,"aXbc",[1]]`},
		{`(.a.b == 1.1), (.a == .a), (.l[0] != .l[1]), (.n < .z)`, `[true,true,true,true]`},
		{`(.a == .a), (.l[0] != .l[1]), (.n < .z), (.z >= .s)`, `[true,true,true,false]`},
		{`money(.a.b; "EUR"), dec_add(.a.b; "1"), truncate(.s; 2), (.s | test("X")), (.s | split("X") | join("-"))`, `["1.10","2.10","aX",true,"a-b"]`},
		{`$event.s, $meta.id, (.a | $event.z)`, `["aXb","src-1",0]`},
	} {
		p := mustCompile(t, Source{Map: "{v: [" + c.expression + "]}"})
		if pairs, err := mapOnce(t, p, doc); err != nil || string(pairs[0].Body) != `{"v":`+c.want+`}` {
			t.Errorf("%s gives %v, %v, want %s", c.expression, pairs, err, c.want)
		}
		sameInPart(t, p, []byte(doc))
	}
}
