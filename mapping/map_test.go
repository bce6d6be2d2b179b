package mapping

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/itchyny/gojq"
)

func TestOutputsOfAMapping(t *testing.T) {
	for name, c := range map[string]struct {
		src  Source
		body string
		want []string // key and body
	}{
		"one record":             {Source{Map: "{id}", Key: ".id"}, `{"id":1}`, []string{`1 {"id":1}`}},
		"null is no record":      {Source{Map: "null", Key: ".id"}, `{}`, nil},
		"empty is no record":     {Source{Map: "empty", Key: ".id"}, `{}`, nil},
		"some null":              {Source{Map: "{k: 1}, null, {k: 2}", Key: ".k"}, `{}`, []string{`1 {"k":1}`, `2 {"k":2}`}},
		"several, in order":      {Source{Map: ".l[] | {id: .}", Key: ".id"}, `{"l":["b","a"]}`, []string{`b {"id":"b"}`, `a {"id":"a"}`}},
		"equal ones are one":     {Source{Map: "{a: 1, b: 2}, {b: 2, a: 1}", Key: `"k"`}, `{}`, []string{`k {"a":1,"b":2}`}},
		"key of the event":       {Source{Map: "{a: 1}", Key: "$event.id"}, `{"id":"E"}`, []string{`E {"a":1}`}},
		"key of meta":            {Source{Map: "{a: 1}", Key: `"\($meta.stream)/\($meta.id)/\($meta.version)"`}, `{}`, []string{`orders/src-1/42 {"a":1}`}},
		"meta in the record":     {Source{Map: "$meta", Key: ".id"}, `{}`, []string{`src-1 {"changed_at":"2026-11-29T09:00:00Z","id":"src-1","stream":"orders","version":42}`}},
		"vars":                   {Source{Map: "{w: $vars.w}", Key: "$vars.w", Vars: map[string]string{"w": "1.0"}}, `{}`, []string{`1.0 {"w":"1.0"}`}},
		"event in the map":       {Source{Map: ".a | {x: $event.b}", Key: `"k"`}, `{"a":1,"b":2}`, []string{`k {"x":2}`}},
		"key is normalised":      {Source{Map: "{sku}", Key: ".sku"}, `{"sku":"\u00a0SKU\u200b123 "}`, []string{"SKU123 {\"sku\":\"\u00a0SKU\u200b123 \"}"}},
		"two spellings, one key": {Source{Map: `{a: 1}`, Key: `$event.a`}, `{"a":"CAFE\u0301"}`, []string{"CAF\u00c9 {\"a\":1}"}},
		"event that is a list":   {Source{Map: ".[] | {id}", Key: ".id"}, `[{"id":1},{"id":2}]`, []string{`1 {"id":1}`, `2 {"id":2}`}},
		"event that is a number": {Source{Map: "{n: .}", Key: ".n"}, `12.50`, []string{`12.50 {"n":12.50}`}},
		"list or object":         {Source{Map: "{m: [.meta[]?.key]}", Key: `"k"`}, `{"meta":{"0":{"key":"a"},"2":{"key":"b"}}}`, []string{`k {"m":["a","b"]}`}},
		"mistyped ids":           {Source{Map: ".ids[] | {id: tostring}", Key: ".id"}, `{"ids":["12345678901234567890123",12345678901234567890,"gid://shop/Order/55"]}`, []string{`12345678901234567890123 {"id":"12345678901234567890123"}`, `12345678901234567890 {"id":"12345678901234567890"}`, `gid://shop/Order/55 {"id":"gid://shop/Order/55"}`}},
		"ids by case":            {Source{Map: ".[] | {id: .}", Key: ".id"}, `["AbC9","aBc9"]`, []string{`AbC9 {"id":"AbC9"}`, `aBc9 {"id":"aBc9"}`}},
		"sku in several places":  {Source{Map: ".[] | {sku, channel, qty}", Key: `"\(.sku)/\(.channel)"`}, `[{"sku":"5299","channel":"A","qty":1},{"sku":"5299","channel":"B","qty":2}]`, []string{`5299/A {"channel":"A","qty":1,"sku":"5299"}`, `5299/B {"channel":"B","qty":2,"sku":"5299"}`}},
		"debug is silent":        {Source{Map: `{a: (1 | debug | stderr | debug("x"))}`, Key: `"k"`}, `{}`, []string{`k {"a":1}`}},
		"more than eight keys":   {Source{Map: "range(20) | {id: (. % 12)}", Key: ".id"}, `{}`, numbered(12)},
	} {
		t.Run(name, func(t *testing.T) {
			pairs, err := mapOnce(t, mustCompile(t, c.src), c.body)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, p := range pairs {
				got = append(got, p.Key+" "+string(p.Body))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func numbered(n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(`%d {"id":%d}`, i, i))
	}
	return out
}

func TestMetaWithoutATimeOfChange(t *testing.T) {
	p := mustCompile(t, Source{Map: "$meta"})
	pairs, err := p.Map(context.Background(), []byte("{}"), Meta{Version: -9223372036854775808})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(pairs[0].Body), `{"changed_at":null,"id":"","stream":"","version":-9223372036854775808}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMappingsThatFailSayWhereAndWhatToDo(t *testing.T) {
	for name, c := range map[string]struct {
		src        Source
		body, want string
	}{
		"array":                {Source{Map: "[{a: 1}]"}, `{}`, "map: gave an array, and one record is one object (add [] behind it to give its elements one by one)"},
		"text":                 {Source{Map: ".a"}, `{"a":"x"}`, "map: gave a string, and a record is an object (give null or empty where there is no record)"},
		"number":               {Source{Map: "1"}, `{}`, "map: gave a number, and a record is an object (give null or empty where there is no record)"},
		"false":                {Source{Map: "false"}, `{}`, "map: gave a boolean, and a record is an object (give null or empty where there is no record)"},
		"no key":               {Source{Map: "{a: 1}", Key: "empty"}, `{}`, "key: gave no value, and every record needs a key"},
		"null key":             {Source{Map: "{a: 1}", Key: ".id"}, `{"id":1}`, "key: is null (the key expression runs on the record; the event is $event)"},
		"two keys":             {Source{Map: "{a: 1}", Key: "1, 2"}, `{}`, "key: gave more than one value (use first(…) or join the parts into one string)"},
		"endless keys":         {Source{Map: "{a: 1}", Key: "repeat(1)"}, `{}`, "key: gave more than one value (use first(…) or join the parts into one string)"},
		"boolean key":          {Source{Map: "{a: 1}", Key: "true"}, `{}`, "key: must be a string or a number but is a boolean"},
		"list key":             {Source{Map: "{a: 1}", Key: "[1]"}, `{}`, "key: must be a string or a number but is an array"},
		"empty key":            {Source{Map: "{a: 1}", Key: `" "`}, `{}`, "key: is empty"},
		"reserved key":         {Source{Map: "{a: 1}", Key: `"@x"`}, `{}`, "key: begins with '@', which is reserved; put a prefix before it"},
		"nan key":              {Source{Map: "{a: 1}", Key: `nan`}, `{}`, "key: must be a string or a number but is a number"},
		"key fails":            {Source{Map: "{a: 1}", Key: `.a | ltrimstr("x") | test("x")`}, `{}`, `key: ltrimstr cannot be applied to a number with a string`},
		"one key, two records": {Source{Map: "{a: 1}, {a: 2}"}, `{}`, "key: outputs 1 and 2 of the event have one key but differ (make the key tell them apart)"},
		"record too large":     {Source{Map: "{a: {b: .x}, c: 1}", MaxBytes: 20}, `{"x":"` + strings.Repeat("y", 20) + `"}`, "record: field a.b: record is larger than 20 bytes"},
		"record too deep":      {Source{Map: "{a: reduce range(300) as $i (0; [.])}"}, `{}`, "record: field a" + strings.Repeat("[0]", 66) + "…: record is nested deeper than 200 levels"},
		"own words":            {Source{Map: `if .country then {} else fail("order without a country") end`}, `{}`, "map: order without a country"},
		"own words, error":     {Source{Map: `{a: error("order without a country")}`}, `{}`, "map: field a: order without a country"},
		"own words, cleaned":   {Source{Map: `fail("a\u0000\nb")`}, `{}`, "map: a  b"},
		"own words, cut":       {Source{Map: `fail("x" * 1000)`}, `{}`, "map: " + strings.Repeat("x", 500)},
		"own words, none":      {Source{Map: `fail("")`}, `{}`, "map: fail was called without a message"},
		"own words, number":    {Source{Map: `fail(null)`}, `{}`, "map: fail(null): the message: a string was expected but there is null"},
		"error of data":        {Source{Map: `.name | error`}, `{"name":"secret"}`, "map: error was called with a string (write the message there as a plain string, or use fail(message), to see it here)"},
		"iterating null":       {Source{Map: `{lines: [.lines[] | {a}]}`}, `{}`, "map: field lines: cannot iterate over null (use .x[]? or (.x // [])[] where a list may be missing)"},
		"nested field":         {Source{Map: `{lines: [.lines[] | {sku: {code: .sku.code}}]}`}, `{"lines":[{"sku":"A"}]}`, "map: field lines.sku.code: an object was expected but there is a string"},
		"field by a string":    {Source{Map: `{"a b": {"c": .x.y}}`}, `{"x":1}`, "map: field a b.c: an object was expected but there is a number"},
		"calculated field":     {Source{Map: `{(.n): .x.y}`}, `{"x":1,"n":"secret"}`, "map: field (…): an object was expected but there is a number"},
		"caught, then another": {Source{Map: `{a: (try {b: .x.y} catch 1), c: .x.y}`}, `{"x":1}`, "map: field c: an object was expected but there is a number"},
		"passed over with ?":   {Source{Map: `{a: ({b: .x.y})?, c: .x.y}`}, `{"x":1}`, ""},
		"alternative":          {Source{Map: `{a: ({b: .x.y} // 1), c: .x.y}`}, `{"x":1}`, "map: field a.b: an object was expected but there is a number"},
		"optional, then":       {Source{Map: `{a: [{b: .x.y}?], c: .x.y}`}, `{"x":1}`, "map: field c: an object was expected but there is a number"},
		"operator":             {Source{Map: `{a: (.x + .y)}`}, `{"x":1,"y":"2"}`, "map: field a: .x + .y: cannot add a number and a string"},
		"update":               {Source{Map: `.x += "a"`}, `{"x":1}`, `map: .x += "a": cannot add a number and a string`},
		"long expression":      {Source{Map: `{a: (.x + "` + strings.Repeat("y", 100) + `")}`}, `{"x":1}`, `map: field a: .x + "` + strings.Repeat("y", 74) + "…: cannot add a number and a string"},
		"deep in a function":   {Source{Map: `def price: {amount: dec(.p)}; {lines: [.l[] | price]}`}, `{"l":[{"p":"x"}]}`, "map: field lines.amount: dec(.p): the string is not a decimal number such as 12.50"},
		"regular expression":   {Source{Map: `{a: test("(")}`}, `"x"`, `map: field a: test("("): not a regular expression of RE2 (https://github.com/google/re2/wiki/Syntax)`},
		"flags":                {Source{Map: `{a: test("x"; "q")}`}, `"x"`, `map: field a: test("x"; "q"): the flags of a regular expression can be g, i and m`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want == "" {
				if pairs, err := mapOnce(t, mustCompile(t, c.src), c.body); err != nil || pairs != nil {
					t.Errorf("got %v, %v; want no record", pairs, err)
				}
				return
			}
			if got := mapFailure(t, c.src, c.body).Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// The words of an error come from the program and from types. The canaries
// stand in every place of the event that a failing function could quote.
func TestErrorsQuoteNoData(t *testing.T) {
	const canary = "zq17x"
	body := `{"s":"` + canary + `","n":1717171717,"f":1717.17,"big":17171717171717171717171717,"a":["` + canary + `",1717171717],"o":{"` + canary + `":"` + canary + `","x":{"y":"` + canary + `"}},
		"` + canary + `":1717171717,"b":true,"z":null,"re":"(` + canary + `","t":"2026-11-29 ` + canary + `","json":"{` + canary + `","b64":"` + canary + `=!"}`
	var programs []string
	operands := []string{".s", ".n", ".f", ".big", ".a", ".o", ".b", ".z"}
	for _, x := range operands {
		for _, y := range operands {
			for _, op := range []string{"+", "-", "*", "/", "%"} {
				programs = append(programs, x+op+y)
			}
			for _, f := range []string{"has", "index", "startswith", "endswith", "ltrimstr", "split", "join", "contains", "inside", "test", "match", "capture", "scan", "sub", "gsub",
				"getpath", "delpaths", "setpath", "flatten", "limit", "nth", "strftime", "strptime", "format", "bsearch", "error", "range", "pow", "ldexp", "dec_add", "money", "truncate", "fit_key", "ref", "parse_time", "date_in", "uuid5", "dec_div", "dec_round", "minor_to_dec", "splits", "in", "group_by", "min_by", "INDEX", "trimstr", "rtrimstr"} {
				programs = append(programs, fmt.Sprintf("%s | %s(%s)", x, f, y), fmt.Sprintf("%s | %s(%s; %s)", x, f, x, y), fmt.Sprintf("%s | %s(%s; %s; %s)", x, f, x, y, x))
			}
			programs = append(programs, fmt.Sprintf("%s[%s]", x, y), fmt.Sprintf("%s[%s:]", x, y), fmt.Sprintf("{(%s): %s}", x, y), fmt.Sprintf("%s[%s] = 1", x, y), fmt.Sprintf("%s[:%s] = %s", x, y, x), fmt.Sprintf("%s |= error(%s)", x, y))
		}
		for _, f := range []string{"keys", "add", "length", "floor", "sqrt", "tonumber", "tostring | .x", "explode", "implode", "ascii_downcase", "reverse", "sort", "unique", "min", "transpose", "fromjson", "todate", "fromdate", "mktime", "gmtime", "toboolean", "from_entries", "to_entries",
			"trim", "ltrim", "utf8bytelength", "@csv", "@tsv", "@sh", "@base64d", "@urid", "dec(.)", "num(.)", "slug(.)", "trim_key(.)", "strip_astral(.)", "parse_time(.)", "dec_sum(.)", "error", ".[]", ".x", ".[0]", ".x.y.z", "-.", "path(1)", "path(first(1, .))", "del(1)", "paths(error)", "map(.x)", "first(.[])", "tojson | fromjson | .x", "try error catch error", "try error(.) catch (. | error)", "abs", "combinations", "splits(.)", "ref(\"p\"; .)", "ref(.; .)", "fail({})", "walk(error)", "with_entries(error)", "getpath([.])", "input_line", "@json | .x", "isvalid(.)", "fabs", "round", "significand", "frexp", "ltrimstr(1)", "tostream | .x", "fromstream(.)", "limit(-1; .)", "implode", "env", "break", "truncate_stream(.)", "ascii", "@html | .x", "(1 as [$a] | $a)", ". as [$q] | $q", ". as {x: [$q]} | $q", ". as {(1): $q} | $q", "{a: .} | .a[\"x\"]", "reduce .[] as $x (0; . + $x)", "foreach .[] as $x (0; . - $x)", "label $f | .[]"} {
			programs = append(programs, x+" | "+f)
		}
	}
	programs = append(programs, `test(.re)`, `.s | test(.; 1)`, `.re as $r | .s | match($r)`, `.t | strptime("%Y")`, `.json | fromjson`, `.b64 | @base64d`, `"%zz" + .s | @urid`, `.s | fromdate`, `halt_error`, `.a | .[1.5:"x"]`)
	failed := 0
	for _, program := range programs {
		p, err := Compile(Source{Map: "{v: (" + program + ")}", Key: `"k"`})
		if err != nil {
			continue
		}
		_, err = mapOnce(t, p, body)
		if err == nil {
			continue
		}
		failed++
		if text := err.Error(); strings.Contains(text, canary) || strings.Contains(text, "1717") {
			t.Errorf("%s: the error quotes the event: %s", program, text)
		}
		if strings.Contains(err.Error(), "failed in a function of jq") || strings.Contains(err.Error(), "unexpectedly") {
			t.Errorf("%s: the error says nothing: %v", program, err)
		}
	}
	if failed < 2000 {
		t.Errorf("only %d of %d programs failed, so little was tried", failed, len(programs))
	}
}

func TestErrorsAreOfTheEventOrOfTheContext(t *testing.T) {
	p := mustCompile(t, Source{Map: "{a: last(repeat(1))}", Timeout: time.Minute})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := p.Map(ctx, []byte("{}"), Meta{})
	var failed *Error
	if !errors.Is(err, context.Canceled) || errors.As(err, &failed) {
		t.Errorf("a context that was over before: %T %v", err, err)
	}
	// a context that ends while the program runs
	ctx, cancel = context.WithCancel(context.Background())
	stopping := &stopAfter{Context: ctx, cancel: cancel, asked: 3}
	_, err = p.Map(stopping, []byte("{}"), Meta{})
	if !errors.Is(err, context.Canceled) || errors.As(err, &failed) {
		t.Errorf("a context that ended meanwhile: %T %v", err, err)
	}
}

// stopAfter ends when it was asked a few times whether it is over.
type stopAfter struct {
	context.Context
	cancel func()
	asked  int
}

func (c *stopAfter) Err() error {
	if c.asked--; c.asked == 0 {
		c.cancel()
	}
	return c.Context.Err()
}

func TestAPanicIsAnErrorAndTheProgramGoesOn(t *testing.T) {
	p := mustCompile(t, Source{Map: "{a: 1}"})
	good, err := p.take()
	if err != nil {
		t.Fatal(err)
	}
	bad, err := p.newInstance()
	if err != nil {
		t.Fatal(err)
	}
	q, err := gojq.Parse("boom")
	if err != nil {
		t.Fatal(err)
	}
	for name, boom := range map[string]func(){
		"a runtime error": func() { _ = []int{}[len(bad.program.idle)+3] },
		"a value":         func() { panic("zq17x") },
	} {
		bad.mapCode, err = gojq.Compile(q, gojq.WithVariables(variables()), gojq.WithFunction("boom", 0, 0, func(any, []any) any { boom(); return nil }))
		if err != nil {
			t.Fatal(err)
		}
		bad.broken = false
		p.idle = []*instance{good, bad}
		_, err = mapOnce(t, p, "{}")
		if err == nil || !strings.HasPrefix(err.Error(), "map: a function failed unexpectedly; please report it") || strings.Contains(err.Error(), "zq17x") {
			t.Errorf("%s: %v", name, err)
		}
		if slices.Contains(p.idle, bad) {
			t.Errorf("%s: the broken instance is kept", name)
		}
	}
	if _, err := mapOnce(t, p, "{}"); err != nil {
		t.Errorf("the next event fails: %v", err)
	}
}

func TestAProgramMapsManyEventsAtOnce(t *testing.T) {
	p := mustCompile(t, Source{Map: `.const = {x: {y: 1}} | del(.const.x.z) | .id as $id | {id: $id, c: .const, l: [.l[] | . * $id], p: ref("p"; $id)}`, Key: ".id"})
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for j := range 50 {
				n := i*50 + j + 1
				pairs, err := mapOnce(t, p, fmt.Sprintf(`{"id":%d,"l":[1,2]}`, n))
				want := fmt.Sprintf(`{"c":{"x":{"y":1}},"id":%d,"l":[%d,%d],"p":{"$ref":{"entity":"p","key":"%d"}}}`, n, n, 2*n, n)
				if err != nil || string(pairs[0].Body) != want {
					t.Errorf("event %d: %v, %v", n, pairs, err)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestRunsDoNotShareValues(t *testing.T) {
	p := mustCompile(t, Source{Map: `(if .first then $vars else {} end) as $x | {v: $vars.a, m: $meta.id, c: ({k: [1, 2]} | if $event.first then .k[0] = 9 | del(.k[1]) else . end)}`, Vars: map[string]string{"a": "1"}})
	for _, c := range [][2]string{{`{"first":true}`, `{"c":{"k":[9]},"m":"src-1","v":"1"}`}, {`{}`, `{"c":{"k":[1,2]},"m":"src-1","v":"1"}`}} {
		pairs, err := mapOnce(t, p, c[0])
		if err != nil || string(pairs[0].Body) != c[1] {
			t.Errorf("%s: %v, %v", c[0], pairs, err)
		}
	}
}

func TestBodiesAreLeftAlone(t *testing.T) {
	p := mustCompile(t, Source{Map: ".a = 2 | .l |= map(. + 1)"})
	body := []byte(`{"a":1,"l":[1,2]}`)
	before := slices.Clone(body)
	pairs, err := p.Map(context.Background(), body, Meta{})
	if err != nil || !slices.Equal(body, before) {
		t.Errorf("body is now %s, %v", body, err)
	}
	clear(body)
	if got := string(pairs[0].Body); got != `{"a":2,"l":[2,3]}` {
		t.Errorf("the record changed with the body: %s", got)
	}
}
