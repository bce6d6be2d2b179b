package mapping

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestCompileErrorsSayWhereAndWhatToDo(t *testing.T) {
	vars := map[string]string{"warehouse": "w1"}
	for name, c := range map[string]struct{ program, want string }{
		"empty":                    {" \n", `map: the program is empty (write an object, such as {"name": .title})`},
		"bracket missing":          {"{a: .b", "map:1:7: unexpected EOF (a bracket, a quote or an end is missing)"},
		"end missing":              {"if .a then {}\n", "map:2:1: unexpected EOF (a bracket, a quote or an end is missing)"},
		"quote missing":            {"{a: \"x}", "map:1:8: unterminated string literal (a bracket, a quote or an end is missing)"},
		"token":                    {"{a: .b,\n c: )}", `map:2:5: unexpected token ")"`},
		"token behind ä":           {"{ä: 1}", `map:1:2: unexpected token "ä"`},
		"single quotes":            {"{a: 'x'}", `map:1:5: unexpected token "'" (strings are written in double quotes)`},
		"number":                   {"{a: 1.2.3}", `map:1:5: invalid token "1.2."`},
		"escape":                   {`{a: "\x"}`, `map:1:6: invalid escape sequence "\x" in string literal`},
		"function":                 {"{a: 1,\n b: mony(.x; \"EUR\")}", "map:2:5: there is no function mony (did you mean money?)"},
		"function, second use":     {"def mony: 1; {a: mony, b: (1 | mony(2))}", "map:1:32: mony was given 1 argument (it takes 0; arguments are separated by semicolons)"},
		"function, no idea":        {"{a: frobnicate}", "map:1:5: there is no function frobnicate (did you mean .frobnicate?)"},
		"function of jq, misspelt": {"{a: (.b | ascii_lowcase)}", "map:1:11: there is no function ascii_lowcase (did you mean ascii_downcase?)"},
		"own function, misspelt":   {"def price: .p; {a: pirce}", "map:1:20: there is no function pirce (did you mean price?)"},
		"function out of scope":    {"(def inner: 1; inner) as $x | {a: inner}", "map:1:35: there is no function inner (did you mean .inner?)"},
		"parameter out of scope":   {"def f(g): g; {a: g}", "map:1:18: there is no function g (did you mean .g?)"},
		"name in a comment":        {"# nosuch\n{nosuch: .nosuch, a: \"nosuch \\(nosuch)\"}", "map:2:32: there is no function nosuch (did you mean .nosuch?)"},
		"name after a string":      {`{a: "\(1 + (2))", b: nosuch}`, "map:1:22: there is no function nosuch (did you mean .nosuch?)"},
		"arguments with comma":     {`{a: money(.x, "EUR")}`, "map:1:5: money was given 1 argument (use money(x; currency; [mode]))"},
		"arguments, none":          {`{a: (.x | dec)}`, "map:1:11: dec was given no argument (use dec(x))"},
		"arguments, layout alone":  {`{a: parse_time(.x; "%F")}`, "map:1:5: parse_time was given 2 arguments (use parse_time(text; [layout; zone]))"},
		"arguments of jq":          {`{a: (.x | test)}`, "map:1:11: test was given no argument (it takes 1 or 2; arguments are separated by semicolons)"},
		"variable":                 {"{a: $foo}", "map:1:5: there is no variable $foo"},
		"variable, misspelt":       {".a as $price | {a: $pirce}", "map:1:20: there is no variable $pirce (did you mean $price?)"},
		"variable of ours":         {"{a: $events}", "map:1:5: there is no variable $events (did you mean $event?)"},
		"constant":                 {"{a: $vars.warehose}", "map:1:5: the flow has no constant warehose (did you mean $vars.warehouse?)"},
		"label":                    {"break $x", "map:1:7: label not defined: $x"},
		"binding ours":             {". as $event | {}", "map:1:6: $event is given by syncd and cannot be bound (choose another name)"},
		"binding ours, pattern":    {". as {a: [$meta]} | {}", "map:1:11: $meta is given by syncd and cannot be bound (choose another name)"},
		"binding ours, parameter":  {"def f($vars): 1; {}", "map: $vars is given by syncd and cannot be bound (choose another name)"},
		"reserved function":        {"def __x: 1; {}", "map: the name __x is reserved (names that begin with two underscores are syncd's own)"},
		"reserved variable":        {"{a: $__x}", "map:1:5: there is no variable $__x"},
		"hidden function":          {"{a: __0}", "map:1:5: there is no function __0"},
		"hidden operator":          {"{a: _add(1; 2)}", "map:1:5: there is no function _add (did you mean add?)"},
		"environment":              {"{a: env.HOME}", "map:1:5: env cannot be used in a mapping (a mapping cannot read the environment; declare constants and use $vars.NAME)"},
		"environment variable":     {"{a: $ENV.HOME}", "map:1:5: a mapping cannot read the environment (declare constants and use $vars.NAME)"},
		"input":                    {"[inputs]", "map:1:2: inputs cannot be used in a mapping (a mapping sees its event, $meta and $vars, and nothing else)"},
		"halt":                     {"halt", "map:1:1: halt cannot be used in a mapping (use fail(message) to give up on an event, empty to leave it out)"},
		"halt_error":               {`"x" | halt_error(1)`, "map:1:7: halt_error cannot be used in a mapping (use fail(message) to give up on an event, empty to leave it out)"},
		"now":                      {"{a: now}", "map:1:5: now cannot be used in a mapping (a mapping must give the same record each time it runs; use $meta.changed_at)"},
		"localtime":                {"{a: (.t | localtime)}", "map:1:11: localtime cannot be used in a mapping (it depends on the zone of the machine; use format_time(t; layout; zone))"},
		"import":                   {`import "x" as x; {}`, "map: modules cannot be imported or declared (define functions in the program itself with def)"},
		"include":                  {`include "x"; {}`, "map: modules cannot be imported or declared (define functions in the program itself with def)"},
		"module":                   {`module {}; {}`, "map: modules cannot be imported or declared (define functions in the program itself with def)"},
		"name of a module":         {`{a: x::y}`, "map:1:5: there is no function x::y"},
		"format":                   {`{a: (.x | @base32)}`, "map:1:11: there is no format @base32 (known are @text @json @html @uri @urid @csv @tsv @sh @base64 @base64d)"},
		"zone literal":             {`{a: date_in(.t; "CET")}`, `map:1:5: date_in, argument 2: the zone must be "UTC" or a name of the zone database such as "Europe/Berlin"; abbreviations such as CET are not clear enough (use date_in(t; zone))`},
		"zone literal, misspelt":   {`{a: date_in(.t; "Europe/Berlim")}`, `map:1:5: date_in, argument 2: the zone database has no such zone; names are written like "Europe/Berlin" (use date_in(t; zone))`},
		"layout literal":           {`{a: format_time(.t; "%F %Q"; "UTC")}`, "map:1:5: format_time, argument 2: the layout has the unknown directive %Q; known are %Y %y %m %d %e %H %I %M %S %f %p %b %B %a %A %z %s %F %T %R %% (use format_time(t; layout; zone))"},
		"layout literal, zone":     {`{a: parse_time(.t; "%F %Z"; "UTC")}`, "map:1:5: parse_time, argument 2: %Z is not supported, because an abbreviation such as CST stands for several zones; use %z and the zone argument (use parse_time(text; [layout; zone]))"},
		"layout literal, end":      {`{a: parse_time(.t; "%F %"; "UTC")}`, "map:1:5: parse_time, argument 2: the layout ends with a single % (use parse_time(text; [layout; zone]))"},
		"currency literal":         {`{a: money(.x; "EURO")}`, "map:1:5: money, argument 2: unknown currency; ISO 4217 has no code like it with a minor unit (use money(x; currency; [mode]))"},
		"rounding literal":         {`{a: dec_round(.x; 2; "up")}`, `map:1:5: dec_round, argument 3: rounding must be "half_even" or "half_up" (use dec_round(x; digits; mode))`},
		"places literal":           {`{a: dec_round(.x; 200; "half_up")}`, `map:1:5: dec_round, argument 2: decimal places must be a whole number from 0 to 100 (use dec_round(x; digits; mode))`},
		"length literal":           {`{a: fit_key(.x; 10)}`, `map:1:5: fit_key, argument 2: the length must be a whole number from 24 (use fit_key(x; n))`},
		"entity literal":           {`{a: ref(1; .x)}`, `map:1:5: ref, argument 1: entity must be a string but is a number (use ref(entity; key; ["optional"]))`},
		"index":                    {`{a: .b[2000000]}`, "map:1:8: array index is above 1000000"},
		"long number":              {"{a: 1" + strings.Repeat("0", 1100) + "}", "map:1:5: number has more than 1000 digits"},
		"long program":             {strings.Repeat(" ", 300<<10) + ".", "map: the program is longer than 262144 bytes"},
		"deep program":             {strings.Repeat("[", 1000) + strings.Repeat("]", 1000), "map: the program is nested too deep"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Compile(Source{Map: c.program, Key: ".id", Vars: vars})
			if err == nil || err.Error() != c.want {
				t.Fatalf("got  %v\nwant %s", err, c.want)
			}
			checkPlace(t, c.program, err)
		})
	}
}

