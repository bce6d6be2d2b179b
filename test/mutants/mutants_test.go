// Package mutants shows that the tests of syncd notice when a promise is broken: it builds a few of their binaries with
// the tag mutants, and has each mutant of internal/mutant live in the one that must notice it.
package mutants

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/internal/mutant"
)

var table = flag.Bool("table", false, "play each mutant that the simulation must notice five times, and print the table of docs/reliability.md")

const root = "../.."

// most bounds the histories that are played to notice one mutant, and how long that may take.
const (
	mostSeeds = 3000
	mostTime  = 8 * time.Minute // far more than it takes: only a test that hangs is to end by it
)

// build makes the test binaries of packages, and returns their folder.
func build(t *testing.T, packages []string) string {
	t.Helper()
	dir := t.TempDir()
	args := []string{"test", "-c", "-tags", "mutants", "-o", dir + "/"}
	for _, p := range packages {
		args = append(args, "./"+p)
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building the tests: %v\n%s", err, out)
	}
	return dir
}

// run runs a test of a package with a mutant alive, "" for none, and returns what it says.
func run(t *testing.T, dir, pkg, test, alive string, more ...string) (said string, failed bool, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), mostTime)
	defer cancel()
	var whole []string
	for part := range strings.SplitSeq(test, "/") {
		whole = append(whole, "^("+part+")$")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(dir, path.Base(pkg)+".test"), append([]string{"-test.run", strings.Join(whole, "/")}, more...)...)
	cmd.Dir = filepath.Join(root, pkg)
	// One thread: histories are played one after the other, and as many mutants live at once as there are processors.
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1", "MUTANT_ALIVE="+alive)
	begun := time.Now()
	out, err := cmd.CombinedOutput()
	took = time.Since(begun)
	var ended *exec.ExitError
	switch {
	case ctx.Err() != nil:
		t.Fatalf("%s of %s did not end within %s", test, pkg, mostTime)
	case err != nil && !errors.As(err, &ended):
		t.Fatal(err)
	case bytes.Contains(out, []byte("no tests to run")):
		t.Fatalf("%s has no test %s", pkg, test)
	}
	return string(out), err != nil, took
}

var broke = regexp.MustCompile(`seed (\d+) broke promises`)

// played is the arguments with which the simulation plays histories after a seed.
func played(from, n int) []string {
	return []string{"-from", strconv.Itoa(from), "-seeds", strconv.Itoa(n), "-failures", "1"}
}

func TestEveryMutantIsNoticed(t *testing.T) {
	all := mutant.All()
	tests := map[string][]string{} // by package
	for _, m := range all {
		if !slices.Contains(tests[m.Package], m.Test) {
			tests[m.Package] = append(tests[m.Package], m.Test)
		}
	}
	var packages []string
	for p := range tests {
		packages = append(packages, p)
	}
	slices.Sort(packages)
	dir := build(t, packages)

	free := make(chan bool, max(2, runtime.GOMAXPROCS(0)))
	begun := time.Now()
	var mu sync.Mutex
	rows := map[string]string{}
	t.Run("each", func(t *testing.T) {
		for _, p := range packages {
			for _, test := range tests[p] {
				t.Run(p+" without a mutant", func(t *testing.T) {
					t.Parallel()
					free <- true
					defer func() { <-free }()
					var more []string
					if path.Base(p) == "simulation" {
						more = played(1, 100)
					}
					if said, failed, _ := run(t, dir, p, test, "", more...); failed {
						t.Errorf("%s fails without a mutant, so it proves nothing:\n%s", test, said)
					}
				})
			}
		}
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				free <- true
				defer func() { <-free }()
				bases := []int{1}
				if *table {
					bases = []int{100_000, 200_000, 300_000, 400_000, 500_000}
				}
				if path.Base(m.Package) != "simulation" {
					bases = []int{0}
				}
				var counts []int
				for _, base := range bases {
					counts = append(counts, notice(t, dir, m, base))
				}
				slices.Sort(counts)
				seeds := "–"
				if n := counts[len(counts)/2]; n > 0 {
					seeds = strconv.Itoa(n)
				}
				mu.Lock()
				defer mu.Unlock()
				rows[m.Name] = fmt.Sprintf("| `%s` | %s | %s | `%s` %s | %s |", m.Name, m.What, strings.Join(m.Breaks, ", "), m.Package, m.Test, seeds)
			})
		}
	})
	t.Logf("%d mutants in %s", len(all), time.Since(begun).Round(time.Second))
	if *table {
		fmt.Println("| mutant | what is wrong | breaks | noticed by | histories |\n|---|---|---|---|---|")
		for _, m := range all {
			fmt.Println(rows[m.Name])
		}
	}
}

// notice has a mutant live, and returns how many histories it took to notice; 0 where none are played.
func notice(t *testing.T, dir string, m mutant.Mutant, base int) int {
	var more []string
	if base > 0 {
		more = played(base, mostSeeds)
	}
	said, failed, took := run(t, dir, m.Package, m.Test, m.Name, more...)
	switch {
	case !failed:
		t.Fatalf("the mutant lives: %s, and %s of %s passes", m.What, m.Test, m.Package)
	case strings.Contains(said, "panic:"), !named(said, m):
		t.Fatalf("%s of %s fails, but not since %s; it should say %q or name one of %v, and says\n%s", m.Test, m.Package, m.What, m.Says, m.Breaks, said)
	case base == 0:
		t.Logf("noticed in %s", took.Round(time.Millisecond))
		return 0
	}
	found := broke.FindStringSubmatch(said)
	if found == nil {
		t.Fatalf("the seed is not told:\n%s", said)
	}
	seed, _ := strconv.Atoi(found[1]) // it is of digits
	t.Logf("noticed after %d histories, in %s", seed-base, took.Round(time.Millisecond))
	return seed - base
}

// named says whether a test told what the mutant broke.
func named(said string, m mutant.Mutant) bool {
	if m.Says != "" {
		return strings.Contains(said, m.Says)
	}
	return slices.ContainsFunc(m.Breaks, func(promise string) bool { return strings.Contains(said, promise+": ") })
}

// TestNoMutantIsInWhatIsShipped looks into the program as everybody builds it.
func TestNoMutantIsInWhatIsShipped(t *testing.T) {
	file := filepath.Join(t.TempDir(), "syncd")
	cmd := exec.Command("go", "build", "-o", file, "./cmd/syncd")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building syncd: %v\n%s", err, out)
	}
	f, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil || len(symbols) < 1000 {
		t.Fatalf("%d symbols, %v", len(symbols), err)
	}
	for _, s := range symbols {
		if strings.Contains(s.Name, "internal/mutant") || strings.HasSuffix(s.Name, ".moveAlone") {
			t.Errorf("syncd has %s", s.Name)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"MUTANT_ALIVE"}
	for _, m := range mutant.All() {
		names = append(names, m.Name)
	}
	for _, n := range names {
		if strings.Contains(n, "-") && bytes.Contains(text, []byte(n)) {
			t.Errorf("syncd knows the mutant %q", n)
		}
	}
}
