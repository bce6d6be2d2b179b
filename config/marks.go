package config

import (
	"strings"

	"syncd/internal/field"

	yaml "go.yaml.in/yaml/v4"
)

// marks says where the parts of a scalar's text stand in the file, so that a place inside a program can be shown. It reads the source
// again beside the value; where the two do not agree it gives up and returns nil, and the scalar is known by its beginning alone.
func marks(file string, lines []string, n *yaml.Node) []field.Mark {
	w := &walker{file: file, lines: lines, line: n.Line, col: n.Column}
	w.properties()
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return w.block(n.Value, n.Style&yaml.LiteralStyle != 0)
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return w.flow([]rune(n.Value), '"')
	case n.Style&yaml.SingleQuotedStyle != 0:
		return w.flow([]rune(n.Value), '\'')
	}
	return w.flow([]rune(n.Value), 0)
}

// walker reads source lines from a place on.
type walker struct {
	file  string
	lines []string
	line  int // from 1
	col   int // from 1, in characters
	runes []rune
	of    int // the line that runes holds
}

func (w *walker) text(line int) []rune {
	if w.of != line {
		w.of, w.runes = line, nil
		if line >= 1 && line <= len(w.lines) {
			w.runes = []rune(strings.TrimSuffix(w.lines[line-1], "\r"))
		}
	}
	return w.runes
}

// peek returns the character here, '\n' at the end of a line and 0 after the last.
func (w *walker) peek(ahead int) rune {
	if w.line > len(w.lines) {
		return 0
	}
	t := w.text(w.line)
	if i := w.col - 1 + ahead; i < len(t) {
		return t[i]
	}
	return '\n'
}

func (w *walker) step(n int) {
	for range n {
		if w.peek(0) == '\n' {
			w.line, w.col = w.line+1, 1
			continue
		}
		w.col++
	}
}

func (w *walker) pos() field.Pos { return field.Pos{File: w.file, Line: w.line, Col: w.col} }

// properties skips an anchor and a tag, which the parser counts to the value.
func (w *walker) properties() {
	for w.peek(0) == '&' || w.peek(0) == '!' {
		for c := w.peek(0); c != ' ' && c != '\t' && c != '\n' && c != 0; c = w.peek(0) {
			w.step(1)
		}
		w.blanks()
	}
}

// blanks skips blanks and line ends and returns how many lines ended.
func (w *walker) blanks() (breaks int) {
	for c := w.peek(0); c == ' ' || c == '\t' || c == '\n'; c = w.peek(0) {
		if c == '\n' {
			breaks++
		}
		w.step(1)
	}
	return breaks
}

// block marks each line of a block scalar: one for one when it is literal, searched one after the other when it is folded.
func (w *walker) block(value string, literal bool) []field.Mark {
	line := w.line + 1
	if !literal {
		return w.folded(value, line)
	}
	var ms []field.Mark
	off := 0
	for v := range strings.SplitSeq(value, "\n") {
		src := string(w.text(line))
		if v != "" {
			if !strings.HasSuffix(src, v) {
				return nil
			}
			col := len([]rune(src)) - len([]rune(v)) + 1
			ms = append(ms, field.Mark{Offset: off, Pos: field.Pos{File: w.file, Line: line, Col: col}})
		}
		off += len([]rune(v)) + 1
		line++
	}
	return ms
}

func (w *walker) folded(value string, line int) []field.Mark {
	var ms []field.Mark
	at := 0 // in value, in bytes
	for ; strings.Trim(value[at:], " \n") != "" && line <= len(w.lines); line++ {
		src := string(w.text(line))
		part := strings.TrimLeft(src, " ")
		if strings.TrimSpace(part) == "" {
			continue
		}
		// All that can stand between two parts of a folded text is blanks and line ends.
		i := strings.Index(value[at:], part)
		if i < 0 || strings.Trim(value[at:at+i], " \n") != "" {
			return nil
		}
		ms = append(ms, field.Mark{
			Offset: len([]rune(value[:at+i])),
			Pos:    field.Pos{File: w.file, Line: line, Col: len([]rune(src)) - len([]rune(part)) + 1},
		})
		at += i + len(part)
	}
	return ms
}

// flow marks a plain or quoted text, which may go on over several lines.
func (w *walker) flow(value []rune, quote rune) []field.Mark {
	if quote != 0 {
		if w.peek(0) != quote {
			return nil
		}
		w.step(1)
	}
	ms := []field.Mark{{Offset: 0, Pos: w.pos()}}
	mark := func(off int) { ms = append(ms, field.Mark{Offset: off, Pos: w.pos()}) }
	for i := 0; i < len(value); {
		c := w.peek(0)
		switch {
		case c == '\n' || (c == ' ' || c == '\t') && w.lineEndsHere():
			breaks := w.blanks()
			if value[i] == ' ' && breaks == 1 {
				i++
			}
			for ; breaks > 1 && i < len(value) && value[i] == '\n'; breaks-- {
				i++
			}
			mark(i)
		case quote == '\'' && c == '\'' && w.peek(1) == '\'' && value[i] == '\'':
			w.step(2)
			i++
			mark(i)
		case quote == '"' && c == '\\':
			n := w.escape()
			if n == 0 { // an escaped line end: the text goes on after the blanks
				w.step(1)
				w.blanks()
			} else {
				w.step(n)
				i++
			}
			mark(i)
		case c == value[i]:
			w.step(1)
			i++
		default:
			return nil
		}
	}
	return ms
}

func (w *walker) lineEndsHere() bool {
	for i := 0; ; i++ {
		switch w.peek(i) {
		case ' ', '\t':
		case '\n':
			return true
		default:
			return false
		}
	}
}

// escape returns the length of the escape sequence here, 0 for an escaped line end.
func (w *walker) escape() int {
	switch w.peek(1) {
	case '\n':
		return 0
	case 'x':
		return 4
	case 'u':
		return 6
	case 'U':
		return 10
	}
	return 2
}
