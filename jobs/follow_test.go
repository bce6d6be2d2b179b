package jobs

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"syncd/connectors"
)

func mark(b bool, s string) string {
	if b {
		return s
	}
	return ""
}

// outcomesTable is the table of docs/outcomes.md.
func outcomesTable() string {
	var b strings.Builder
	b.WriteString("| class | what follows | uses up an attempt | leaves a doubt |\n|---|---|---|---|\n")
	for _, c := range connectors.Classes() {
		f := FollowOf(c)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", c, f.Means, mark(f.Counts, "yes"), mark(f.Doubts, "yes"))
	}
	return b.String()
}

func TestThePageOfOutcomesShowsTheTableInTheCode(t *testing.T) {
	page, err := os.ReadFile("../docs/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "<!-- table -->\n")
	table, _, ok := strings.Cut(rest, "<!-- /table -->")
	if !ok || table != outcomesTable() {
		t.Errorf("docs/outcomes.md is stale; its table should be:\n%s", outcomesTable())
	}
}

func TestEveryClassSaysWhatFollows(t *testing.T) {
	for _, c := range connectors.Classes() {
		f := FollowOf(c)
		n := 0
		for _, b := range []bool{f.Confirms, f.Retries, f.Kills, f.Rule != ""} {
			if b {
				n++
			}
		}
		if n != 1 || f.Means == "" {
			t.Errorf("class %s: confirms %v, retries %v, kills %v, rule %q: want exactly one", c, f.Confirms, f.Retries, f.Kills, f.Rule)
		}
		if f.Confirms && (f.Counts || f.Doubts) {
			t.Errorf("class %s confirms and yet counts or doubts", c)
		}
	}
	if f := FollowOf("splendid"); !f.Doubts {
		t.Error("a class nobody knows must leave a doubt")
	}
}
