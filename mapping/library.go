package mapping

import (
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
)

// callFunc is a function that a program can call. The error's text names no
// value of the event; the call's place in the program is put before it.
type callFunc func(r *run, in any, args []any) (any, error)

// function is one entry of the library.
type function struct {
	params []string // names for messages, "[x]" for one that may be left out
	call   callFunc
	// literal checks arguments that stand as literals in the program, so that
	// an unknown zone or rounding is found when it is loaded: by argument.
	literal map[int]func(any) error
}

// added lists the functions that mappings have over jq. docs/mapping.md shows
// each with an example, and a test runs the examples.
func added(maker *refMaker) map[string]function {
	mode := func(v any) error { _, err := modeArg(v); return err }
	moneyMode := func(v any) error { _, err := moneyModeArg(v); return err }
	currency := func(v any) error { _, err := currencyArg(v); return err }
	places := func(v any) error { _, err := placesArg(v); return err }
	zone := func(v any) error { _, err := zoneArg(v); return err }
	layout := func(v any) error { _, err := layoutArg(v); return err }
	entity := func(v any) error { _, err := entityName(v); return err }
	length := func(least int) func(any) error {
		return func(v any) error { _, err := limitArg(v, least); return err }
	}
	type check = map[int]func(any) error
	x := []string{"x"}
	ab := []string{"a", "b"}
	xn := []string{"x", "n"}
	return map[string]function{
		"dec":          {x, fnDec, nil},
		"dec_or":       {[]string{"x", "default"}, fnDecOr, nil},
		"dec_add":      {ab, exactFn((*apd.Context).Add), nil},
		"dec_sub":      {ab, exactFn((*apd.Context).Sub), nil},
		"dec_mul":      {ab, exactFn((*apd.Context).Mul), nil},
		"dec_div":      {[]string{"a", "b", "digits", "mode"}, fnDecDiv, check{2: places, 3: mode}},
		"dec_sum":      {[]string{"array"}, fnDecSum, nil},
		"dec_cmp":      {ab, fnDecCmp, nil},
		"dec_round":    {[]string{"x", "digits", "mode"}, fnDecRound, check{1: places, 2: mode}},
		"money":        {[]string{"x", "currency", "[mode]"}, fnMoney, check{1: currency, 2: moneyMode}},
		"minor_to_dec": {[]string{"n", "digits"}, fnMinorToDec, check{1: places}},
		"num":          {x, fnNum, nil},

		"slug":           {x, fnSlug, nil},
		"trim_key":       {x, fnTrimKey, nil},
		"fit_key":        {xn, fnFitKey, check{1: length(minFitKey)}},
		"truncate":       {xn, truncateFn(oneEach), check{1: length(0)}},
		"truncate_bytes": {xn, truncateFn(utf8.RuneLen), check{1: length(0)}},
		"truncate_utf16": {xn, truncateFn(utf16Units), check{1: length(0)}},
		"strip_astral":   {x, fnStripAstral, nil},
		"uuid5":          {[]string{"namespace", "name"}, fnUUID5, nil},

		"ref": {[]string{"entity", "key", "[\"optional\"]"}, maker.ref, check{0: entity}},

		"parse_time":  {[]string{"text", "[layout", "zone]"}, fnParseTime, check{1: layout, 2: zone}},
		"format_time": {[]string{"t", "layout", "zone"}, fnFormatTime, check{1: layout, 2: zone}},
		"date_in":     {[]string{"t", "zone"}, fnDateIn, check{1: zone}},

		"fail": {[]string{"message"}, fnFail, nil},
	}
}

// counts are the numbers of arguments that a function takes.
func (f function) counts() []int {
	least, group := 0, false
	for _, p := range f.params {
		if p[0] == '[' {
			group = true
			break
		}
		least++
	}
	if !group {
		return []int{least}
	}
	return []int{least, len(f.params)}
}

// treatment says what becomes of a call of one of jq's own functions.
type treatment struct {
	kind treatmentKind
	call callFunc // for replaced
	hint string   // for refused
}

type treatmentKind int

const (
	kept     treatmentKind = iota // as gojq has it
	charged                       // its result's size is counted first
	weighed                       // its input is walked and counted first
	pair                          // weighed, and its argument against its input
	replaced                      // by a function of this package
	special                       // see rewriter.specialCall
	refused
)

