package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"syncd/internal/field"

	yaml "go.yaml.in/yaml/v4"
)

const (
	// maxFile bounds the configuration file, and each file it names, in bytes.
	maxFile = 1 << 20
	// maxNodes bounds the values of a file after its aliases are followed: nine short lines of aliases can stand for a billion values.
	maxNodes = 50_000
	// maxDepth bounds how deep values may be nested.
	maxDepth = 50
)

// parseTree reads a YAML file into a tree that keeps every value's text and place. It returns what is wrong with the file as YAML; the tree is
// nil if it could not be read at all.
func parseTree(file string, data []byte) (*field.Node, []field.Problem) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	t := &treeBuilder{file: file, lines: strings.Split(string(data), "\n")}
	if len(data) > maxFile {
		t.problem(1, 1, "the file is larger than 1 MiB")
		return nil, t.problems
	}
	if line, col, what := badCharacter(data); what != "" {
		t.problem(line, col, "%s", what)
		return nil, t.problems
	}
	doc := t.document(data)
	if doc == nil {
		return nil, t.problems
	}
	root := t.node(doc, nil)
	return root, t.problems
}

// badCharacter finds the first character that no YAML file may hold.
func badCharacter(data []byte) (line, col int, what string) {
	line, col = 1, 1
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && n == 1:
			return line, col, "not UTF-8; save the file as UTF-8"
		case r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f || r == 0xfffe || r == 0xffff:
			return line, col, fmt.Sprintf("control character U+%04X; take it out", r)
		}
		if col++; r == '\n' {
			line, col = line+1, 1
		}
		data = data[n:]
	}
	return 0, 0, ""
}

type treeBuilder struct {
	file     string
	lines    []string
	problems []field.Problem
	nodes    int
	tooMany  bool
}

func (t *treeBuilder) problem(line, col int, format string, args ...any) {
	t.problems = append(t.problems, field.Problem{
		Pos: field.Pos{File: t.file, Line: max(line, 1), Col: max(col, 1)}, Msg: fmt.Sprintf(format, args...),
	})
}

// document reads the one document of a file.
func (t *treeBuilder) document(data []byte) *yaml.Node {
	loader, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		t.syntax(err)
		return nil
	}
	var doc, more yaml.Node
	if err := loader.Load(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			t.problem(1, 1, "the file is empty")
		} else {
			t.syntax(err)
		}
		return nil
	}
	if err := loader.Load(&more); err == nil {
		t.problem(more.Line, more.Column, "a second document begins here; put everything into one")
	} else if !errors.Is(err, io.EOF) {
		t.syntax(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		t.problem(1, 1, "the file is empty")
		return nil
	}
	return doc.Content[0]
}

// syntax reports an error of the YAML parser, without anything of the file's content: it may be a secret.
func (t *treeBuilder) syntax(err error) {
	var many *yaml.LoadErrors
	if errors.As(err, &many) {
		for _, e := range many.Errors {
			t.syntaxError(e)
		}
		return
	}
	var one *yaml.LoadError
	if errors.As(err, &one) {
		t.syntaxError(one)
		return
	}
	t.problem(1, 1, "the file cannot be read as YAML")
}

func (t *treeBuilder) syntaxError(e *yaml.LoadError) {
	m := e.Mark
	if m.Line == 0 || strings.Contains(e.Message, "could not find expected ':'") && e.ContextMark.Line > 0 {
		m = e.ContextMark
	}
	t.problem(m.Line, m.Column, "%s", t.explain(e, m))
}

// explain says what a YAML error means, in fixed texts.
func (t *treeBuilder) explain(e *yaml.LoadError, m yaml.Mark) string {
	if line := t.line(m.Line); tabIndented(line) {
		return "a tab is used for indentation; YAML allows only spaces there"
	}
	rest := t.rest(m.Line, m.Column)
	switch msg := e.Message; {
	case strings.HasPrefix(rest, "{") && strings.HasPrefix(t.rest(m.Line, m.Column-1), "$"):
		return "inside { } or [ ] a reference must be quoted, as in \"${env:NAME}\""
	case strings.HasPrefix(rest, "{") && !strings.ContainsAny(t.before(m), " \t{[,:"):
		return "inside { } or [ ] a value that holds { } must be quoted, as in \"/items/{key}\""
	case strings.HasPrefix(msg, "unknown anchor"):
		return "an alias to an anchor that does not exist; quote the value if it is meant to begin with *"
	case strings.Contains(msg, "mapping values are not allowed"):
		return "a colon where no key can be; quote the value if the colon belongs to it"
	case strings.Contains(msg, "cannot start any token") && rest != "":
		return fmt.Sprintf("a value cannot begin with %c; quote it", []rune(rest)[0])
	case strings.Contains(msg, "block scalar"), strings.Contains(e.ContextMsg, "block scalar"):
		return "after | or > only an indentation or a comment may follow; quote the value if it is meant to begin so"
	case strings.Contains(e.ContextMsg, "quoted scalar"):
		return fmt.Sprintf("the quoted text that begins in line %d is not closed, or holds an unknown escape", max(e.ContextMark.Line, 1))
	case strings.Contains(e.ContextMsg, "flow sequence"):
		return fmt.Sprintf("the list that begins with [ in line %d is not closed", max(e.ContextMark.Line, 1))
	case strings.Contains(e.ContextMsg, "flow mapping"):
		return fmt.Sprintf("the mapping that begins with { in line %d is not closed", max(e.ContextMark.Line, 1))
	case strings.Contains(e.ContextMsg, "flow node"):
		return "a value or a closing bracket is missing here"
	case strings.Contains(msg, "could not find expected ':'"):
		return "a key without a colon; write key: value"
	case strings.Contains(e.ContextMsg, "block mapping"):
		return fmt.Sprintf("this does not fit the mapping that begins in line %d; check the indentation", max(e.ContextMark.Line, 1))
	case strings.Contains(e.ContextMsg, "block collection"):
		return fmt.Sprintf("this does not fit the list that begins in line %d; check the indentation", max(e.ContextMark.Line, 1))
	case strings.Contains(msg, "max depth"):
		return fmt.Sprintf("values are nested more than %d deep", maxDepth)
	}
	return "the file cannot be read as YAML from here on"
}

