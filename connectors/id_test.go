package connectors

import (
	"strings"
	"testing"
)

func TestIDWithSomethingUnseenIsNoID(t *testing.T) {
	for id, want := range map[string]string{
		"":                         "is blank",
		" ":                        "is blank",
		"\t\n":                     "is blank",
		"\u00a0\u2003\u3000":       "is blank",
		"\u200b":                   "is blank",
		"\u200d\u200c":             "is blank",
		"\ufeff":                   "is blank",
		"\x00":                     "is blank",
		" \u2060 ":                 "is blank",
		"\ufeff42":                 "cannot be seen, U+FEFF as its byte 1",
		"42\n":                     "cannot be seen, U+000A as its byte 3",
		"4\x002":                   "cannot be seen, U+0000 as its byte 2",
		"42\t":                     "cannot be seen, U+0009",
		"\x7f42":                   "cannot be seen, U+007F",
		"42\u0085":                 "cannot be seen, U+0085",
		"4\u200b2":                 "cannot be seen, U+200B",
		"\u202e42":                 "cannot be seen, U+202E",
		"42\u2028":                 "cannot be seen, U+2028",
		"42\u200d":                 "cannot be seen, U+200D",
		"gr\ufffdn":                "U+FFFD as its byte 3",
		"42":                       "",
		" 42":                      "",
		"A1   ":                    "",
		"A 1":                      "",
		"a/b?c=d&e#f%":             "",
		"grün":                     "",
		"\u0646\u200c\u0645":       "",
		"👩\u200d🌾":                 "",
		"odd \xff byte":            "",
		"0":                        "",
		strings.Repeat("x", 10000): "", // how much can be stored is the journal's business
	} {
		got := IDProblem(id)
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%.40q: %q, want %q", id, got, want)
		}
	}
}
