package config

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"

	"syncd/connectors"
	"syncd/internal/field"

	_ "embed"
)

//go:embed reference_intro.md
var referenceIntro string

// Reference returns the page that documents every field of the configuration file, with the fields of these connectors.
func Reference(registry []connectors.Connector) []byte {
	p := &page{seen: map[string]string{}}
	p.b.WriteString(referenceIntro)
	p.section(2, "Top level", "", field.Declare(&Config{connectors: registry}))
	p.printf("\n## Connectors\n\nBesides the fields of [every client](#%s), a client has those of its connector.\n", slug(p.title("clients.NAME")))
	for _, k := range registry {
		p.connector(k)
	}
	return p.b.Bytes()
}

// page writes Markdown.
type page struct {
	b    bytes.Buffer
	of   string            // the connector whose fields are being written, or ""
	seen map[string]string // titles of sections by what they say, so that the same fields are listed once
}

func (p *page) printf(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

// section writes the fields of one mapping, and then the sections of the mappings below it.
func (p *page) section(level int, title, path string, s *field.Set) {
	p.printf("\n%s %s\n", strings.Repeat("#", level), title)
	p.rest(level, path, s)
}

// rest writes a section without its heading.
func (p *page) rest(level int, path string, s *field.Set) {
	p.fields(s, path)
	on, variants := s.Variants()
	if on == "connector" && p.of == "" {
		p.printf("\nMore fields depend on `connector`: see [Connectors](#connectors).\n")
		variants = nil
	}
	for _, v := range variants {
		if len(v.Set.Fields()) > 0 {
			p.printf("\nWith `%s: %s` also:\n", on, v.Choice.Name)
			p.rest(level, path, v.Set)
		}
	}
	level = min(level+1, 6)
	for _, f := range s.Fields() {
		sub := f.Sub()
		if sub == nil {
			continue
		}
		below := pathOf(path, f)
		title := p.title(below)
		if first, ok := p.seen[fingerprint(sub)]; ok {
			p.printf("\n%s %s\n\nThe fields are those of [%s](#%s).\n", strings.Repeat("#", level), title, first, slug(first))
			continue
		}
		p.seen[fingerprint(sub)] = title
		p.section(level, title, below, sub)
	}
}

// title is the heading of a mapping's section.
func (p *page) title(path string) string {
	t := "`" + path + "`"
	if p.of != "" {
		t += " (" + p.of + ")"
	}
	return t
}

// pathOf is how the mapping of a field is called: flows.NAME.to.
func pathOf(path string, f *field.Field) string {
	if path != "" {
		path += "."
	}
	path += f.Name
	switch f.Kind {
	case field.KindMap:
		path += ".NAME"
	case field.KindList:
		path += "[]"
	}
	return path
}

// slug is the address within the page that Markdown renderers give a heading.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, title)
}

func fingerprint(s *field.Set) string {
	var b strings.Builder
	for _, f := range s.Fields() {
		fmt.Fprintf(&b, "%s\x00%s\x00%s\x00", f.Name, f.Doc, f.Default)
	}
	_, variants := s.Variants()
	for _, v := range variants {
		b.WriteString(v.Choice.Name + "\x00" + fingerprint(v.Set))
	}
	return b.String()
}

// fields writes a list of fields, those of a group together under its name.
func (p *page) fields(s *field.Set, path string) {
	group := ""
	for _, f := range s.Fields() {
		if f.Group != group && f.Group != "" {
			p.printf("\n*%s*\n", f.Group)
		}
		group = f.Group
		p.field(f, path)
	}
}

func (p *page) field(f *field.Field, path string) {
	p.printf("\n- **`%s`** – %s\n\n  %s\n", f.Name, p.facts(f, path), f.Doc)
	for _, c := range f.Choices {
		if c.Doc != "" {
			p.printf("  - `%s`: %s\n", c.Name, c.Doc)
		}
	}
	switch {
	case f.Example == "":
	case strings.Contains(f.Example, "\n"):
		p.printf("\n  ```yaml\n  %s: |\n    %s\n  ```\n", f.Name, strings.ReplaceAll(strings.TrimSpace(f.Example), "\n", "\n    "))
	default:
		p.printf("\n  Example: `%s: %s`\n", f.Name, exampleText(f))
	}
}

