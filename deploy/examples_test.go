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

func TestComposeSaysWhoMustOwnASecretsFile(t *testing.T) {
	read := func(name string) string {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	user := regexp.MustCompile(`(?m)^USER (\d+):`).FindStringSubmatch(read("Dockerfile"))
	if user == nil {
		t.Fatal("the image names no user")
	}
	compose := read("compose.yaml")
	if !strings.Contains(compose, "chown "+user[1]+" FILE") {
		t.Errorf("compose.yaml does not say that user %s of the image must own a secret's file", user[1])
	}
	// They would be ignored: https://docs.docker.com/reference/compose-file/services/#secrets
	if ignored := regexp.MustCompile(`(?m)^[^#\n]*\b(uid|gid|mode):`).FindString(compose); ignored != "" {
		t.Errorf("compose.yaml sets %q on a secret that comes from a file", ignored)
	}
}
