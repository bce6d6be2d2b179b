package mapping

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestRefsBecomePlaceholders(t *testing.T) {
	for name, c := range map[string]struct {
		program, body, want string
		refs                []Ref
	}{
		"a field": {`{party: ref("party"; .id)}`, `{"id":"C1"}`,
			`{"party":{"$ref":{"entity":"party","key":"C1"}}}`, []Ref{{Entity: "party", Key: "C1"}}},
		"optional": {`{party: ref("party"; .id; "optional")}`, `{"id":"C1"}`,
			`{"party":{"$ref":{"entity":"party","key":"C1","optional":true}}}`, []Ref{{Entity: "party", Key: "C1", Optional: true}}},
		"key is a number": {`{party: ref("party"; .id)}`, `{"id":12345678901234567890}`,
			`{"party":{"$ref":{"entity":"party","key":"12345678901234567890"}}}`, []Ref{{Entity: "party", Key: "12345678901234567890"}}},
		"key in normal form": {`{party: ref("party"; .id)}`, `{"id":" CAFE\u0301\u200b "}`,
			"{\"party\":{\"$ref\":{\"entity\":\"party\",\"key\":\"CAF\u00c9\"}}}", []Ref{{Entity: "party", Key: "CAF\u00c9"}}},
		"optional to null":        {`{party: ref("party"; .id; "optional")}`, `{"id":null}`, `{"party":null}`, nil},
		"optional to empty":       {`{party: ref("party"; .id; "optional")}`, `{"id":""}`, `{"party":null}`, nil},
		"escaped in the key":      {`{party: ref("a\"b"; .id)}`, `{"id":"<\"\\>"}`, `{"party":{"$ref":{"entity":"a\"b","key":"<\"\\>"}}}`, []Ref{{Entity: `a"b`, Key: `<"\>`}}},
		"nested and in arrays":    {`{b: [{x: ref("p"; "2")}, [ref("p"; "1")]], a: {y: ref("q"; "1")}}`, `{}`, `{"a":{"y":{"$ref":{"entity":"q","key":"1"}}},"b":[{"x":{"$ref":{"entity":"p","key":"2"}}},[{"$ref":{"entity":"p","key":"1"}}]]}`, []Ref{{Entity: "q", Key: "1"}, {Entity: "p", Key: "2"}, {Entity: "p", Key: "1"}}},
		"each once":               {`{a: ref("p"; "1"), b: [ref("p"; "1"), ref("p"; "1"; "optional")]}`, `{}`, `{"a":{"$ref":{"entity":"p","key":"1"}},"b":[{"$ref":{"entity":"p","key":"1"}},{"$ref":{"entity":"p","key":"1","optional":true}}]}`, []Ref{{Entity: "p", Key: "1"}, {Entity: "p", Key: "1", Optional: true}}},
		"through walk":            {`{a: ref("p"; "1"), b: null} | walk(if type == "object" then with_entries(select(.value != null)) else . end)`, `{}`, `{"a":{"$ref":{"entity":"p","key":"1"}}}`, []Ref{{Entity: "p", Key: "1"}}},
		"through variables":       {`ref("p"; "1") as $r | [$r, $r] as [$x] | {a: $x} | .b = .a | {b}`, `{}`, `{"b":{"$ref":{"entity":"p","key":"1"}}}`, []Ref{{Entity: "p", Key: "1"}}},
		"through merging":         {`{a: ref("p"; "1")} * {b: 1} + {c: ref("p"; "2")}`, `{}`, `{"a":{"$ref":{"entity":"p","key":"1"}},"b":1,"c":{"$ref":{"entity":"p","key":"2"}}}`, []Ref{{Entity: "p", Key: "1"}, {Entity: "p", Key: "2"}}},
		"instead of null":         {`{a: (.x // ref("p"; "1"))}`, `{}`, `{"a":{"$ref":{"entity":"p","key":"1"}}}`, []Ref{{Entity: "p", Key: "1"}}},
		"equal ones are equal":    {`{a: ([ref("p"; "1"), ref("p"; "1")] | unique | length)}`, `{}`, `{"a":1}`, nil},
		"more than a list of few": {`{a: [range(20) | ref("p"; . % 12)]}`, `{}`, placeholders(20, 12), distinct(12)},
	} {
		t.Run(name, func(t *testing.T) {
			pairs, err := mapOnce(t, mustCompile(t, Source{Map: c.program}), c.body)
			if err != nil {
				t.Fatal(err)
			}
			if got := string(pairs[0].Body); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if !slices.Equal(pairs[0].Refs, c.refs) {
				t.Errorf("refs %v, want %v", pairs[0].Refs, c.refs)
			}
			found, err := FindRefs(pairs[0].Body)
			if err != nil || !slices.Equal(found, c.refs) {
				t.Errorf("FindRefs gives %v, %v; want %v", found, err, c.refs)
			}
		})
	}
}

