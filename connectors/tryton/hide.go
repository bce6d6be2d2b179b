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
	// longest bounds a sentence, in characters; mostText what is looked at of it, in bytes.
	longest  = 300
	mostText = 16 << 10
	// mostWhole is the length from which a text is also looked for by its beginning,
	// since the sentence may hold no more of it.
	mostWhole = 200
)

var (
	quoted = regexp.MustCompile(`(?s)"[^"]*(?:"|$)|“[^”]*(?:”|$)|«[^»]*(?:»|$)`)
	// naming is what stands before the name of a field, a model or the like:
	// `The value "…" for field "Name" in "Party"`, `records "…" of "Sale"`.
	naming = regexp.MustCompile(`(?is)\b(?:fields?|access|model|button|column|relation|constraint|table|rule|fields? "[^"]*" (?:in|of)|records(?: "[^"]*")? of) $`)
	// single is a quotation in the manner of Python and of PostgreSQL.
	single = regexp.MustCompile(`(?s)(^|[\s(:=,\[])'[^']*'`)
	// tuple is how PostgreSQL shows the row that it refuses.
	tuple = regexp.MustCompile(`(?s)=\(.*?\)|\((?:[^()]*, )+[^()]*\)`)
)

// sentence is a sentence for people without what may be a value.
func sentence(text string, hide []string) string {
	text = without(strings.ToValidUTF8(text[:min(len(text), mostText)], ""), hide)
	var out strings.Builder
	at := 0
	for _, q := range quoted.FindAllStringIndex(text, -1) {
		out.WriteString(text[at:q[0]])
		at = q[1]
		if naming.MatchString(text[:q[0]]) || strings.HasPrefix(text[q[1]:], " state") {
			out.WriteString(text[q[0]:q[1]])
			continue
		}
		out.WriteString(`"` + hidden + `"`)
	}
	out.WriteString(text[at:])
	return cut(out.String())
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
		line = strings.TrimSpace(line)
		if r := []rune(line); len(r) > mostWhole {
			hide = append(hide, line, string(r[:mostWhole/4]))
		} else if len(r) >= shortest {
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
