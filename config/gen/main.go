// Gen writes the pages about the configuration that are made from the declarations of its fields: docs/configuration.md and
// docs/config.schema.json. Run it by go generate ./config.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"syncd/config"
	"syncd/connectors/all"
)

func main() {
	// go generate runs in the folder of the package that asks for it.
	docs := filepath.Join("..", "docs")
	if len(os.Args) > 1 {
		docs = os.Args[1]
	}
	for name, data := range pages() {
		if err := os.WriteFile(filepath.Join(docs, name), data, 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "writing the configuration's pages:", err)
			os.Exit(1)
		}
	}
}

// pages returns what belongs into each file.
func pages() map[string][]byte {
	return map[string][]byte{
		"configuration.md":   config.Reference(all.Connectors()),
		"config.schema.json": config.Schema(all.Connectors()),
	}
}
