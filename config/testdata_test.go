package config

import (
	"strings"
	"testing"

	"syncd/internal/field"
)

// minimal is a configuration of one flow without anything that could be left out.
const minimal = `
clients:
  shop: {connector: shop, url: "https://shop.test", token: "${env:TOKEN}"}
  erp: {connector: erp, database: erp}
flows:
  orders:
    from: {client: shop, stream: orders, start: all}
    to: {client: erp, entity: sale, strategy: natural_key, on_existing: adopt}
    key: .name
    map: "{number: .name}"
`

const token = "TOKEN=CANARY-token-1"

// load reads a text with the fake connectors.
func load(t *testing.T, text string, env ...string) (*Config, error) {
	t.Helper()
	return Load(Options{Path: "syncd.yaml", Data: []byte(text), Env: append([]string{token}, env...), Connectors: registry(), Now: noon})
}

// mustLoad reads a text that is right.
func mustLoad(t *testing.T, text string, env ...string) *Config {
	t.Helper()
	c, err := load(t, text, env...)
	if err != nil {
		t.Fatalf("load:\n%v", err)
	}
	return c
}

// problems returns what Load says of a text, "" if nothing.
func problems(t *testing.T, text string, env ...string) string {
	t.Helper()
	_, err := load(t, text, env...)
	if err == nil {
		return ""
	}
	return err.Error()
}

// with returns the minimal configuration with one piece replaced.
func with(t *testing.T, old, new string) string {
	t.Helper()
	if strings.Count(minimal, old) != 1 {
		t.Fatalf("%q stands %d times in the minimal configuration", old, strings.Count(minimal, old))
	}
	return strings.Replace(minimal, old, new, 1)
}

// tree parses YAML that is right.
func tree(t *testing.T, text string) *field.Node {
	t.Helper()
	n, ps := parseTree("t.yaml", []byte(text))
	if len(ps) > 0 {
		t.Fatalf("problems: %v", ps)
	}
	return n
}
