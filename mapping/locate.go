package mapping

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// gojq's syntax tree has no positions. To say where an unknown function or
// variable stands, the program's text is scanned for names once more, only
// when there is an error to report.

// token is a name in the text of a program: a call (fn), a variable ($x) or a
// format (@csv). Fields, object keys, definitions and parameters are none.
type token struct {
	text   string
	offset int
}

// tokens lists the names of a program in the order they stand.
func tokens(src string) []token {
	s := nameScanner{src: src}
	s.scan()
	return s.out
}

// position returns the offset of the nth token with this text (from 0); where
// there are fewer, that of the last; -1 without any.
func position(src, text string, nth int) int {
	offset := -1
	for _, t := range tokens(src) {
		if t.text != text {
			continue
		}
		offset = t.offset
		if nth == 0 {
			break
		}
		nth--
	}
	return offset
}

type nameScanner struct {
	src string
	i   int
	out []token
}

// scan reads until the end, or in a string's \( … ) until its closing bracket.
func (s *nameScanner) scan() {
	var before byte     // the last character that was neither blank nor comment
	var brackets []byte // that are open
	params := false     // between def and its colon
	for s.i < len(s.src) {
		c := s.src[s.i]
		start := s.i
		switch {
		case c == '#':
			s.comment()
			continue
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			s.i++
			continue
		case c == '"':
			s.str()
		case c == '(' || c == '[' || c == '{':
			brackets = append(brackets, c)
			s.i++
		case c == ')' || c == ']' || c == '}':
			s.i++
			if len(brackets) == 0 {
				return
			}
			brackets = brackets[:len(brackets)-1]
		case c == ':':
			params = false
			s.i++
		case c == '$' || c == '@':
			s.i++
			if s.name() != "" && !params {
				s.out = append(s.out, token{s.src[start:s.i], start})
			}
		case isDigit(c):
			s.number()
		case nameByte(c):
			name := s.name()
			switch {
			case name == "def":
				params = true
			case params || before == '.' || isKeyword(name):
			case len(brackets) > 0 && brackets[len(brackets)-1] == '{' && (before == '{' || before == ','):
				// the name of a member
			default:
				s.out = append(s.out, token{name, start})
			}
		default:
			s.i++
		}
		before = s.src[s.i-1]
	}
}

func (s *nameScanner) comment() {
	for s.i < len(s.src) && s.src[s.i] != '\n' {
		s.i++
	}
}

func (s *nameScanner) str() {
	for s.i++; s.i < len(s.src); s.i++ {
		switch s.src[s.i] {
		case '"':
			s.i++
			return
		case '\\':
			s.i++
			if s.i < len(s.src) && s.src[s.i] == '(' {
				s.i++
				s.scan()
				s.i-- // the loop steps over the bracket
			}
		}
	}
	s.i = min(s.i, len(s.src))
}

func (s *nameScanner) number() {
	for s.i < len(s.src) && (isDigit(s.src[s.i]) || s.src[s.i] == '.' || s.src[s.i]|0x20 == 'e') {
		s.i++
	}
}

func nameByte(c byte) bool { return c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' }

// name reads a name, with the module before it.
func (s *nameScanner) name() string {
	start := s.i
	for s.i < len(s.src) && (nameByte(s.src[s.i]) || isDigit(s.src[s.i]) ||
		s.src[s.i] == ':' && strings.HasPrefix(s.src[s.i:], "::")) {
		if s.src[s.i] == ':' {
			s.i++
		}
		s.i++
	}
	return s.src[start:s.i]
}

func isKeyword(name string) bool {
	return slices.Contains([]string{
		"or", "and", "module", "import", "include", "def", "as", "label", "break", "null", "true", "false",
		"if", "then", "elif", "else", "end", "try", "catch", "reduce", "foreach",
	}, name)
}

// lineAndColumn turns a byte offset into a place for people, both from 1; the
// column counts characters.
func lineAndColumn(src string, offset int) (line, col int) {
	before := src[:min(offset, len(src))]
	line = strings.Count(before, "\n") + 1
	return line, utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
}

// closest returns the known name that is most like name, or "".
func closest(name string, known []string) string {
	best, least := "", len(name)/3+1
	slices.Sort(known)
	for _, k := range known {
		if d := editDistance(name, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// editDistance counts the letters to insert, remove, change or swap with their
// neighbour to come from a to b.
func editDistance(a, b string) int {
	rows := [3][]int{make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)}
	for j := range rows[1] {
		rows[1][j] = j
	}
	for i := 1; i <= len(a); i++ {
		older, old, row := rows[0], rows[1], rows[2]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		rows = [3][]int{old, row, older}
	}
	return rows[1][len(b)]
}