func placeholders(n, different int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(`,{"$ref":{"entity":"p","key":"` + strconv.Itoa(i%different) + `"}}`)
	}
	return `{"a":[` + b.String()[1:] + `]}`
}

func distinct(n int) []Ref {
	var refs []Ref
	for i := range n {
		refs = append(refs, Ref{Entity: "p", Key: strconv.Itoa(i)})
	}
	return refs
}

func TestAnEventCannotForgeARef(t *testing.T) {
	const refused = `has a member "$ref" that the function ref did not make; leave it out or rename it`
	// what a ref looks like inside jq, with the proof of another program
	other := newRefMaker()
	inside, err := json.Marshal(other.make(Ref{Entity: "party", Key: "C1"}))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ program, body, want string }{
		"a placeholder":             {`{p: .p}`, `{"p":{"$ref":{"entity":"party","key":"C1"}}}`, "record: field p: " + refused},
		"in a list":                 {`{p: [.p]}`, `{"p":{"$ref":{"entity":"party","key":"C1"}}}`, "record: field p[0]: " + refused},
		"the record itself":         {`.`, `{"$ref":{"entity":"party","key":"C1"}}`, "record: " + refused},
		"other data under the name": {`.`, `{"a":{"$ref":"#/definitions/x"}}`, "record: field a: " + refused},
		"beside other members":      {`.`, `{"a":{"$ref":{"entity":"e","key":"k"},"b":1}}`, "record: field a: " + refused},
		"with a foreign proof":      {`{p: .p}`, `{"p":` + string(inside) + `}`, "record: field p: " + refused},
		"with an escaped name":      {`.`, `{"\u0024ref":{"entity":"party","key":"C1"}}`, "record: " + refused},
		"key changed by merging":    {`{p: ref("party"; "C1")} * .over`, `{"over":{"p":{"$ref":{"key":"C2"}}}}`, "record: field p: " + refused},
		"entity changed":            {`{p: ref("party"; "C1")} * .over`, `{"over":{"p":{"$ref":{"entity":"user"}}}}`, "record: field p: " + refused},
		"made optional":             {`{p: ref("party"; "C1")} * .over`, `{"over":{"p":{"$ref":{"optional":true}}}}`, "record: field p: " + refused},
		"member added":              {`{p: ref("party"; "C1")} * .over`, `{"over":{"p":{"$ref":{"x":1}}}}`, "record: field p: " + refused},
		"sibling added":             {`{p: ref("party"; "C1")} * .over`, `{"over":{"p":{"x":1}}}`, "record: field p: " + refused},
		"changed by the program":    {`{p: ref("party"; "C1")} | .p["$ref"].key = "C2"`, `{}`, "record: field p: " + refused},
		"as text":                   {`{p: "\(ref("party"; "C1"))"}`, `{}`, `map: field p: "\(ref("party"; "C1"))": a ref cannot be part of a text; give it a field of its own`},
		"as JSON text":              {`{p: ({x: ref("party"; "C1")} | tojson)}`, `{}`, `map: field p: tojson: a ref cannot be part of a text; give it a field of its own`},
		"in a format":               {`{p: ([{x: ref("party"; "C1")}] | @json)}`, `{}`, `map: field p: @json: a ref cannot be part of a text; give it a field of its own`},
		"added to text":             {`{p: ("x" + ref("party"; "C1"))}`, `{}`, `map: field p: "x" + ref("party"; "C1"): cannot add a string and an object`},
		"as a key":                  {`{k: ref("party"; "C1")}`, `{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			src := Source{Map: c.program}
			if c.want == "" {
				src.Key, c.want = ".k", `key: must be a string or a number but is an object (join the parts of a key, such as "\(.a)-\(.b)")`
			}
			if got := mapFailure(t, src, c.body).Error(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestDataThatOnlyMentionsRefPassesThrough(t *testing.T) {
	p := mustCompile(t, Source{Map: "."})
	for _, body := range []string{
		`{"a":"$ref"}`, `{"a":"{\"$ref\":{\"entity\":\"p\",\"key\":\"1\"}}"}`, `{"$refs":1}`, `{"ref":{"entity":"p","key":"1"}}`, `{"a":["$ref",{"b":"\"$ref\":"}]}`,
	} {
		pairs, err := mapOnce(t, p, body)
		if err != nil || string(pairs[0].Body) != body || pairs[0].Refs != nil {
			t.Errorf("%s: %v, %v", body, pairs, err)
			continue
		}
		if refs, err := FindRefs(pairs[0].Body); err != nil || refs != nil {
			t.Errorf("FindRefs(%s) = %v, %v", body, refs, err)
		}
		out, missing, err := ResolveRefs(pairs[0].Body, func(Ref) (json.RawMessage, bool) { return json.RawMessage("1"), true })
		if err != nil || missing != nil || string(out) != body {
			t.Errorf("ResolveRefs(%s) = %s, %v, %v", body, out, missing, err)
		}
	}
}

func TestRefRefuses(t *testing.T) {
	const in = `{"z":null,"e":" ","o":{},"at":"@x"}`
	for expression, want := range map[string]string{
		`ref("p"; .z)`:             `ref("p"; .z): key is null`,
		`ref("p"; .e)`:             `ref("p"; .e): key is empty`,
		`ref("p"; .e; "optional")`: `ref("p"; .e; "optional"): key is empty`,
		`ref("p"; .o)`:             `ref("p"; .o): key must be a string or a number but is an object`,
		`ref("p"; .at)`:            `ref("p"; .at): key begins with '@', which is reserved; put a prefix before it`,
		`ref(.z; "1")`:             `ref(.z; "1"): entity must be a string but is null`,
		`ref("" | .; "1")`:         `ref("" | .; "1"): entity must be 1 to 200 bytes of text without control characters`,
		`ref("p"; "1"; "maybe")`:   `ref("p"; "1"; "maybe"): the third argument can only be "optional"`,
		`ref("x" * 201; "1")`:      `ref("x" * 201; "1"): entity must be 1 to 200 bytes of text without control characters`,
	} {
		t.Run(expression, func(t *testing.T) {
			_, err := tryEval(t, expression, in)
			if err == nil || err.Error() != "map: field v: "+want {
				t.Errorf("got  %v\nwant map: field v: %s", err, want)
			}
		})
	}
}

func TestResolveRefs(t *testing.T) {
	known := map[Ref]string{
		{Entity: "party", Key: "C1"}:                 `4711`,
		{Entity: "party", Key: "C2", Optional: true}: `"a \"quoted\" id"`,
		{Entity: "product", Key: "P"}:                ` 12345678901234567890 `,
	}
	lookup := func(r Ref) (json.RawMessage, bool) {
		link, ok := known[r]
		return json.RawMessage(link), ok
	}
	for name, c := range map[string]struct {
		body, want string
		missing    []Ref
	}{
		"none":                {`{"a":[1,"x",{"b":null}]}`, `{"a":[1,"x",{"b":null}]}`, nil},
		"one":                 {`{"a":{"$ref":{"entity":"party","key":"C1"}},"b":1}`, `{"a":4711,"b":1}`, nil},
		"text link":           {`{"a":{"$ref":{"entity":"party","key":"C2","optional":true}}}`, `{"a":"a \"quoted\" id"}`, nil},
		"long number":         {`[{"$ref":{"entity":"product","key":"P"}}]`, `[12345678901234567890]`, nil},
		"several":             {`[{"$ref":{"entity":"party","key":"C1"}},{"x":{"$ref":{"entity":"product","key":"P"}}},{"$ref":{"entity":"party","key":"C1"}}]`, `[4711,{"x":12345678901234567890},4711]`, nil},
		"optional, unknown":   {`{"a":{"$ref":{"entity":"party","key":"C9","optional":true}}}`, `{"a":null}`, nil},
		"missing":             {`{"a":{"$ref":{"entity":"party","key":"C9"}},"b":{"$ref":{"entity":"party","key":"C1"}},"c":{"$ref":{"entity":"party","key":"C9"}}}`, ``, []Ref{{Entity: "party", Key: "C9"}}},
		"blanks and order":    {" { \"a\" : { \"$ref\" : { \"key\" : \"C1\" , \"entity\" : \"party\" } } } ", ` { "a" : 4711 } `, nil},
		"escaped name":        {`{"a":{"\u0024ref":{"entity":"party","key":"C1"}}}`, `{"a":4711}`, nil},
		"name inside a text":  {`{"a":"{\"$ref\":{}}","b":{"$ref":{"entity":"party","key":"C1"}}}`, `{"a":"{\"$ref\":{}}","b":4711}`, nil},
		"the whole record":    {`{"$ref":{"entity":"party","key":"C1"}}`, `4711`, nil},
		"all kinds of values": {`{"a":[true,false,null,-1.5e3,""],"b":{},"c":[],"d":{"$ref":{"entity":"party","key":"C1"}}}`, `{"a":[true,false,null,-1.5e3,""],"b":{},"c":[],"d":4711}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.body
			out, missing, err := ResolveRefs([]byte(c.body), lookup)
			if err != nil || string(out) != c.want || !slices.Equal(missing, c.missing) {
				t.Errorf("got %s, %v, %v; want %s, %v", out, missing, err, c.want, c.missing)
			}
			if c.missing != nil && out != nil {
				t.Errorf("a record with missing references was given out: %s", out)
			}
			if c.body != before {
				t.Error("the body was changed")
			}
		})
	}
}

