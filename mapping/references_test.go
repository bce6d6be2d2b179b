package mapping

import (
	"slices"
	"testing"
)

func TestReferencesAreFoundWhereTheyStand(t *testing.T) {
	for program, want := range map[string][]Reference{
		`{a: .b}`:                   nil,
		`{party: ref("party"; .c)}`: {{"party", 1, 9}},
		"{ä: 1,\n  lines: [.l[] | {p: ref( \"product\" ; .s; \"optional\")}]}": {{"product", 2, 22}},
		`{a: ref("x"; ref("y"; .k).key), b: "\(ref("z"; .k) | tostring)"}`:     {{"x", 1, 5}, {"y", 1, 14}, {"z", 1, 39}},
		`{ref: .ref, a: "ref(\"no\"; .x)"} # ref("no"; .x)`:                    nil,
		`{a: ref(.kind; .k), b: ref("a\(.x)"; .k)}`:                            nil,
	} {
		if got := References(program); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", program, got, want)
		}
	}
}
