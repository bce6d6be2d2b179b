package config

import (
	"fmt"
	"strings"
	"testing"

	"syncd/internal/field"

	"pgregory.net/rapid"
)

// charAt returns the character that stands in a text at a position.
func charAt(text string, p field.Pos) string {
	lines := strings.Split(text, "\n")
	if p.Line < 1 || p.Line > len(lines) {
		return "(no line)"
	}
	r := []rune(lines[p.Line-1])
	if p.Col < 1 || p.Col > len(r) {
		return "(end)"
	}
	return string(r[p.Col-1])
}

// checkPlaces checks that every visible character of a value is found at its place in the source, except where the source has an escape.
func checkPlaces(t interface{ Fatalf(string, ...any) }, source string, text field.Text) {
	for i, line := range strings.Split(text.Value, "\n") {
		for j, r := range []rune(line) {
			if r == ' ' || r == '\t' {
				continue
			}
			p := text.At(i+1, j+1)
			if got := charAt(source, p); got != string(r) && got != `\` {
				t.Fatalf("in\n%s\ncharacter %d:%d %q of %q is said to stand at %v, where there is %q", source, i+1, j+1, r, text.Value, p, got)
			}
		}
	}
}

// program reads a YAML text and returns its value of key p.
func program(t interface{ Fatalf(string, ...any) }, source string) field.Text {
	n, ps := parseTree("t.yaml", []byte(source))
	if len(ps) > 0 {
		t.Fatalf("in\n%s\nproblems: %v", source, ps)
	}
	x := &holder{}
	if ps := field.Bind(n, x, &field.Resolver{}); len(ps) > 0 {
		t.Fatalf("in\n%s\nproblems: %v", source, ps)
	}
	return x.p
}

type holder struct{ p field.Text }

func (h *holder) Fields(s *field.Set) { s.Text(&h.p, "p", "A program.") }

func TestPlacesInsideATextAreFoundInEveryNotation(t *testing.T) {
	for _, c := range []struct {
		name, source string
		line, col    int
		want         string
	}{
		{"plain", "p: .a | .b\n", 1, 6, "t.yaml:1:9"},
		{"plain over lines", "p: .a |\n   .b |\n  .c\n", 1, 11, "t.yaml:3:3"},
		{"plain over an empty line", "p: .a |\n\n  .b\n", 2, 1, "t.yaml:3:3"},
		{"single quotes", "p: '.a | .b'\n", 1, 6, "t.yaml:1:10"},
		{"single quotes with one inside", "p: '\"it''s\" + .b'\n", 1, 10, "t.yaml:1:15"},
		{"double quotes", "p: \".a | .b\"\n", 1, 6, "t.yaml:1:10"},
		{"double quotes with escapes", `p: "\"a\u00e9\t\" + .b"`, 1, 9, "t.yaml:1:21"},
		{"double quotes over lines", "p: \".a |\n  .b\\\n   + .c\"\n", 1, 6, "t.yaml:2:3"},
		{"double quotes after an escaped line end", "p: \".a |\n  .b\\\n   + .c\"\n", 1, 8, "t.yaml:3:4"},
		{"literal block", "p: |\n    {\n      a: .b\n    }\n", 2, 3, "t.yaml:3:7"},
		{"literal block that keeps its indentation", "p: |2\n    {\n      a: .b\n", 2, 5, "t.yaml:3:7"},
		{"literal block after a comment", "p: | # the program\n  .a\n", 1, 1, "t.yaml:2:3"},
		{"literal block with empty lines", "p: |\n\n  .a\n\n  .b\n", 4, 1, "t.yaml:5:3"},
		{"literal block of one space more", "p: |-\n   .a\n", 1, 2, "t.yaml:2:5"},
		{"folded block", "p: >\n  .a |\n  .b\n", 1, 6, "t.yaml:3:3"},
		{"folded block with the same line twice", "p: >\n  .a |\n  .a |\n  .a\n", 1, 11, "t.yaml:4:3"},
		{"folded block with an indented part", "p: >\n  .a |\n    .b\n  | .c\n", 2, 3, "t.yaml:3:5"},
		{"anchored", "p: &x .a | .b\n", 1, 6, "t.yaml:1:12"},
		{"anchored block", "p: &x |\n  .a\n", 1, 2, "t.yaml:2:4"},
		{"behind an alias", "x-y: &x .a | .b\np: *x\n", 1, 6, "t.yaml:1:14"},
		{"with accents before", "p: '\"éü\" + .b'\n", 1, 8, "t.yaml:1:12"},
		{"in a flow mapping", "{x-a: 1, p: .a | .b}\n", 1, 6, "t.yaml:1:18"},
		{"end of the text", "p: .a\n", 1, 3, "t.yaml:1:6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := program(t, c.source)
			if got := text.At(c.line, c.col).String(); got != c.want {
				t.Errorf("character %d:%d of %q is said to stand at %s, want %s", c.line, c.col, text.Value, got, c.want)
			}
			checkPlaces(t, c.source, text)
		})
	}
}

func TestPlacesInsideAnyBlockAreRight(t *testing.T) {
	line := rapid.StringMatching(`[a-z.|é"'#:\\{]{0,8}( [a-z|]{1,3}){0,2}`)
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOfN(line, 1, 6).Draw(t, "lines")
		style := rapid.SampledFrom([]string{"|", ">", "|-", ">-", "|+", ">+"}).Draw(t, "style")
		indent := rapid.IntRange(1, 5).Draw(t, "indent")
		var b strings.Builder
		fmt.Fprintf(&b, "x-a: 1\np: %s\n", style)
		for i, l := range lines {
			if i > 0 && l != "" {
				l = strings.Repeat(" ", rapid.IntRange(0, 2).Draw(t, "more")) + l
			}
			if i == 0 {
				l = "x" + l
			}
			fmt.Fprintf(&b, "%s%s\n", strings.Repeat(" ", indent), l)
		}
		b.WriteString("x-b: 2\n")
		text := program(t, b.String())
		checkPlaces(t, b.String(), text)
	})
}

func TestPlacesInsideAnyQuotesAreRight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-zé.|'"\\{}#: ]{1,20}`).Draw(t, "value")
		single := rapid.Bool().Draw(t, "single")
		quoted := fmt.Sprintf("%q", value)
		if single {
			quoted = "'" + strings.ReplaceAll(value, "'", "''") + "'"
		}
		source := "p: " + quoted + "\n"
		text := program(t, source)
		if text.Value != value {
			t.Fatalf("value is %q, want %q", text.Value, value)
		}
		checkPlaces(t, source, text)
		// An exact place, not just the beginning, also behind escapes.
		if i := strings.LastIndex(source, "z"); i >= 0 {
			j := len([]rune(value[:strings.LastIndex(value, "z")]))
			if got, want := text.At(1, j+1).Col, len([]rune(source[:i]))+1; got != want {
				t.Fatalf("in %s the last z is said to stand at column %d, want %d", source, got, want)
			}
		}
	})
}