// builtins lists every function of jq by name and number of arguments. What is
// not here does not exist in a mapping: TestEveryFunctionOfJQIsDecidedOn fails
// when a new version of gojq brings one that nobody has looked at.
func builtins() map[string]treatment {
	m := map[string]treatment{}
	put := func(t treatment, names ...string) {
		for _, n := range names {
			m[n] = t
		}
	}
	put(treatment{kind: kept},
		"abs/0", "all/0", "all/1", "all/2", "any/0", "any/1", "any/2", "arrays/0", "booleans/0",
		"combinations/0", "combinations/1", "empty/0", "endswith/1", "finites/0", "first/0", "first/1",
		"from_entries/0", "has/1", "in/1", "INDEX/1", "INDEX/2", "infinite/0", "isempty/1", "isfinite/0",
		"isinfinite/0", "isnan/0", "isnormal/0", "iterables/0", "JOIN/2", "JOIN/3", "JOIN/4", "last/0", "last/1",
		"length/0", "limit/2", "ltrim/0", "ltrimstr/1", "map/1", "nan/0", "normals/0", "not/0", "nth/1", "nth/2",
		"nulls/0", "numbers/0", "objects/0", "path/1", "paths/0", "paths/1", "pick/1", "recurse/0", "recurse/1",
		"recurse/2", "repeat/1", "rtrim/0", "rtrimstr/1", "scalars/0", "select/1", "skip/2", "startswith/1",
		"strings/0", "to_entries/0", "toboolean/0", "tostream/0", "trim/0", "trimstr/1", "truncate_stream/1",
		"type/0", "until/2", "utf8bytelength/0", "values/0", "while/2", "with_entries/1")
	// Real functions, which are approximate by nature.
	put(treatment{kind: kept},
		"acos/0", "acosh/0", "asin/0", "asinh/0", "atan/0", "atan2/2", "atanh/0", "cbrt/0", "copysign/2", "cos/0",
		"cosh/0", "drem/2", "erf/0", "erfc/0", "exp/0", "exp10/0", "exp2/0", "expm1/0", "fdim/2", "fma/3", "fmax/2",
		"fmin/2", "fmod/2", "frexp/0", "gamma/0", "hypot/2", "j0/0", "j1/0", "jn/2", "ldexp/2", "lgamma/0", "log/0",
		"log10/0", "log1p/0", "log2/0", "logb/0", "modf/0", "nextafter/2", "nexttoward/2", "pow/2", "remainder/2",
		"scalb/2", "scalbln/2", "significand/0", "sin/0", "sinh/0", "sqrt/0", "tan/0", "tanh/0", "tgamma/0", "y0/0",
		"y1/0", "yn/2")
	put(treatment{kind: kept},
		"fromdate/0", "fromdateiso8601/0", "gmtime/0", "mktime/0", "strftime/1", "todate/0", "todateiso8601/0")
	put(treatment{kind: charged},
		"ascii_downcase/0", "ascii_upcase/0", "implode/0", "keys/0", "reverse/0")
	put(treatment{kind: weighed},
		"del/1", "delpaths/1", "flatten/0", "flatten/1", "map_values/1", "walk/1", "bsearch/1",
		"format/1")
	put(treatment{kind: pair},
		"contains/1", "inside/1", "index/1", "indices/1", "rindex/1")
	put(treatment{kind: special},
		"error/0", "error/1", "fromstream/1", "getpath/1", "setpath/2", "strptime/1", "sort_by/1", "group_by/1",
		"unique_by/1", "min_by/1", "max_by/1", "add/1", "IN/1", "IN/2", "range/1", "range/2", "range/3",
		"match/1", "match/2", "capture/1", "capture/2", "scan/1", "scan/2", "splits/1", "splits/2", "sub/2", "sub/3",
		"gsub/2", "gsub/3", "debug/1")
	for name, call := range replacements() {
		m[name] = treatment{kind: replaced, call: call}
	}
	for name, hint := range refusals() {
		m[name] = treatment{kind: refused, hint: hint}
	}
	return m
}

// replacements are functions of jq that this package has its own of, called
// with the same arguments.
func replacements() map[string]callFunc {
	same := func(_ *run, in any, _ []any) (any, error) { return in, nil }
	return map[string]callFunc{
		"add/0":       fnAdd,
		"join/1":      fnJoin,
		"split/1":     fnSplit,
		"split/2":     fnSplits,
		"explode/0":   fnExplode,
		"tonumber/0":  fnToNumber,
		"fromjson/0":  fnFromJSON,
		"floor/0":     roundFn(down),
		"ceil/0":      roundFn(up),
		"round/0":     roundFn(nearest),
		"rint/0":      roundFn(nearestEven),
		"nearbyint/0": roundFn(nearestEven),
		"trunc/0":     roundFn(towardZero),
		"fabs/0":      fnFabs,
		"transpose/0": fnTranspose,
		"tostring/0":  fnText,
		"tojson/0":    fnToJSON,
		"sort/0":      sorting(inOrder),
		"unique/0":    sorting(firstOfEach),
		"min/0":       extreme(func(n int) bool { return n < 0 }),
		"max/0":       extreme(func(n int) bool { return n >= 0 }),
		"test/1":      fnTest,
		"test/2":      fnTest,
		"debug/0":     same,
		"stderr/0":    same,
	}
}

// byKey are the functions that sort by what a filter gives; they get the array
// of the keys.
func byKey(name string) callFunc {
	switch name {
	case "sort_by":
		return sorting(inOrder)
	case "group_by":
		return sorting(grouped)
	case "unique_by":
		return sorting(firstOfEach)
	case "min_by":
		return extreme(func(n int) bool { return n < 0 })
	}
	return extreme(func(n int) bool { return n >= 0 })
}

func refusals() map[string]string {
	const (
		words = "use fail(message) to give up on an event, empty to leave it out"
		local = "it depends on the zone of the machine; use format_time(t; layout; zone)"
		world = "a mapping sees its event, $meta and $vars, and nothing else"
	)
	return map[string]string{
		"env/0":                  "a mapping cannot read the environment; declare constants and use $vars.NAME",
		"halt/0":                 words,
		"halt_error/0":           words,
		"halt_error/1":           words,
		"input/0":                world,
		"inputs/0":               world,
		"input_filename/0":       world,
		"input_line_number/0":    world,
		"modulemeta/0":           world,
		"builtins/0":             "it is not part of mappings",
		"get_search_list/0":      world,
		"localtime/0":            local,
		"strflocaltime/1":        local,
		"now/0":                  "a mapping must give the same record each time it runs; use $meta.changed_at",
		"ascii/0":                "use [.] | implode",
		"have_decnum/0":          "numbers are always exact decimals here",
		"have_literal_numbers/0": "numbers are always exact decimals here",
	}
}
