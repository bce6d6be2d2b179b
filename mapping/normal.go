package mapping

import (
	"regexp"

	"github.com/itchyny/gojq"
)

// Normal returns a program without its comments and with its white space in one
// form, so that two texts of one program can be told to be the same. A text that
// is no program is returned as it is. The form may differ between versions of
// syncd: it is for comparing, not for keeping.
func Normal(program string) string {
	q, err := gojq.Parse(program)
	if err != nil {
		return program
	}
	return q.String()
}

// useOfConstants finds a use of the flow's constants; its group is the name, where one
// is named.
var useOfConstants = regexp.MustCompile(`\$vars\b(?:\.([A-Za-z_][A-Za-z0-9_]*))?`)

// Constants returns those of vars that a program uses. Where it does not name
// them, all of them count as used.
func Constants(program string, vars map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range useOfConstants.FindAllStringSubmatch(Normal(program), -1) {
		if m[1] == "" {
			return vars
		}
		if v, ok := vars[m[1]]; ok {
			out[m[1]] = v
		}
	}
	return out
}
