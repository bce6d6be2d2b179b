package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// pages are the texts for people: by path from the project's folder.
func pages(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	read := func(path string) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(path, "../../")] = string(text)
	}
	read("../../README.md")
	for _, dir := range []string{"../../docs", "../../deploy"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && filepath.Ext(path) != ".go" {
				read(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

var (
	// codeSpan is a piece of code within a sentence, codeLine a line of an example or of
	// a unit or image that calls the program.
	codeSpan = regexp.MustCompile("`([^`\n]+)`")
	codeLine = regexp.MustCompile(`(?m)^(?: {4}|#  +|\$ |ExecStart=|ExecReload=)(?:sudo |/\S*/)?(syncd(?: [^\n]*)?)$`)
	option   = regexp.MustCompile(`(?:^|[\s\[(])--([a-z][a-z-]*)`)
	word     = regexp.MustCompile(`^[a-z][a-z-]*$`)
)

// wholeRoot has the commands too that cobra adds by itself.
func wholeRoot() *cobra.Command {
	root := (&app{out: io.Discard, err: io.Discard, secrets: &secrets{}}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// calls are the command lines that a text shows: what follows the program's name, or
// what begins with the name of a command and has an option.
func calls(text string, root *cobra.Command) (out []string) {
	take := func(code string) {
		code = strings.TrimPrefix(strings.TrimPrefix(strings.TrimSpace(code), "sudo "), "/usr/local/bin/")
		if rest, ok := strings.CutPrefix(code, "syncd "); ok {
			out = append(out, rest)
			return
		}
		first, _, _ := strings.Cut(code, " ")
		if c, _, err := root.Find([]string{first}); err == nil && c != root && option.MatchString(code) {
			out = append(out, code)
		}
	}
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		take(m[1])
	}
	for _, m := range codeLine.FindAllStringSubmatch(text, -1) {
		take(m[1])
	}
	return out
}

// wrong says what of a command line does not exist.
func wrong(call string, root *cobra.Command) (problems []string) {
	call, _, _ = strings.Cut(call, " #")
	var words []string
	for w := range strings.FieldsSeq(call) {
		if !word.MatchString(w) {
			break
		}
		words = append(words, w)
	}
	c, left, err := root.Find(words)
	if err != nil || c == root && len(words) > 0 || c.HasSubCommands() && len(left) > 0 {
		return []string{"the command " + strings.Join(words, " ")}
	}
	for _, m := range option.FindAllStringSubmatch(call, -1) {
		if c.Flags().Lookup(m[1]) == nil && c.InheritedFlags().Lookup(m[1]) == nil && !slices.Contains([]string{"help", "version"}, m[1]) {
			problems = append(problems, "the option --"+m[1]+" of "+c.CommandPath())
		}
	}
	return problems
}

func TestNoPageNamesACommandOrOptionThatDoesNotExist(t *testing.T) {
	root := wholeRoot()
	found := 0
	for path, text := range pages(t) {
		if strings.HasPrefix(path, "docs/decisions/") {
			continue // they tell of what was thought of, too
		}
		for _, call := range calls(text, root) {
			found++
			for _, p := range wrong(call, root) {
				t.Errorf("%s names %s, which does not exist: %q", path, p, call)
			}
		}
	}
	if found < 50 {
		t.Errorf("found %d calls, and knows of more", found)
	}
	for text, bad := range map[string]bool{
		"`syncd target-reset`": true, "`syncd resum erp`": true, "`syncd check --life`": true, "`status --watch`": true, "`syncd jobs prune`": true,
		"    syncd nothing --at-all\n": true, "see `sudo syncd forget`": true,
		"`syncd check --live`": false, "`syncd jobs show FLOW/KEY`": false, "`syncd discard FLOW/KEY --reason …`": false, "syncd keeps it": false,
		"    syncd run --config syncd.yaml   # the daemon\n": false, "`syncd`": false,
	} {
		var got []string
		for _, call := range calls(text, root) {
			got = append(got, wrong(call, root)...)
		}
		if (len(got) > 0) != bad {
			t.Errorf("of %q it finds %q", text, got)
		}
	}
}

func TestNoTextOfTheProgramNamesACommandOrOptionThatDoesNotExist(t *testing.T) {
	root := wholeRoot()
	call := regexp.MustCompile("syncd ([a-z-]+(?: [a-z]+)?(?: [A-Z/]+)?(?: --[a-z-]+)+|[a-z]+-[a-z]+)|`syncd ([^`\"\n]+)`")
	found := 0
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			line := m[1] + m[2]
			found++
			for _, p := range wrong(line, root) {
				t.Errorf("%s names %s, which does not exist: %q", path, p, line)
			}
		}
		return err
	})
	if err != nil || found < 5 {
		t.Errorf("found %d calls, %v", found, err)
	}
}

func TestNoPageNamesAMetricThatDoesNotExist(t *testing.T) {
	var source strings.Builder
	files, err := filepath.Glob("../../admin/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			source.Write(text)
		}
	}
	name := regexp.MustCompile(`\bsyncd_[a-z][a-z_]*[a-z]\b`)
	found := 0
	for path, text := range pages(t) {
		for _, m := range name.FindAllString(text, -1) {
			found++
			plain := regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(m, "")
			if !strings.Contains(source.String(), `"`+m+`"`) && !strings.Contains(source.String(), `"`+plain+`"`) {
				t.Errorf("%s names the metric %s, which does not exist", path, m)
			}
		}
	}
	if found < 10 {
		t.Errorf("found %d metrics, and knows of more", found)
	}
}
