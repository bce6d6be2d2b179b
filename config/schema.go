package config

import (
	"encoding/json"

	"syncd/connectors"
	"syncd/internal/field"
)

// Schema returns the JSON Schema (2020-12) of the configuration file with these connectors, for editors that complete and check YAML.
func Schema(registry []connectors.Connector) []byte {
	s := field.Schema(field.Declare(&Config{connectors: registry}))
	s["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	s["title"] = "Configuration of syncd"
	s["patternProperties"] = map[string]any{"^x-": map[string]any{"description": "Ignored; a place for anchors."}}
	// Nothing in the tree is a value that JSON cannot hold.
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(data, '\n')
}
