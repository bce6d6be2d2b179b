//go:build !mutants

package mutant

// On says whether the mutant of that name is alive.
func On(string) bool { return false }
