package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReferencesThatNothingCanResolveAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ program, want string }{
		"written by another flow's target, looked up": {`{number: .name, party: ref("party"; .c)}`, ""},
		"misspelt": {`{number: .name, party: ref("partie"; .c)}`, `flows.orders.map: ref: client erp (erp) has no entity "partie"; did you mean party?`},
		"neither written nor looked up": {`{number: .name, tag: ref("tags"; .t)}`,
			"flows.orders.map: ref: no flow writes entity tags of client erp, and its records cannot be looked up by key, so whatever refers to one would wait for ever; add a flow that writes it, or what it takes to look it up"},
		"its own entity": {`{number: .name, parent: ref("sale"; .p; "optional")}`, ""},
		"computed":       {`{number: .name, party: ref(.kind; .c)}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(with(t, `map: "{number: .name}"`, "map: |\n      "+c.program), "database: erp", "database: erp, tables: {tags: {columns: [id]}}", 1)
			got := problems(t, text)
			if c.want == "" && got != "" || c.want != "" && !strings.HasSuffix(strings.TrimSpace(got), c.want) {
				t.Fatalf("\n got: %s\nwant: %s", got, c.want)
			}
			if at := strings.Index(c.program, "ref(") + 7; c.want != "" && !strings.Contains(got, fmt.Sprintf(":%d: flows", at)) {
				t.Errorf("%s does not name column %d", got, at)
			}
		})
	}
}

func TestAReferenceInAProgramsOwnFileIsShownThere(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.jq"), []byte("# orders\n{number: .name,\n party: ref(\"partie\"; .c)}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Options{Path: filepath.Join(dir, "syncd.yaml"), Data: []byte(with(t, `map: "{number: .name}"`, "map_file: m.jq")), Connectors: registry(), Env: []string{token}})
	if err == nil || !strings.Contains(err.Error(), "m.jq:3:9: flows.orders.map_file: ref: client erp (erp) has no entity \"partie\"; did you mean party?") {
		t.Errorf("%v", err)
	}
}
