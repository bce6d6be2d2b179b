//go:build mutants

package mutant

import (
	"fmt"
	"os"
	"slices"
)

// alive is the mutant that lives in this process; "" for none.
var alive = parse(os.Getenv("MUTANT_ALIVE"))

// parse reads the name of a mutant. One that is not known must not make a test look as if it had noticed nothing.
func parse(name string) string {
	if name != "" && !slices.ContainsFunc(All(), func(m Mutant) bool { return m.Name == name }) {
		panic(fmt.Sprintf("MUTANT_ALIVE: there is no mutant %q", name))
	}
	return name
}

// On says whether the mutant of that name is alive.
func On(name string) bool { return alive == name }
