package mapping

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

func TestProgramsThatRunAwayEndWithAClearError(t *testing.T) {
	for name, c := range map[string]struct{ program, want string }{
		"endless numbers":          {"range(1e12) | empty", "map: took more than 300000 steps"},
		"endless list":             {"{a: [range(1e12)]}", "map: took more than 300000 steps"},
		"endless repeat":           {"{a: [limit(1e12; repeat({x: [1, 2, 3]}))]}", "map: took more than 300000 steps"},
		"endless loop":             {"{a: until(false; .)}", "map: took more than 300000 steps"},
		"endless recursion":        {"def f: 1 + f; {a: f}", "map: took more than 300000 steps"},
		"endless nesting":          {"def f: [f]; {a: f}", "map: took more than 300000 steps"},
		"outputs":                  {"range(1e12) | {a: 1}", "map: gave more than 1000 outputs for one event"},
		"null outputs":             {"range(1e12) | null", "map: gave more than 1000 outputs for one event"},
		"text, repeated":           {`{a: ("x" * 1e9)}`, `map: "x" * 1e9: text is longer than 2 MiB`},
		"text, repeated for ever":  {`{a: ("x" * 1e999)}`, `map: "x" * 1e999: text is longer than 2 MiB`},
		"text, repeated to inf":    {`{a: ("x" * infinite)}`, `map: "x" * infinite: text is longer than 2 MiB`},
		"text, doubled":            {`{a: reduce range(60) as $i ("x"; . + .)}`, `map: . + .: text is longer than 2 MiB`},
		"text, in text":            {`{a: reduce range(60) as $i ("x"; "\(.)\(.)")}`, `map: "\(.)\(.)": text is longer than 2 MiB`},
		"text, joined":             {`("x" * 1000) as $x | {a: ([range(10000) | $x] | join(""))}`, `map: join(""): text is longer than 2 MiB`},
		"text, added up":           {`("x" * 1000) as $x | {a: ([range(10000) | $x] | add)}`, `map: add: text is longer than 2 MiB`},
		"text, replaced":           {`("y" * 10000) as $y | {a: ("x" * 10000 | gsub("x"; $y))}`, `map: gsub("x"; $y): text is longer than 2 MiB`},
		"text, often":              {`[range(1e9) | "x" * 1e6 | length] | empty`, `map: "x" * 1e6: built more than 64 MiB of values`},
		"text, upper case":         {`("x" * 1e6) as $x | [range(1e9) | $x | ascii_upcase | length]`, `map: ascii_upcase: built more than 64 MiB of values`},
		"text, split":              {`("x" * 1e6) as $x | [range(1e9) | $x | split("") | length]`, `map: split(""): built more than 64 MiB of values`},
		"text, to codes":           {`("x" * 2e6) as $x | [range(9) | $x | explode | length]`, `map: explode: built more than 64 MiB of values`},
		"text, matched":            {`("x" * 1e6) | gsub("x"; "") | empty`, `map: gsub("x"; ""): a regular expression matched more than 500000 times`},
		"list, doubled":            {`reduce range(60) as $i ([1]; . + .) | empty`, `map: . + .: built more than 64 MiB of values`},
		"list, at an index":        {`.a[$event.big] = 1`, `map: .[$event.big]: array index is above 1000000`},
		"list, at a path":          {`setpath(["a", 500000000]; 1)`, `map: setpath(["a", 500000000]; 1): array index is above 1000000`},
		"list, at a path's end":    {`getpath(["a", 500000000]) = 1`, `map: getpath(["a", 500000000]): array index is above 1000000`},
		"list, of a stream":        {`fromstream([[500000000], 1], [[500000000]])`, `map: fromstream([[500000000], 1], [[500000000]]): array index is above 1000000`},
		"list, transposed":         {`[[range(10000)], (range(10000) | [])] | transpose`, `map: transpose: value has more than 100000 parts`},
		"list, of combinations":    {`[[range(100)], [range(100)], [range(100)], [range(100)], [range(100)]] | combinations | empty`, "map: took more than 300000 steps"},
		"shared parts, compared":   {shared + `. == .`, `map: . == .: took more than 300000 steps`},
		"shared parts, sorted":     {shared + `[., .] | sort`, `map: sort: took more than 300000 steps`},
		"shared parts, searched":   {shared + `[.] | contains([.])`, `map: contains([.]): value has more than 100000 parts`},
		"shared parts, flat":       {shared + `flatten`, `map: flatten: value has more than 100000 parts`},
		"shared parts, as text":    {shared + `tojson`, `map: tojson: value has more than 100000 parts`},
		"shared parts, in text":    {shared + `"\(.)"`, `map: "\(.)": value has more than 100000 parts`},
		"shared parts, format":     {shared + `@json`, `map: @json: value has more than 100000 parts`},
		"shared parts, deleted":    {shared + `del(.[0])`, `map: del(.[0]): value has more than 100000 parts`},
		"shared parts, updated":    {shared + `.[0] |= empty`, `map: .[0] |= empty: value has more than 100000 parts`},
		"shared parts, walked":     {shared + `walk(.)`, `map: walk(.): value has more than 100000 parts`},
		"shared parts, subtracted": {shared + `[.] - [.]`, `map: [.] - [.]: took more than 300000 steps`},
		"shared parts, a record":   {shared + `{a: .}`, `record: field a` + strings.Repeat("[0]", 30)},
		"deep, as text":            {`reduce range(2000) as $i (0; [.]) | tojson`, `map: tojson: value is nested deeper than 1000 levels`},
		"deep, compared":           {`reduce range(2000) as $i (0; [.]) | . == .`, `map: . == .: value is nested deeper than 1000 levels`},
		"deep, merged":             {`reduce range(2000) as $i ({}; {a: .}) | . * .`, `map: . * .: value is nested deeper than 1000 levels`},
		"large, searched":          {`[range(10000)] | indices([range(10000)])`, `map: indices([range(10000)]): the values are too large to be searched for each other`},
		"large, subtracted":        {`[range(10000)] - [range(20000; 40000)]`, `map: [range(10000)] - [range(20000; 40000)]: took more than 300000 steps`},
		"digits":                   {`reduce range(60) as $i (7; . * .) | {a: .}`, `map: . * .: number has more than 1000 digits`},
		"no catching":              {`{a: (try ("x" * 1e9) catch 1)}`, `map: "x" * 1e9: text is longer than 2 MiB`},
		"no alternative":           {`{a: (("x" * 1e9) // 1)}`, `map: "x" * 1e9: text is longer than 2 MiB`},
		"no passing over":          {`{a: [("x" * 1e9)?, until(false; .)?]}`, `map: "x" * 1e9: text is longer than 2 MiB`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mustCompile(t, Source{Map: c.program, Timeout: time.Minute})
			lowerLimits(p)
			_, err := mapOnce(t, p, `{"big":500000000}`)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// lowerLimits lets a program run away for a short while only.
func lowerLimits(p *Program) {
	p.idle[0].run.limits = limits{steps: 300_000, produced: 64 << 20, text: 2 << 20, nodes: 100_000}
}

// shared is a value of a few bytes that is 2^60 parts to whoever walks it.
const shared = `reduce range(60) as $i ([1]; [., .]) | `

func TestAKeyThatRunsAwayEndsToo(t *testing.T) {
	p := mustCompile(t, Source{Map: "{a: 1}", Key: "last(repeat(1))", Timeout: time.Minute})
	lowerLimits(p)
	if _, err := mapOnce(t, p, "{}"); err == nil || err.Error() != "key: took more than 300000 steps" {
		t.Errorf("got %v", err)
	}
}

func TestTimeIsLimited(t *testing.T) {
	for name, program := range map[string]string{"in steps": "{a: last(repeat(1))}", "in a function": "[range(4000)] | {a: ([range(1000)] | map(. - 1) | sort | length)}, {a: until(false; .)}"} {
		err := mapFailure(t, Source{Map: program, Timeout: time.Nanosecond}, "{}")
		if got := err.Error(); got != "map: took too long: more than 1ns" && !strings.HasSuffix(got, ": took too long: more than 1ns") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

func TestALimitDoesNotStickToTheProgram(t *testing.T) {
	p := mustCompile(t, Source{Map: `if .bad then {a: ("x" * 1e9)} else {a: 1} end`})
	for range 3 {
		if _, err := mapOnce(t, p, `{"bad":true}`); err == nil {
			t.Fatal("no error")
		}
		if _, err := mapOnce(t, p, `{}`); err != nil {
			t.Fatalf("the event after it: %v", err)
		}
	}
}

func TestLimitsOfASourceCanBeSet(t *testing.T) {
	p := mustCompile(t, Source{Map: ".[] | {id: .}", Key: ".id", MaxOutputs: 2, MaxBytes: 10})
	if pairs, err := mapOnce(t, p, `[1,2]`); err != nil || len(pairs) != 2 {
		t.Errorf("at the limit: %v, %v", pairs, err)
	}
	if _, err := mapOnce(t, p, `[1,2,3]`); err == nil || err.Error() != "map: gave more than 2 outputs for one event" {
		t.Errorf("over the limit: %v", err)
	}
	if _, err := mapOnce(t, p, `[100000]`); err == nil || err.Error() != "record: field id: record is larger than 10 bytes" {
		t.Errorf("over the size: %v", err)
	}
}

// What a program keeps in memory when it is stopped stays far below what ends
// a process. The limit of Go's own heap is lowered to be sure of it.
func TestMemoryIsLimited(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it builds hundreds of megabytes, in one goroutine")
	}
	before := debug.SetMemoryLimit(-1)
	debug.SetMemoryLimit(900 << 20)
	defer debug.SetMemoryLimit(before)
	var m runtime.MemStats
	for program, want := range map[string]string{
		"def f: 1 + f; {a: f}":          "map: def f: built more than 512 MiB of values",
		"def f: [f]; {a: f}":            "map: def f: built more than 512 MiB of values",
		"{a: [range(1e9) | {a: .}]}":    "map: took more than 10000000 steps",
		`{a: [range(1e9) | "x" * 1e6]}`: `map: "x" * 1e6: built more than 512 MiB of values`,
		"{a: [recurse(. + 1)]}":         "map: took more than 10000000 steps",
	} {
		p := mustCompile(t, Source{Map: program, Timeout: time.Minute})
		in, err := p.take()
		if err != nil {
			t.Fatal(err)
		}
		_, err = in.mapEvent(context.Background(), []byte("0"), Meta{})
		runtime.ReadMemStats(&m)
		if err == nil || err.Error() != want || m.HeapAlloc > 900<<20 {
			t.Errorf("%s: %v with %d MiB in use", program, err, m.HeapAlloc>>20)
		}
		runtime.KeepAlive(in)
	}
}
