package field

import (
	"fmt"
	"sort"
	"strings"
)

// Pos is a place in a configuration: a file with line and column, both from 1, the column in characters; or, with line 0, a source
// that has no lines, such as "environment SYNCD_LISTEN".
type Pos struct {
	File string
	Line int
	Col  int
}

// String gives file:line:col, or the name alone when there are no lines.
func (p Pos) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Before tells whether p comes before q: by file, line, column. Sources without lines come last.
func (p Pos) Before(q Pos) bool {
	switch {
	case (p.Line == 0) != (q.Line == 0):
		return q.Line == 0
	case p.File != q.File:
		return p.File < q.File
	case p.Line != q.Line:
		return p.Line < q.Line
	}
	return p.Col < q.Col
}

// Text is a text that knows where it stands in the file, so that a mistake inside it can be shown at its own line and column.
type Text struct {
	Value string
	Pos   Pos // where the value begins; for a block scalar its first line, not the line of the "|"

	marks []Mark
}

// Mark says that the character at Offset (in characters, from 0) of a value stands at Pos, and those after it follow on the same line
// until the next mark.
type Mark struct {
	Offset int
	Pos    Pos
}

// NewText returns a text that begins at pos and whose lines follow each other in the file without indentation, as those of a file of
// its own do.
func NewText(value string, pos Pos) Text {
	t := Text{Value: value, Pos: pos}
	off := 0
	for i, line := range strings.Split(value, "\n") {
		at := pos
		if i > 0 {
			at.Line, at.Col = pos.Line+i, 1
		}
		t.marks = append(t.marks, Mark{Offset: off, Pos: at})
		off += len([]rune(line)) + 1
	}
	return t
}

// Empty tells whether there is no text.
func (t Text) Empty() bool { return t.Value == "" }

// At returns where the given line and column of the value (both from 1, the column in characters) stand in the file. What lies outside
// the value is moved to its nearest end.
func (t Text) At(line, col int) Pos {
	if len(t.marks) == 0 {
		return t.Pos
	}
	off := 0
	lines := strings.Split(t.Value, "\n")
	for i, l := range lines {
		width := len([]rune(l))
		switch {
		case i == max(line, 1)-1:
			off += min(max(col-1, 0), width)
		case i == len(lines)-1 && i < line:
			off += width
		case i < line-1:
			off += width + 1
		}
	}
	i := sort.Search(len(t.marks), func(i int) bool { return t.marks[i].Offset > off }) - 1
	if i < 0 {
		return t.Pos
	}
	p := t.marks[i].Pos
	if p.Line > 0 {
		p.Col += off - t.marks[i].Offset
	}
	return p
}