// exampleText writes an example as YAML has it.
func exampleText(f *field.Field) string {
	switch {
	case f.Kind == field.KindStrings:
		return "[" + strings.Join(strings.FieldsFunc(f.Example, func(r rune) bool { return r == ',' || r == ' ' }), ", ") + "]"
	case f.Kind == field.KindText || strings.ContainsAny(f.Example, "{}#&*!|>'\"%@`") || strings.Contains(f.Example, ": "):
		return "'" + strings.ReplaceAll(f.Example, "'", "''") + "'"
	}
	return f.Example
}

// facts says in half a line what a field takes.
func (p *page) facts(f *field.Field, path string) string {
	parts := []string{f.Type}
	if f.Sub() != nil {
		parts[0] = fmt.Sprintf("[%s](#%s)", f.Type, slug(p.title(pathOf(path, f))))
	}
	if names := plainChoices(f.Choices); names != "" {
		parts[0] = names
	}
	if r := f.RangeText(); r != "" {
		parts = append(parts, r)
	}
	if f.What != "" && f.Kind != field.KindVar {
		parts = append(parts, f.What)
	}
	if f.NameWhat != "" {
		parts = append(parts, "names: "+f.NameWhat)
	}
	switch {
	case f.Needed():
		parts = append(parts, "**required**")
	case f.HasDefault && f.Default == "":
		parts = append(parts, "default empty")
	case f.HasDefault:
		parts = append(parts, "default `"+f.Default+"`")
	}
	if f.Advanced {
		parts = append(parts, "seldom needed")
	}
	return strings.Join(parts, "; ")
}

func plainChoices(cs []field.Choice) string {
	var names []string
	for _, c := range cs {
		names = append(names, "`"+c.Name+"`")
	}
	switch n := len(names); n {
	case 0, 1:
		return strings.Join(names, "")
	default:
		return strings.Join(names[:n-1], ", ") + " or " + names[n-1]
	}
}

// connector writes what only clients of one connector have.
func (p *page) connector(k connectors.Connector) {
	p.printf("\n### `connector: %s`\n\n%s\n", k.Name, k.Doc)
	p.of = k.Name
	defer func() { p.of = "" }()
	settings := k.Settings()
	set := field.Declare(settings)
	p.streams(settings.Streams())
	p.entities(settings.Entities())
	p.rest(3, "clients.NAME", set)
}

func (p *page) streams(ss []connectors.StreamInfo) {
	if len(ss) == 0 {
		return
	}
	p.printf("\nStreams:\n\n| stream | what | deletions | one record can be read anew |\n|---|---|---|---|\n")
	for _, s := range ss {
		p.printf("| `%s` | %s | %s | %s |\n", s.Name, cell(s.Doc), yesNo(s.Tombstones), yesNo(s.CanFetch))
	}
}

func (p *page) entities(es []connectors.EntityInfo) {
	if len(es) == 0 {
		return
	}
	p.printf("\nEntities:\n\n| entity | what | strategies | on_delete | keeps order itself |\n|---|---|---|---|---|\n")
	for _, e := range es {
		var strategies []string
		for _, s := range e.Strategies {
			t := "`" + string(s.Strategy) + "`"
			if s.Field != "" {
				t += " by " + cell(s.Field)
			}
			strategies = append(strategies, t)
		}
		removals := []string{"`ignore`"}
		for _, r := range e.Removals {
			removals = append(removals, "`"+string(r)+"`")
		}
		p.printf("| `%s` | %s | %s | %s | %s |\n", e.Name, cell(e.Doc), strings.Join(strategies, ", "), strings.Join(removals, ", "), yesNo(e.Guarded))
	}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// cell writes a text so that it fits a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}
