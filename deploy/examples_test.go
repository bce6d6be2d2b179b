// Package deploy holds what is deployed beside the program: unit, image,
// examples. Its tests hold the examples to what the program accepts.
package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"syncd/config"
	"syncd/connectors/all"
	"syncd/daemon"
)

var reference = regexp.MustCompile(`\$\{env:([A-Z_]+)\}`)

// environment gives every variable that a text refers to a value.
func environment(text string) []string {
	var env []string
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		value := "some-secret-value"
		if strings.HasSuffix(m[1], "_DSN") {
			value = "postgres://user:" + value + "@127.0.0.1/erp"
		}
		env = append(env, m[1]+"="+value)
	}
	return env
}

func load(t *testing.T, path string, text []byte) *config.Config {
	t.Helper()
	c, err := config.Load(config.Options{Path: path, Data: text, Env: environment(string(text)), Connectors: all.Connectors()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := daemon.PlanOf(c, time.Now()); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestEveryExampleIsAccepted(t *testing.T) {
	files, err := filepath.Glob("examples/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found %d examples, %v", len(files), err)
	}
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			load(t, f, text)
		})
	}
}

func TestTheReadmesConfigurationIsAccepted(t *testing.T) {
	page, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	text, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("README.md has no configuration")
	}
	if c := load(t, "README.md", []byte(text)); len(c.Flows) != 1 {
		t.Errorf("%d flows, want 1", len(c.Flows))
	}
}
