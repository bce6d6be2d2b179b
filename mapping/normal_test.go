package mapping

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestNormalLeavesOutWhatAProgramDoesNotMean(t *testing.T) {
	for name, c := range map[string]struct {
		a, b string
		same bool
	}{
		"white space":         {`"SHOP-" + .number`, "  \"SHOP-\"+\n.number\n", true},
		"comments":            {`.ref`, "# the order's number\n.ref # for ever", true},
		"both at once":        {`if .a then .b else .c end`, "if .a # why\nthen .b\nelse .c\nend", true},
		"a text":              {`"SHOP-" + .number`, `"SHOP - " + .number`, false},
		"a # within a text":   {`"#" + .ref`, `"# " + .ref`, false},
		"a number's digits":   {`.n + 1`, `.n + 1.0`, false},
		"brackets that count": {`(.a + .b) * 2`, `.a + .b * 2`, false},
		"another field":       {`.ref`, `.id`, false},
		"what does not parse": {`.a |`, `.a  |`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Normal(c.a) == Normal(c.b); got != c.same {
				t.Errorf("%q and %q count as the same: %v, want %v (%q, %q)", c.a, c.b, got, c.same, Normal(c.a), Normal(c.b))
			}
		})
	}
}

func TestConstantsAreThoseThatAProgramUses(t *testing.T) {
	vars := map[string]string{"prefix": "SHOP-", "zone": "UTC", "v": "1"}
	for program, want := range map[string]string{
		`.ref`:                               "",
		`$vars.prefix + .ref`:                "prefix",
		`"\($vars.prefix)\($vars.v)"`:        "prefix v",
		`.ref + (if .a then "$" else . end)`: "",
		`$vars | .prefix`:                    "prefix v zone",
		`$vars[.name]`:                       "prefix v zone",
		`. as $varsity | $varsity.prefix`:    "",
		`# $vars.prefix` + "\n.ref":          "",
	} {
		got := strings.Join(slices.Sorted(maps.Keys(Constants(program, vars))), " ")
		if got != want {
			t.Errorf("%s uses %q, want %q", program, got, want)
		}
	}
}
