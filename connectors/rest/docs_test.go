package rest

import (
	"os"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"syncd/internal/field"
)

func TestEveryExampleInTheDocumentationIsValid(t *testing.T) {
	text, err := os.ReadFile("../../docs/connectors/rest.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(string(text), "```yaml\n")
	n := 0
	for _, part := range parts[1:] {
		example, _, _ := strings.Cut(part, "```")
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(example), &doc); err != nil {
			t.Fatalf("%v in\n%s", err, example)
		}
		clients := node(doc.Content[0]).Entry("clients")
		for _, c := range clients.Value.Entries {
			n++
			c.Value.Entries = slices.DeleteFunc(c.Value.Entries, func(e field.Entry) bool { return e.Key == "connector" })
			env := []string{"SHOP_TOKEN=a", "SHOP_SECRET=b", "ERP_TOKEN=c"}
			for _, p := range field.Bind(c.Value, &Settings{}, &field.Resolver{Env: env}) {
				t.Errorf("%s: %s in\n%s", p.Path, p.Msg, example)
			}
		}
	}
	if n < 11 {
		t.Errorf("only %d examples were found", n)
	}
}
