package config

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"syncd/connectors"
	"syncd/internal/field"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// compiled returns the schema with these connectors, ready to be used.
func compiled(t *testing.T, registry []connectors.Connector) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema(registry)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	if err := c.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON is what an editor, which reads YAML by its core schema, makes of a tree.
func asJSON(n *field.Node) any {
	switch n.Kind {
	case field.Mapping:
		m := map[string]any{}
		for _, e := range n.Entries {
			m[e.Key] = asJSON(e.Value)
		}
		return m
	case field.Sequence:
		l := []any{}
		for _, v := range n.Items {
			l = append(l, asJSON(v))
		}
		return l
	case field.Null:
		return nil
	}
	var v any
	d := json.NewDecoder(strings.NewReader(n.Text))
	d.UseNumber()
	if !n.Quoted && d.Decode(&v) == nil && !d.More() {
		switch v.(type) {
		case bool, json.Number:
			return v
		}
	}
	return n.Text
}

func TestTheSchemaAcceptsWhatTheLoaderAccepts(t *testing.T) {
	s := compiled(t, registry())
	for name, text := range map[string]string{
		"minimal":       minimal,
		"nothing":       "log:\nclients:\nflows: {}\n",
		"anchors":       "x-a: &a {level: warn}\nlog: *a\n",
		"journal":       "journal: {postgres: {host: db, database: d, user: u, password: '${file:/pw}', pooler: true}}\n",
		"durations":     strings.Replace(minimal, "connector: erp,", "connector: erp, timeout: 1d, retry: {initial_delay: 0, max_delay: 0},", 1),
		"plain numbers": strings.Replace(minimal, "connector: erp,", "connector: erp, account: 12, tables: {a: {columns: [1, true, x], batch: 5}}, extra: [{a: null}],", 1),
		"all of a flow": strings.Replace(minimal, "key: .name", "key: .name\n    enabled: false\n    vars: {a: 1, b: x}\n    max_age: 7d\n    on_expire: drop\n    retry: {multiplier: 1.5, jitter: none}", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Load(Options{Path: "x.yaml", Data: []byte(text), Connectors: registry(), Env: []string{token}}); err != nil && name != "journal" {
				t.Errorf("the loader says:\n%v", err)
			}
			if err := s.Validate(asJSON(tree(t, text))); err != nil {
				t.Errorf("the schema says:\n%v", err)
			}
		})
	}
}

func TestTheSchemaRefusesMistakes(t *testing.T) {
	s := compiled(t, registry())
	for _, c := range []struct{ name, old, new string }{
		{"unknown top-level key", "clients:", "listn: x\nclients:"},
		{"unknown key of a client", "connector: erp,", "connector: erp, databse: x,"},
		{"key of another connector", "connector: erp,", "connector: erp, url: x,"},
		{"unknown connector", "connector: erp,", "connector: epr,"},
		{"no connector", "connector: erp,", ""},
		{"missing field of the connector", ", database: erp", ""},
		{"literal secret", `"${env:TOKEN}"`, "hunter2"},
		{"secret with text around", `"${env:TOKEN}"`, `"x ${env:TOKEN}"`},
		{"url of another scheme", "https://shop.test", "ftp://shop.test"},
		{"name of a flow with a slash", "  orders:\n", "  stock/orders:\n"},
		{"name of a client with capitals", "  shop: {", "  Shop: {"},
		{"duration without a unit", "connector: erp,", "connector: erp, timeout: 30,"},
		{"duration of an unknown unit", "connector: erp,", "connector: erp, timeout: 3 weeks,"},
		{"number out of range", "connector: erp,", "connector: erp, concurrency: 257,"},
		{"text for a number", "connector: erp,", "connector: erp, concurrency: many,"},
		{"yes for true", "key: .name", "enabled: yes\n    key: .name"},
		{"list for a text", "database: erp", "database: [erp]"},
		{"text for a mapping", "connector: erp,", "connector: erp, breaker: 1,"},
		{"misspelt choice", "strategy: natural_key", "strategy: natural-key"},
		{"missing start", ", start: all", ""},
		{"missing key", "    key: .name\n", ""},
		{"missing from", "    from: {client: shop, stream: orders, start: all}\n", ""},
		{"rate that is none", "connector: erp,", "connector: erp, rate: fast,"},
		{"start that is none", "start: all", "start: tomorrow"},
		{"misspelt key of retry", "key: .name", "key: .name\n    retry: {max_atempts: 3}"},
		{"schema that is no name", "clients:", "journal: {postgres: {schema: 'a;b'}}\nclients:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := with(t, c.old, c.new)
			if problems(t, text) == "" {
				t.Error("the loader accepts it")
			}
			if s.Validate(asJSON(tree(t, text))) == nil {
				t.Error("the schema accepts it")
			}
		})
	}
}

func TestTheSchemaDocumentsFields(t *testing.T) {
	got := string(Schema(registry()))
	for _, want := range []string{
		`"description": "How long one request may take."`, `"default": "30s"`, `"default": 4`, `"minimum": 1`, `"maximum": 256`,
		`none: all of it.`, `"https://json-schema.org/draft/2020-12/schema"`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in the schema", want)
		}
	}
}
