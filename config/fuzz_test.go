package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzLoad looks for files that make the loader fail in another way than by telling what is wrong and where, or that make it show a secret.
func FuzzLoad(f *testing.F) {
	f.Add([]byte(minimal))
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatal(files, err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, s := range []string{"a: &a [*a]", "? {a: b}\n: c", "<<: {<<: 1}", "- |+3\n", "%YAML 1.2\n---\na: !!binary x", "a: \"\\x41\\\n b\"", "\ufeffa: b\u0085c: d", "a: 'x''y'\n", "a: >\n  b\n\n   c\n"} {
		f.Add([]byte(s))
	}
	const secret = "CANARY-8d1f-secret"
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(Options{Path: "f.yaml", Data: data, Connectors: registry(), Now: noon,
			Env: []string{"TOKEN=" + secret, "SYNCD_CLIENTS__ERP__PASSWORD=" + secret}})
		if (c == nil) == (err == nil) {
			t.Fatalf("config %v, error %v", c, err)
		}
		if err == nil {
			return
		}
		var es *Errors
		if !errors.As(err, &es) || len(es.Problems) == 0 {
			t.Fatalf("not a list of problems: %#v", err)
		}
		text := err.Error()
		if strings.Contains(text, secret) || !utf8.ValidString(text) {
			t.Errorf("message: %q", text)
		}
		lines := strings.Count(string(data), "\n") + 1
		for i, p := range es.Problems {
			if p.Msg == "" || p.Pos.File == "" || p.Pos.File == "f.yaml" && (p.Pos.Line < 1 || p.Pos.Col < 1) {
				t.Errorf("problem without a place or a text: %+v", p)
			}
			if p.Pos.File == "f.yaml" && p.Pos.Line > lines+1 && !strings.ContainsAny(string(data), "\r\u0085\u2028\u2029") {
				t.Errorf("line %d of %d: %s", p.Pos.Line, lines, p)
			}
			if strings.ContainsAny(p.String(), "\n\r") {
				t.Errorf("more than one line: %q", p)
			}
			if i > 0 && p.Pos.Before(es.Problems[i-1].Pos) {
				t.Errorf("out of order: %v", es.Problems)
			}
		}
	})
}
