package main

import (
	"context"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// printed are what commands print with --json, by the command's section in docs/cli.md.
func printed() map[string]reflect.Type {
	return map[string]reflect.Type{
		"check":         reflect.TypeFor[checkJSON](),
		"demo":          reflect.TypeFor[demoJSON](),
		"status":        reflect.TypeFor[statusJSON](),
		"jobs list":     reflect.TypeFor[listJSON](),
		"jobs show":     reflect.TypeFor[showJSON](),
		"explain":       reflect.TypeFor[explainJSON](),
		"replay":        reflect.TypeFor[actedJSON](),
		"runs":          reflect.TypeFor[runsJSON](),
		"remap":         reflect.TypeFor[errandJSON](),
		"erase":         reflect.TypeFor[eraseJSON](),
		"journal copy":  reflect.TypeFor[copyJSON](),
		"restored":      reflect.TypeFor[restoredJSON](),
		"source-reset":  reflect.TypeFor[resetJSON](),
		"jobs replay":   reflect.TypeFor[bulkJSON](),
		"expiry resume": reflect.TypeFor[resumedJSON](),
		"pause":         reflect.TypeFor[pausedJSON](),
		"resume":        reflect.TypeFor[unpausedJSON](),
		"version":       reflect.TypeFor[versionJSON](),
	}
}

// sections are the parts of docs/cli.md about single commands.
func sections(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, part := range strings.Split(string(text), "\n## syncd ")[1:] {
		name, body, _ := strings.Cut(part, "\n")
		out[name] = body
	}
	return out
}

// fields are the paths of a type's JSON fields: a, b.c, list[].d.
func fields(t reflect.Type, prefix string) (out []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct {
		return fields(t.Elem(), strings.TrimSuffix(prefix, ".")+"[].")
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "time" {
		return nil
	}
	for f := range t.Fields() {
		if f.Anonymous || !f.IsExported() {
			continue // the fields of jobs list, in jobs show
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		out = append(out, prefix+name)
		out = append(out, fields(f.Type, prefix+name+".")...)
	}
	return out
}

// described are the fields that a section has a row for.
func described(section string) (out []string) {
	row := regexp.MustCompile("(?m)^\\| (`[a-z][^|]*) \\| (?:text|number|true|time|list|object|any)[^|]*\\|")
	for _, m := range row.FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(m[1], ",") {
			out = append(out, strings.Trim(name, " `"))
		}
	}
	return out
}

func TestJSONFieldsAndTheirDescriptionsAgree(t *testing.T) {
	doc := sections(t)
	for command, typ := range printed() {
		told, have := described(doc[command]), fields(typ, "")
		for _, f := range have {
			// The totals are described in one row.
			if inner, ok := strings.CutPrefix(f, "totals."); ok && strings.Contains(doc[command], "`"+inner+"`") {
				continue
			}
			if !slices.Contains(told, f) {
				t.Errorf("docs/cli.md does not describe the field %s of %s", f, command)
			}
		}
		for _, f := range told {
			if !slices.Contains(have, f) {
				t.Errorf("docs/cli.md describes the field %s, which %s does not print", f, command)
			}
		}
	}
}

func TestEveryCommandAndOptionIsDescribed(t *testing.T) {
	doc := sections(t)
	root := (&app{out: io.Discard, err: io.Discard, secrets: &secrets{}}).root()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				walk(sub)
			}
		}
		if c.HasSubCommands() {
			return
		}
		name := strings.TrimPrefix(c.CommandPath(), "syncd ")
		section, ok := doc[name]
		if !ok {
			t.Errorf("docs/cli.md has no section on %s", name)
			return
		}
		call, _, _ := strings.Cut(strings.TrimPrefix(section, "\n```\n"), "\n```")
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !strings.Contains(call, "--"+f.Name) {
				t.Errorf("docs/cli.md does not name the option --%s of %s", f.Name, name)
			}
		})
		for opt := range strings.FieldsSeq(strings.NewReplacer("[", " ", "]", " ").Replace(call)) {
			if long, is := strings.CutPrefix(opt, "--"); is && c.Flags().Lookup(long) == nil {
				t.Errorf("docs/cli.md names the option --%s, which %s does not have", long, name)
			}
		}
		delete(doc, name)
	}
	walk(root)
	for name := range doc {
		t.Errorf("docs/cli.md describes %s, which is no command", name)
	}
}

func TestEveryReasonIsDescribed(t *testing.T) {
	page, err := os.ReadFile("../../docs/outcomes.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## States of a job\n")
	for _, r := range reasons() {
		if !strings.Contains(section, "` | `"+string(r)+"` |") {
			t.Errorf("docs/outcomes.md does not describe the reason %s", r)
		}
	}
}

func TestHelpNamesEveryExitCode(t *testing.T) {
	var out strings.Builder
	if code := execute(context.Background(), []string{"--help"}, nil, &out, io.Discard); code != exitOK {
		t.Fatalf("exit code %d", code)
	}
	for _, want := range []string{"0 all is well", "1 a finding or a failure", "2 wrong usage", "3 the\nconfiguration", "4 the journal", "5 something could not be reached"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the help lacks %q", want)
		}
	}
}
