package mapping

import "regexp"

// Reference is a place in a program where it refers to records of an entity.
type Reference struct {
	Entity    string
	Line, Col int // of the call, 1-based, Col counts characters
}

// entityOf is what follows the name of a call of ref whose entity stands in the program.
var entityOf = regexp.MustCompile(`^ref\s*\(\s*"([^"\\]*)"\s*;`)

// References lists the calls of ref in a program whose entity is a literal text.
// What an entity that is computed comes to is known when it runs.
func References(program string) []Reference {
	var out []Reference
	for _, t := range tokens(program) {
		if t.text != "ref" {
			continue
		}
		m := entityOf.FindStringSubmatch(program[t.offset:])
		if m == nil {
			continue
		}
		r := Reference{Entity: m[1]}
		r.Line, r.Col = lineAndColumn(program, t.offset)
		out = append(out, r)
	}
	return out
}
