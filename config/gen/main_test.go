package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"syncd/config"
	"syncd/connectors/all"

	"github.com/santhosh-tekuri/jsonschema/v6"
	yaml "go.yaml.in/yaml/v4"
)

func TestGeneratedPagesAreUpToDate(t *testing.T) {
	for name, want := range pages() {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
		if err != nil {
			t.Errorf("%v; run go generate ./config", err)
			continue
		}
		if !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what the declarations say; run go generate ./config", name)
		}
	}
}

func TestTheExampleOfTheReferenceWorks(t *testing.T) {
	m := regexp.MustCompile("(?s)```yaml\n(journal:.*?)```").FindSubmatch(pages()["configuration.md"])
	if m == nil {
		t.Fatal("the page has no example")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "erp-password"), []byte("secret-password\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := config.Load(config.Options{Path: "example.yaml", Data: m[1], Connectors: all.Connectors(),
		Env: []string{"SHOP_TOKEN=abcdef", "CREDENTIALS_DIRECTORY=" + dir}})
	if err != nil {
		t.Errorf("the loader says:\n%v", err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(pages()["config.schema.json"]))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("config.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("config.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var example any
	if err := yaml.Load(m[1], &example); err != nil {
		t.Fatal(err)
	}
	if err := s.Validate(example); err != nil {
		t.Errorf("the schema says:\n%v", err)
	}
}

func TestEveryLinkOfTheReferenceLeadsToOneHeading(t *testing.T) {
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(string(pages()["configuration.md"]), "")
	slugs := map[string]int{}
	for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		s := strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9_ -]`).ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
		if slugs[s]++; slugs[s] > 1 {
			t.Errorf("more than one heading has the address #%s", s)
		}
	}
	for _, m := range regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(text, -1) {
		if slugs[m[1]] == 0 {
			t.Errorf("no heading has the address #%s", m[1])
		}
	}
}

// TestNoConnectorRepeatsAFieldOfEveryClient reads an empty client of each connector: a field declared twice panics there.
func TestNoConnectorRepeatsAFieldOfEveryClient(t *testing.T) {
	for _, k := range all.Connectors() {
		_, err := config.Load(config.Options{Path: "x.yaml", Data: []byte("clients: {c: {connector: " + k.Name + "}}"), Connectors: all.Connectors()})
		if err == nil || strings.Contains(err.Error(), "clients.c.connector") {
			t.Errorf("%s: %v", k.Name, err)
		}
	}
}
