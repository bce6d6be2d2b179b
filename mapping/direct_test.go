package mapping

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

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

func TestStraightPrograms(t *testing.T) {
	const doc = `{"a":{"b":1.10,"t":true,"f":false,"n":null},"l":[{"p":1,"q":"x"},{"p":2},{"p":null}],"s":"aXb","z":0,"e":[],"n":null}`
	for _, c := range []struct{ expression, want string }{
		{`.a.b, .a.missing, .n.x`, `[1.10,null,null]`},
		{`.a.f // 1, .a.n // 2, .a.t // 3, .z // 4, .s // 5`, `[1,2,true,0,"aXb"]`},
		{`(.a.f, .a.n, .z) // 6, (.a.f, .a.n) // 7, empty // 8`, `[0,7,8]`},
		{`(.l[].p) // 9`, `[1,2]`},
		{`2 as $x | (1 as $x | $x), $x`, `[1,2]`},
		{`1 as $x | 2 as $y | (3 as $x | $y), $x, $y`, `[2,1,2]`},
		{`.l[].p as $x | [$x, (.s as $x | $x), $x]`, `[[1,"aXb",1],[2,"aXb",2],[null,"aXb",null]]`},
		{`(.l[0:1] | .[]) as $x | $x`, ``},
		{`(.l[].p as $x | ($x // 5, ($x // 7) + 1)) as $y | $y`, `[1,2,2,3,5,8]`},
		{`((.z, 4) as $x | [$x + 1, ((1, 2) as $y | $x + $y), $x]) as $z | $z`, `[[1,1,2,0],[5,5,6,4]]`},
		{`.l[0].q, .l[9], .n[0]`, `["x",null,null]`},
		{`.s.x?, .l.x?, .a.b?`, `[1.10]`},
		{`.s[]?, .z[]?, .n[]?, .l[]?.p`, `[1,2,null]`},
		{`(.a.f and .s.x), (.a.t or .s.x), (.n and true), (.z and .s), (.n or .n)`, `[false,true,false,true,false]`},
		{`if .z then 1 else 2 end, if .n then 1 elif .a.f then 2 elif .a.t then 3 else 4 end, if .a.f then 5 end | .a? // .`, `[1,3,{"b":1.10,"f":false,"n":null,"t":true}]`},
		{`[.l[] | select(.p > 1)], [.l[] | select(.p, .q)]`, `[[{"p":2}],[{"p":1,"q":"x"},{"p":1,"q":"x"},{"p":2}]]`},
		{`(.l | map(.p) | add), add(.l[].p), ([] | add), (.l | map(.p, .q) | length)`, `[3,3,null,6]`},
		{`{s, "z", $meta, x: .a.t} | del(.meta)?`, ``},
		{`{s, "z", x: .a.t, "y z": -1}`, ``},
		{`{s, "z", x: .a.t, "y z": "w"}`, `[{"s":"aXb","x":true,"y z":"w","z":0}]`},
		{`"\(.s)-\(.a.b)-\(.e)-\(.n)", (.s | ascii_upcase, ascii_downcase, ltrimstr("a"), rtrimstr("b"), startswith("a"), endswith("X"))`, `["aXb-1.10-[]-null","AXB","axb","Xb","aX",true,false]`},
		{`(.a, .l, .s, .z, .n, .a.t | type), (.a | length), (.l | length), (.n | length)`, `["object","array","string","number","null","boolean",4,3,0]`},
		{`(.a.b + 1, .a.b * 2, 3 - .z, .s + "c", .e + [1])`, `[2.1,2.2,3,"aXbc",[1]]`},
		{`(.a.b == 1.1), (.a == .a), (.l[0] != .l[1]), (.n < .z)`, ``},
		{`(.a == .a), (.l[0] != .l[1]), (.n < .z), (.z >= .s)`, `[true,true,true,false]`},
		{`money(.a.b; "EUR"), dec_add(.a.b; "1"), truncate(.s; 2), (.s | test("X")), (.s | split("X") | join("-"))`, `["1.10","2.10","aX",true,"a-b"]`},
		{`$event.s, $meta.id, (.a | $event.z)`, `["aXb","src-1",0]`},
	} {
		p := mustCompile(t, Source{Map: "{v: [" + c.expression + "]}"})
		in := p.idle[0]
		in.run.reset(context.Background(), time.Second)
		event, _, err := in.dec.decode([]byte(doc), p.wanted)
		if err != nil {
			t.Fatal(err)
		}
		e := evaluation{instance: in, event: event, meta: metaValue(testMeta())}
		switch direct := p.direct != nil && e.directly(p.direct); {
		case direct != (c.want != ""):
			t.Errorf("%s: direct is %v", c.expression, direct)
		case direct && string(e.pairs[0].Body) != `{"v":`+c.want+`}`:
			t.Errorf("%s gives %s, want %s", c.expression, e.pairs[0].Body, c.want)
		}
		sameInPart(t, p, []byte(doc))
	}
}

// Where much is to do, gojq's limits decide.
func TestMuchWorkIsLeftToJQ(t *testing.T) {
	p := mustCompile(t, Source{Map: "{v: [.a[] | .b] | length}"})
	body := []byte(`{"a":[` + strings.Repeat(`{"b":1},`, 20_000) + `{"b":1}]}`)
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

	body = []byte(`{"a":{"0":1`)
	for i := range 50_000 {
		body = fmt.Appendf(body, `,"%d":1`, i+1)
	}
	body = append(body, "}}"...)
	p = mustCompile(t, Source{Map: "{v: ([.a, .a | ., . | ., . | ., . | ., .] | length)}"})
	sameInPart(t, p, body)
}
