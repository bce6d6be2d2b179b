package rest

import (
	"testing"

	"go.yaml.in/yaml/v4"

	"syncd/internal/field"
)

// settings reads the fields of a client from YAML.
func settings(t testing.TB, text string) *Settings {
	t.Helper()
	s, problems := read(t, text)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Path, p.Msg)
	}
	if len(problems) > 0 {
		t.FailNow()
	}
	return s
}

func read(t testing.TB, text string) (*Settings, []field.Problem) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("yaml: %v", err)
	}
	s := &Settings{}
	problems := field.Bind(node(doc.Content[0]), s, &field.Resolver{Env: []string{"TOKEN=t0ken", "PASSWORD=pa55"}})
	return s, problems
}

func node(y *yaml.Node) *field.Node {
	n := &field.Node{Text: y.Value, Quoted: y.Style != 0, Pos: field.Pos{Line: y.Line, Col: y.Column}}
	switch y.Kind {
	case yaml.MappingNode:
		n.Kind = field.Mapping
		for i := 0; i < len(y.Content); i += 2 {
			n.Entries = append(n.Entries, field.Entry{Key: y.Content[i].Value, Value: node(y.Content[i+1])})
		}
	case yaml.SequenceNode:
		n.Kind = field.Sequence
		for _, c := range y.Content {
			n.Items = append(n.Items, node(c))
		}
	case yaml.ScalarNode:
		if y.Tag == "!!null" {
			n.Kind = field.Null
		}
	}
	return n
}