func TestResolveRefsAsksOnceForEachRef(t *testing.T) {
	asked := 0
	body := placeholders(20, 3)
	_, _, err := ResolveRefs([]byte(body), func(Ref) (json.RawMessage, bool) { asked++; return json.RawMessage("1"), true })
	if err != nil || asked != 3 {
		t.Errorf("asked %d times, %v", asked, err)
	}
}

func TestResolveRefsRefuses(t *testing.T) {
	const bad = `find refs: record has a "$ref" that is not {"$ref":{"entity":…,"key":…}}`
	for name, c := range map[string]struct{ body, link, want string }{
		"text under $ref":        {`{"$ref":"x"}`, "1", bad},
		"no key":                 {`{"$ref":{"entity":"p"}}`, "1", bad},
		"no entity":              {`{"$ref":{"key":"p"}}`, "1", bad},
		"empty key":              {`{"$ref":{"entity":"p","key":""}}`, "1", bad},
		"key is a number":        {`{"$ref":{"entity":"p","key":1}}`, "1", bad},
		"unknown member":         {`{"$ref":{"entity":"p","key":"1","x":1}}`, "1", bad},
		"sibling behind":         {`{"$ref":{"entity":"p","key":"1"},"x":1}`, "1", bad},
		"sibling before":         {`{"x":1,"$ref":{"entity":"p","key":"1"}}`, "1", bad},
		"optional is no true":    {`{"$ref":{"entity":"p","key":"1","optional":1}}`, "1", bad},
		"cut in a ref":           {`{"$ref":{"entity":"p"`, "1", bad},
		"cut behind a ref":       {`{"a":{"$ref":{"entity":"p","key":"1"}}`, "1", "find refs: record is not JSON"},
		"not JSON":               {`{"a":x,"$ref":1}`, "1", "find refs: record is not JSON"},
		"text behind":            {`{"a":{"$ref":{"entity":"p","key":"1"}}} x`, "1", "record is not JSON"},
		"too deep":               {strings.Repeat("[", 300) + `"$ref"`, "1", "find refs: record is nested deeper than 200 levels"},
		"link is an object":      {`{"a":{"$ref":{"entity":"p","key":"1"}}}`, `{"id":1}`, `find refs: resolve ref to entity "p": link is not a JSON string or number`},
		"link is null":           {`{"a":{"$ref":{"entity":"p","key":"1"}}}`, `null`, `find refs: resolve ref to entity "p": link is not a JSON string or number`},
		"link is nothing":        {`{"a":{"$ref":{"entity":"p","key":"1"}}}`, ``, `find refs: resolve ref to entity "p": link is not a JSON string or number`},
		"link is half a text":    {`{"a":{"$ref":{"entity":"p","key":"1"}}}`, `"x`, `find refs: resolve ref to entity "p": link is not a JSON string or number`},
		"link would add a field": {`{"a":{"$ref":{"entity":"p","key":"1"}}}`, `1,"b":2`, `find refs: resolve ref to entity "p": link is not a JSON string or number`},
	} {
		t.Run(name, func(t *testing.T) {
			out, missing, err := ResolveRefs([]byte(c.body), func(Ref) (json.RawMessage, bool) { return json.RawMessage(c.link), true })
			if err == nil || err.Error() != c.want || out != nil || missing != nil {
				t.Errorf("got %s, %v, %v; want the error %s", out, missing, err, c.want)
			}
		})
	}
}
