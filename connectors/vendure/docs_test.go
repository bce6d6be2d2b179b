package vendure

import (
	"os"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"syncd/internal/field"
)

func TestEveryExampleInTheDocumentationIsValid(t *testing.T) {
	text, err := os.ReadFile("../../docs/connectors/vendure.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
		example, _, _ := strings.Cut(part, "```")
		var doc struct{ Clients map[string]map[string]any }
		if err := yaml.Unmarshal([]byte(example), &doc); err != nil {
			t.Fatalf("%v in\n%s", err, example)
		}
		for _, c := range doc.Clients {
			n++
			delete(c, "connector")
			for _, p := range field.Bind(tree(c), &Settings{}, &field.Resolver{Env: []string{"VENDURE_PASSWORD=x", "VENDURE_API_KEY=x"}}) {
				t.Errorf("%s: %s in\n%s", p.Path, p.Msg, example)
			}
		}
	}
	if n != 2 {
		t.Errorf("%d examples were found", n)
	}
	for _, k := range kinds() {
		if !strings.Contains(string(text), "`"+k.name+"`") {
			t.Errorf("stream %s is not documented", k.name)
		}
	}
}

func tree(m map[string]any) *field.Node {
	var pairs []any
	for k, v := range m {
		if sub, ok := v.(map[string]any); ok {
			v = tree(sub)
		}
		pairs = append(pairs, k, v)
	}
	return mapping(pairs...)
}
