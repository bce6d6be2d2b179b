package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMistakeInAProgramsOwnFileIsShownThere(t *testing.T) {
	dir := t.TempDir()
	for name, data := range map[string]string{
		"bad.jq":    "# The map of orders.\n{\n  number: .name,\n  total: nosuch(.total)\n}\n",
		"empty.jq":  "",
		"latin.jq":  "\"caf\xe9\"",
		"huge.jq":   strings.Repeat("# x\n", maxFile/4+1),
		"good.jq":   "{number: .name, by: $vars.who}\n",
		"folder.jq": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ name, file, want string }{
		{"unknown function", "bad.jq", "DIR/bad.jq:4:10: flows.orders.map_file: there is no function nosuch"},
		{"full path", filepath.Join(dir, "bad.jq"), "DIR/bad.jq:4:10: flows.orders.map_file: there is no function nosuch"},
		{"nothing in it", "empty.jq", `DIR/empty.jq:1:1: flows.orders.map_file: the program is empty; write an object, such as {"name": .title}`},
		{"not UTF-8", "latin.jq", "DIR/syncd.yaml:10:15: flows.orders.map_file: the file DIR/latin.jq is not UTF-8; save it as UTF-8"},
		{"too large", "huge.jq", "DIR/syncd.yaml:10:15: flows.orders.map_file: the file DIR/huge.jq is larger than 1 MiB"},
		{"missing", "nope.jq", "DIR/syncd.yaml:10:15: flows.orders.map_file: cannot read the file: open DIR/nope.jq: no such file or directory"},
		{"folder", ".", "DIR/syncd.yaml:10:15: flows.orders.map_file: DIR is not a regular file"},
		{"device that never ends", "/dev/zero", "DIR/syncd.yaml:10:15: flows.orders.map_file: /dev/zero is not a regular file"},
		{"right", "good.jq", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := with(t, `map: "{number: .name}"`, "map_file: "+c.file+"\n    vars: {who: me}")
			_, err := Load(Options{Path: filepath.Join(dir, "syncd.yaml"), Data: []byte(text), Connectors: registry(), Env: []string{token}})
			got := ""
			if err != nil {
				got = strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestProgramsAreLeftAsTheyAreWritten(t *testing.T) {
	c := mustLoad(t, with(t, `map: "{number: .name}"`, `map: '{number: "$${x} ${env:TOKEN} $HOME"}'`))
	if got := c.Flows["orders"].Map.Value; got != `{number: "$${x} ${env:TOKEN} $HOME"}` {
		t.Errorf("the program became %s", got)
	}
}

func TestAProgramWithoutAnythingInItIsRefused(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"empty map", `map: "{number: .name}"`, `map: ""`, `10:11: flows.orders.map: the program is empty; write an object, such as {"name": .title}`},
		{"blank map", `map: "{number: .name}"`, `map: "  "`, `10:11: flows.orders.map: the program is empty; write an object, such as {"name": .title}`},
		{"map without a value", `map: "{number: .name}"`, `map:`, `10:5: flows.orders.map: no value; give text, or take the key out`},
		{"empty key", "key: .name", `key: ""`, `9:10: flows.orders.key: empty; give text, for example "SHOP-" + .number`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.TrimPrefix(problems(t, with(t, c.old, c.new)), "syncd.yaml:")
			if got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestConstantsOfTheKeyShowNothingOfAReference(t *testing.T) {
	of := func(secret string) map[string]string {
		return mustLoad(t, with(t, "key: .name", `key: $vars.shop + $vars.from + .name
    vars: {shop: WEB-, from: "${env:PREFIX}", other: x}`), "PREFIX="+secret).Flows["orders"].KeyConstants()
	}
	one, two := of("CANARY-one"), of("CANARY-two")
	if len(one) != 2 || one["shop"] != "WEB-" || !strings.HasPrefix(one["from"], "sha256:") {
		t.Errorf("the constants are %v", one)
	}
	if one["from"] == two["from"] {
		t.Error("another value has the same digest")
	}
}
