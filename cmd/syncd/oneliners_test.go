package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The lines that docs/cli.md gives for many jobs at once do what it says, also to
// keys that a shell would take apart.
func TestLinesForManyJobsAtOnceWork(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		t.Fatal("the test needs jq: apt-get install jq")
	}
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "## Many jobs at once\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	var lines []string
	for i, part := range strings.Split(section, "```") {
		if i%2 == 1 {
			lines = append(lines, strings.TrimPrefix(part, "sh\n"))
		}
	}
	if !found || len(lines) != 2 {
		t.Fatalf("docs/cli.md has %d lines for many jobs at once, want 2", len(lines))
	}
	dir := t.TempDir()
	write(t, dir, "syncd.yaml", scriptConfig)
	if err := seed(filepath.Join(dir, "syncd.db"), []string{"hands"}); err != nil {
		t.Fatal(err)
	}
	run := func(line string) string {
		t.Helper()
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return string(out)
	}
	if got := run(lines[0]); got != "1 due again, 2 asked of their source\n" {
		t.Errorf("%s says %s", lines[0], got)
	}
	if got := run(lines[1]); got != "2 discarded\n" {
		t.Errorf("%s says %s", lines[1], got)
	}
	// Nothing is left for them to do, and that is no failure.
	if got := run(lines[0]) + run(lines[1]); got != "" {
		t.Errorf("they say %s", got)
	}
}
