package mapping

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/itchyny/gojq"
)

// plainJQ runs an expression in gojq itself.
func plainJQ(t *testing.T, expression, input string) (out []string, err error) {
	t.Helper()
	q, err := gojq.Parse(expression)
	if err != nil {
		t.Fatal(err)
	}
	code, err := gojq.Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal([]byte(input), &v); err != nil {
		t.Fatal(err)
	}
	iter := code.Run(v)
	for {
		v, ok := iter.Next()
		if !ok {
			return out, nil
		}
		if err, ok := v.(error); ok {
			return out, err
		}
		b, _ := gojq.Marshal(v)
		out = append(out, string(b))
	}
}

// What is rewritten means the same as before wherever no number is rounded.
func TestRewrittenProgramsMeanWhatTheyMeanInJQ(t *testing.T) {
	const input = `{"n":5,"s":"Hello, wörld","e":"","z":null,"t":true,"l":[3,1,2,3],"w":["b","a"],
		"o":{"b":{"x":1},"a":[1,{"y":2}]},"lines":[{"sku":"A","q":2,"p":10},{"sku":"B","q":1,"p":5},{"sku":"A","q":3,"p":1}],
		"d":"2026-11-29","deep":[[1,[2]],[3]],"tags":"a, b,c"}`
	for _, expression := range []string{
		// operators, over all outputs and in jq's order
		"(1,2) + (10,20)", "(1,2) - (10,20)", "(2,4) * (1,3)", "(6,12) / (2,3)", "(7,9) % (4,5)", "(1,2) == (1,2)", "(1,2) < (2,1)",
		"null + 1", "1 + null", "null + null", `"a" + "b"`, "[1] + [2]", "{a:1} + {a:2,b:3}", "[1,2,1,3] - [1]", "{a:{b:1,c:2}} * {a:{b:3},d:4}",
		`"a,b" / ","`, `"" / ","`, `"abc" / ""`, `"ab" * 3`, `[1,"a",null,true,false,{},[]] | sort`, "[] + []", "{} + {}", "[1] + []",
		".n += 1", ".l[] += 1", ".o.b.x *= (2,3)", `.s += "!"`, ".q //= 1", ".z //= 1", ".l |= map(. + 1)", ".lines[].q |= . * 2", ".l[1:3] = [9]",
		".l |= (.[] | select(. > 1) | [.])", ".o |= with_entries(.value |= tojson)", ".l[] |= empty", "del(.l[0,2])", "del(.lines[] | select(.sku == \"A\"))",
		"del(.o.b, .n)", "delpaths([[\"o\"],[\"n\"]]) | keys", "to_entries | map(.key)", ".o | paths | join(\".\")?", "[paths(type == \"number\")]",
		"path(..) | length", "[.o | leaf_paths?] // 1", "getpath([\"o\",\"b\",\"x\"])", "setpath([\"o\",\"b\"]; 7) | .o", "pick(.o.b.x, .l[1])",
		"(.lines[] | select(.sku == \"B\") | .q) = 7 | .lines", "[limit(3; repeat(1))]", "[.l[] as $x | $x * $x]", ". as {n: $x, l: [$y]} | $x - $y",
		".[] as [$a] ?// $a | $a", "reduce .l[] as $x (0; . + $x)", "[foreach .l[] as $x (0; . + $x; [$x, .])]", "label $out | .l[] | if . == 2 then break $out else . end",
		"def f(x): x * 2; f(.n)", "def f($a; $b): $a + $b; f(1; 2)", "def fac: if . <= 1 then 1 else . * (. - 1 | fac) end; .n | fac",
		"def add: 42; add", "def map(f): \"mine\"; map(.)", "[.l[] | if . > 2 then \"big\" elif . > 1 then \"mid\" else \"small\" end]",
		"try error(\"x\") catch .", "try (1, error(\"x\"), 3) catch .", "[.l[] | try (if . == 1 then error(\"e\") else . end) catch \"c\"]", ".a.b.c?", "[.[]?.x?]",
		".n as $x | [.l[] | select(. < $x)]", ".z // \"d\"", "(.z, .t) // 3", "empty // 4", "[.l[] | (if . == 1 then null else . end) // 0]", "first(.l[])", "[.l[] | not]",
		// text
		`"a\(1 + 2)b\(.s)"`, `"\(1,2)-\(3,4)"`, `@json "x\(.l)"`, `@csv "\(.w)"`, `.w | @csv, @tsv, @sh, @json, @text`, `.s | @html, @uri, @base64`, `.s | @base64 | @base64d`,
		`{"a\(.n)": 1}`, `{"\(.w[])": 2}`, `{(.w[]): 3}`, `{n, "s", $__loc__: 1}?`, `."s"`, `."\("s")"`, `.["o"]["b"]`, `.l[-1], .l[0]`, `.s[0:5], .s[-1:]`, `.l[1:][0]`,
		`.s | length, utf8bytelength, ascii_downcase, ascii_upcase, explode[0]`, `.s | explode | implode`, `.w | join(",")`, `[1,null,"a",true] | join("-")`, `[] | join(",")`,
		`.s | split(", ")`, `.tags | split(", *"; null)`, `[.tags | splits(", *")]`, `.s | test("WÖRLD"; "i"), test("x")`, `.s | test(["wö", "g"])`, `[.s | match("l"; "g") | .offset]`,
		`.s | match("w(ö)(?<r>r)(x)?")`, `.s | capture("(?<a>[A-Z])(?<b>[a-z]+)")`, `[.s | scan("[a-z]")]`, `[.s | scan("(l)(.)")]`, `[.s | scan("L"; "i")]`, `.s | sub("l"; "L")`, `.s | gsub("l"; "L")`,
		`.s | gsub("(?<c>[a-z])"; .c | ascii_upcase)`, `.s | gsub("L"; "1"; "i")`, `.s | sub("l"; "1"; "g")`, `[.s | sub("l"; "1", "2")]`, `[.s | gsub("l"; "1", "2")]`, `.s | gsub("x"; "y")`, `.s | gsub("^"; ">")`,
		`.s | [match("l+"; "g").string]`, `[.s | gsub("l"; empty)]`, `.s | ltrimstr("Hello"), rtrimstr("rld"), startswith("H"), endswith("d")`, `"  x " | trim, ltrim, rtrim`, `.s | index("l"), rindex("l"), indices("l")`,
		`"x" | tojson, tostring`, `.l | tostring, tojson`, `"[1,2]" | fromjson`, `"12" | tonumber`, `12 | tonumber`, `.s | contains("ell"), inside("Hello, wörld!")`, `.o | contains({b: {x: 1}})`, `.l | contains([3]), index(3), indices(3), indices([1,2])`,
		// lists
		".l | sort, unique, min, max, add, length, reverse", ".lines | sort_by(.p) | map(.p)", ".lines | sort_by(.sku, .q) | map(.q)", ".lines | group_by(.sku) | map(length)",
		".lines | unique_by(.sku) | map(.q)", ".lines | min_by(.q), max_by(.p)", "[] | min, max, min_by(.x), add", ".o | add?", "add(.l[])", "{a:1,b:2} | add", `["a",null,"b"] | add`, "[[1],null,[2]] | add", "[{a:1},{b:2}] | add", "[null,1] | add", "[1,[2]] | add?",
		".deep | flatten, flatten(1)", ".deep | transpose?", "[[1,2],[3]] | transpose", ".l | any(. == 2), all(. > 0)", "[.l[] | IN(1, 2)]", "IN(.l[]; 9, 2)", "INDEX(.lines[]; .sku) | keys", "[.l | combinations(2)] | length?", "[[1,2],[3,4]] | [combinations]",
		"[range(5)], [range(2; 5)], [range(0; 10; 3)], [range(5; 0; -2)]", "[range(0, 1; 3, 4)]", "[.o | tostream] | length", "fromstream(.o | tostream)", "[1 | truncate_stream([[0],1],[[1,0],2],[[1,0]],[[1]])]", "walk(if type == \"number\" then . + 1 else . end)", "with_entries(select(.key < \"f\"))",
		".o | map_values(type)", ".l | first, last, nth(1)", "[.l[] | numbers], [.[] | strings | length]", "[.[] | type]", "isempty(empty), isempty(.l[])", "[splits(\"x\")?]", "until(type != \"object\"; .n)", "[.n | while(. > 0; . - 2)]", "[2 | recurse(if . < 20 then . * . else empty end)]", "ltrimstr(1)?",
		"[.[] | scalars] | length", "has(\"n\"), (.l | has(0))", ".l | bsearch(1)", "[.l[] | toboolean?]", "limit(2; .l[])", "[skip(2; .l[])]", ".o | keys", "input_line_number?  // 1",
		// numbers and time
		"10 / 2, 7 % 3, -7 % 3, 2 * 3 - 1", "1 - 1, 5 - 7", "[1.0, 2.50] | map(. == 1)", "3 | -., (. | -.)", "-(1)", "[.l[] | floor, sqrt?]|length", "1420 | todate", "\"2015-03-05T23:51:47Z\" | fromdate", "0 | strftime(\"%Y-%m-%d\")", "\"2026-11-29\" | strptime(\"%Y-%m-%d\") | mktime",
		"[1, 1.5, 2] | map(floor), map(ceil), map(round)", "pow(2; 10), log10?", "1 as $x | 2 as $y | [$x, $y, $__loc__?]?", "[limit(0; 1, 2)]", "splits(1)?", "[.[] | numbers] | add", "\"\\(1;2)\"? // 1",
	} {
		if skipped(expression) {
			continue
		}
		t.Run(expression, func(t *testing.T) {
			want, wantErr := plainJQ(t, expression, input)
			pairs, err := mapOnce(t, mustCompile(t, Source{Map: "{v: [" + expression + "]}"}), input)
			if (err != nil) != (wantErr != nil) {
				t.Fatalf("error %v, in jq %v", err, wantErr)
			}
			if err != nil {
				return
			}
			if got := string(pairs[0].Body); got != `{"v":[`+strings.Join(want, ",")+`]}` {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// skipped drops what is not jq, or not in this gojq, from the list above.
func skipped(expression string) bool {
	q, err := gojq.Parse(expression)
	if err != nil {
		return true
	}
	_, err = gojq.Compile(q)
	return err != nil
}

func TestEveryFunctionOfJQIsDecidedOn(t *testing.T) {
	out, err := plainJQ(t, "builtins[]", "null")
	if err != nil {
		t.Fatal(err)
	}
	decided := builtins()
	for _, id := range out {
		id = strings.Trim(id, `"`)
		if _, ok := decided[id]; !ok {
			t.Errorf("gojq has %s, and builtins() does not say what becomes of it", id)
		}
	}
	for id, how := range decided {
		if how.kind != refused && id != "debug/0" && id != "stderr/0" && !slices.Contains(out, `"`+id+`"`) {
			t.Errorf("builtins() has %s, which gojq does not", id)
		}
	}
	for name := range added(newRefMaker()) {
		for id := range decided {
			if strings.HasPrefix(id, name+"/") {
				t.Errorf("%s is both added and jq's own", id)
			}
		}
	}
}