// checkPlace holds the offset against line and column.
func checkPlace(t *testing.T, program string, err error) {
	t.Helper()
	var e *CompileError
	if !errors.As(err, &e) {
		t.Fatalf("error is %T", err)
	}
	if e.Offset < 0 {
		if e.Line != 0 || e.Col != 0 {
			t.Errorf("offset unknown, but line %d and column %d", e.Line, e.Col)
		}
		return
	}
	if e.Offset > len(program) {
		t.Fatalf("offset %d is behind the program", e.Offset)
	}
	lines := strings.Split(program[:e.Offset], "\n")
	if e.Line != len(lines) || e.Col != len([]rune(lines[len(lines)-1]))+1 {
		t.Errorf("offset %d is not %d:%d", e.Offset, e.Line, e.Col)
	}
}

func TestCompileErrorsOfTheKeySaySo(t *testing.T) {
	for key, want := range map[string]string{
		"":              "key: the program is empty (write the field of the record that names it, such as .external_id)",
		"sku":           "key:1:1: there is no function sku (did you mean .sku?)",
		"name":          "key:1:1: there is no function name (did you mean .name?)",
		" lenght # x":   "key:1:2: there is no function lenght (did you mean length?)",
		".id | trimkey": "key:1:7: there is no function trimkey (did you mean trim_key?)",
		".id |":         "key:1:6: unexpected EOF (a bracket, a quote or an end is missing)",
	} {
		_, err := Compile(Source{Map: "{}", Key: key})
		if err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

func TestNowIsTheClockOfTheSource(t *testing.T) {
	clock := time.Date(2026, 11, 29, 10, 0, 0, 123456789, time.UTC)
	p := mustCompile(t, Source{Map: `{n: now, t: (now | todate)}`, Now: func() time.Time { return clock }})
	pairs, err := mapOnce(t, p, "{}")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(pairs[0].Body), `{"n":1795946400.123456,"t":"2026-11-29T10:00:00Z"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestPlacesOfNames(t *testing.T) {
	const src = `# c ignored
def f($p; g): g + $p; # and "this"
{a: 1, b, "s\(x | f(1; {c: y}))": .d.e, $v, (z): @csv "t\("u" + w)", c: [q, r], if: try k catch l} | foo::bar(1.5e3)`
	var got []string
	for _, tok := range tokens(src) {
		if src[tok.offset:tok.offset+len(tok.text)] != tok.text {
			t.Errorf("%q is not at %d", tok.text, tok.offset)
		}
		got = append(got, tok.text)
	}
	want := "g $p x f y $v z @csv w q r k l foo::bar"
	if strings.Join(got, " ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, " "), want)
	}
}

func TestHintsAreNear(t *testing.T) {
	known := []string{"money", "dec", "dec_add", "date_in", "truncate", "trim_key"}
	for name, want := range map[string]string{"mony": "money", "moneyy": "money", "ecd": "", "dce": "dec", "dec_ad": "dec_add", "datein": "date_in",
		"trunacte": "truncate", "trimkey": "trim_key", "x": "", "frobnicate": ""} {
		if got := closest(name, known); got != want {
			t.Errorf("closest(%s) = %q, want %q", name, got, want)
		}
	}
}

func TestCharactersOfWordProcessorsAreNamedWithWhatToWrite(t *testing.T) {
	straight, minus := `use straight quotes: "text"`, "write the plain minus sign -"
	for src, want := range map[string]string{
		"{a: “x”}": straight, "{a: „x“}": straight, "{a: ‘x’}": straight, "{a: «x»}": straight, "{a: `x`}": straight, "{a: ＂x＂}": straight,
		"{a: (.b – .c)}": minus, "{a: (.b − .c)}": minus, "{a: —1}": minus,
		"{a:\u00a0.b}":                        "invisible character (U+00A0)",
		"{a: .b\u200b}":                       "invisible character (U+200B)",
		"\ufeff{a: .b}":                       "invisible character (U+FEFF)",
		"{a: …}":                              "three plain dots",
		"if .a && .b then {} else null end":   "write and between conditions",
		"if .a || .b then {} else null end":   "write or between conditions",
		"select(.a and (.b || .c)) | {a: .a}": "write or between conditions",
	} {
		for _, s := range []Source{{Map: src, Key: ".id"}, {Map: ".", Key: src}} {
			if _, err := Compile(s); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %q", src, err, want)
			}
		}
	}
}
