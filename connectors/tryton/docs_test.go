package tryton

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"syncd/internal/field"
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/connectors/tryton.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEveryExampleInTheDocumentationIsValid(t *testing.T) {
	n := 0
	for _, part := range strings.Split(page(t), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		var doc struct{ Clients map[string]map[string]string }
		if err := yaml.Unmarshal([]byte(example), &doc); err != nil {
			t.Fatalf("%v in\n%s", err, example)
		}
		for _, c := range doc.Clients {
			n++
			in := &field.Node{Kind: field.Mapping}
			for k, v := range c {
				if k != "connector" {
					in.Entries = append(in.Entries, field.Entry{Key: k, Value: &field.Node{Kind: field.Scalar, Text: v}})
				}
			}
			for _, p := range field.Bind(in, &Settings{}, &field.Resolver{Env: []string{"TRYTON_PASSWORD=x"}}) {
				t.Errorf("%s: %s in\n%s", p.Path, p.Msg, example)
			}
		}
	}
	if n == 0 {
		t.Error("no example was found")
	}
}

// The table of states in the documentation is that of the code.
func TestTheDocumentedStatesAreThoseOfTheCode(t *testing.T) {
	_, table, _ := strings.Cut(page(t), "| from \\ to |")
	lines := strings.Split(table, "\n")
	heads := strings.Split(lines[0], "|")
	rows := 0
	for _, line := range lines[2:] {
		cells := strings.Split(line, "|")
		if len(cells) < 6 {
			break
		}
		rows++
		from := strings.TrimSpace(cells[1])
		for i, cell := range cells[2:6] {
			to, want := strings.TrimSpace(heads[i]), strings.TrimSpace(cell)
			buttons, ok := way(from, to)
			got := strings.Join(buttons, ", ")
			if !ok {
				got = "frozen"
			} else if got == "" {
				got = "–"
			}
			if got != want {
				t.Errorf("%s to %s: documented %q, and it is %q", from, to, want, got)
			}
		}
	}
	if rows != 6 {
		t.Errorf("%d states are documented", rows)
	}
}