func tabIndented(line string) bool {
	return strings.Contains(line[:len(line)-len(strings.TrimLeft(line, " \t"))], "\t")
}

func (t *treeBuilder) line(n int) string {
	if n < 1 || n > len(t.lines) {
		return ""
	}
	return strings.TrimSuffix(t.lines[n-1], "\r")
}

// rest returns a line from a column on, both from 1, the column in characters.
func (t *treeBuilder) rest(line, col int) string {
	r := []rune(t.line(line))
	if col < 1 || col > len(r) {
		return ""
	}
	return string(r[col-1:])
}

// before is the character before a mark; a blank at the beginning of a line.
func (t *treeBuilder) before(m yaml.Mark) string {
	if r := []rune(t.rest(m.Line, m.Column-1)); len(r) > 0 {
		return string(r[0])
	}
	return " "
}

// node turns a YAML node into ours. above holds the nodes we are inside of.
func (t *treeBuilder) node(n *yaml.Node, above []*yaml.Node) *field.Node {
	pos := field.Pos{File: t.file, Line: n.Line, Col: n.Column}
	null := &field.Node{Kind: field.Null, Pos: pos}
	if t.tooMany {
		return null
	}
	if n.Kind == yaml.AliasNode {
		if n.Alias == nil || slices.Contains(above, n.Alias) {
			t.problem(n.Line, n.Column, "an alias inside of what it stands for")
			return null
		}
		return t.node(n.Alias, above)
	}
	if t.nodes++; t.nodes > maxNodes {
		t.tooMany = true
		t.problem(n.Line, n.Column, "more than %d values, aliases followed; write less", maxNodes)
		return null
	}
	if len(above) >= maxDepth {
		t.problem(n.Line, n.Column, "values are nested more than %d deep", maxDepth)
		return null
	}
	if n.Style&yaml.TaggedStyle != 0 && !(n.Kind == yaml.ScalarNode && n.Tag == "!!str") {
		t.problem(n.Line, n.Column, "a tag, which is not used here; quote the value if it is meant to begin with !")
	}
	above = append(slices.Clip(above), n)
	switch n.Kind {
	case yaml.MappingNode:
		return t.mapping(n, pos, above)
	case yaml.SequenceNode:
		s := &field.Node{Kind: field.Sequence, Pos: pos}
		for _, c := range n.Content {
			s.Items = append(s.Items, t.node(c, above))
		}
		return s
	}
	return t.scalar(n, pos)
}

func (t *treeBuilder) scalar(n *yaml.Node, pos field.Pos) *field.Node {
	const quotes = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	if n.Tag == "!!null" && n.Style&quotes == 0 {
		return &field.Node{Kind: field.Null, Pos: pos, Text: n.Value}
	}
	s := &field.Node{Kind: field.Scalar, Pos: pos, Text: n.Value, Quoted: n.Style&(quotes|yaml.TaggedStyle) != 0}
	s.Marks = marks(t.file, t.lines, n)
	return s
}

func (t *treeBuilder) mapping(n *yaml.Node, pos field.Pos, above []*yaml.Node) *field.Node {
	m := &field.Node{Kind: field.Mapping, Pos: pos}
	seen := map[string]*yaml.Node{}
	var merged []*field.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		if k.Tag == "!!merge" && k.Kind == yaml.ScalarNode {
			merged = append(merged, t.merged(v, above)...)
			continue
		}
		if k.Kind != yaml.ScalarNode || k.Tag == "!!null" && k.Value == "" {
			t.problem(k.Line, k.Column, "a key must be a single word or text")
			continue
		}
		if first := seen[k.Value]; first != nil {
			t.problem(k.Line, k.Column, "the key %s stands here a second time; the first is in line %d, column %d", field.PathString([]string{k.Value}), first.Line, first.Column)
			continue
		}
		seen[k.Value] = k
		m.Entries = append(m.Entries, field.Entry{
			Key: k.Value, KeyPos: field.Pos{File: t.file, Line: k.Line, Col: k.Column}, Value: t.node(v, above),
		})
	}
	for _, from := range merged {
		for _, e := range from.Entries {
			if m.Entry(e.Key) == nil {
				m.Entries = append(m.Entries, e)
			}
		}
	}
	return m
}

// merged returns the mappings that a merge key (<<) names: one, or a list of which the first wins.
func (t *treeBuilder) merged(v *yaml.Node, above []*yaml.Node) []*field.Node {
	from := t.node(v, above)
	list := []*field.Node{from}
	if from.Kind == field.Sequence {
		list = from.Items
	}
	var maps []*field.Node
	for _, m := range list {
		if m.Kind != field.Mapping {
			t.problem(v.Line, v.Column, "<< takes a mapping or a list of mappings; use it with an alias, as in <<: *name")
			continue
		}
		maps = append(maps, m)
	}
	return maps
}
