package tryton

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// The server's sentences can repeat the value that is refused, or name a record
// by what a customer wrote. They are shown in listings and logs, so what may be
// a value is taken out of them; the names of fields and models stay.

const (
	hidden = "…"
	// shortest is the shortest text of a record that is looked for in a sentence.
	shortest = 3
	// longest bounds a sentence, in characters.
	longest = 300
)

var (
	// quoted is a quotation with the word before it.
	quoted = regexp.MustCompile(`(?s)(?:\b(\w+) )?("[^"]*"|“[^”]*”|«[^»]*»)`)
	// single is a quotation in the manner of Python and of PostgreSQL.
	single = regexp.MustCompile(`(?s)(^|[\s(:=,\[])'[^']*'`)
	// tuple is how PostgreSQL shows the row that it refuses.
	tuple = regexp.MustCompile(`(?s)=\(.*?\)|\((?:[^()]*, )+[^()]*\)`)
)

// namesFollow are the words after which a quotation names a field, a model or
// the like: `The value "…" for field "Name" in "Party"`.
var namesFollow = []string{"field", "fields", "in", "of", "access", "model", "button", "column", "relation", "constraint", "table", "type", "schema", "rule"}

// sentence is a sentence for people without what may be a value.
func sentence(text string, hide []string) string {
	text = without(text, hide)
	text = quoted.ReplaceAllStringFunc(text, func(q string) string {
		m := quoted.FindStringSubmatch(q)
		if slices.Contains(namesFollow, strings.ToLower(m[1])) {
			return q
		}
		return strings.Replace(q, m[2], `"`+hidden+`"`, 1)
	})
	return cut(text)
}

// excerpt is the text of an exception that was not made for people: its first line
// without what may be a value.
func excerpt(text string, hide []string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if keyText.MatchString(text) && !slices.Contains(hide, strings.Trim(text, "'")) {
		return text
	}
	text = without(text, hide)
	text = tuple.ReplaceAllString(text, "("+hidden+")")
	text = single.ReplaceAllString(text, "${1}'"+hidden+"'")
	return sentence(text, nil)
}

// without takes the texts of a record out of a sentence, the longest first.
func without(text string, hide []string) string {
	hide = slices.Clone(hide)
	slices.SortFunc(hide, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, h := range hide {
		text = strings.ReplaceAll(text, h, hidden)
	}
	return text
}

// texts adds the lines of a text to those that are hidden.
func texts(hide []string, text string) []string {
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); len([]rune(line)) >= shortest {
			hide = append(hide, line)
		}
	}
	if whole := strings.TrimSpace(text); strings.Contains(whole, "\n") {
		hide = append(hide, whole)
	}
	return hide
}

func cut(s string) string {
	if r := []rune(s); len(r) > longest {
		return string(r[:longest]) + "…"
	}
	return s
}
