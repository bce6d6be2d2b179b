package mapping

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/bits"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxBodyBytes is the size of the largest event body.
const MaxBodyBytes = 16 << 20

// maxBodyDepth is the deepest nesting of an event body and of a record.
const maxBodyDepth = 200

// decode reads one JSON value into the tree that jq works on. Integers of up
// to 18 digits become int; every other number keeps its text as json.Number,
// so each is written again exactly as it came. Strings are parts of one copy
// of the body.
//
// A byte-order mark and blanks before the value are accepted. Invalid UTF-8
// and lone surrogates are replaced by U+FFFD, and replaced tells of it. A
// member that an object has twice is accepted where both values are equal and
// refused where they differ, because whichever a reader takes, another takes
// the other.
//
// Own code rather than a library: it checks members given twice, depth and
// trailing text in the same pass, and is faster to a generic tree than the
// decoders it was measured against (see docs/mapping.md).
func decode(body []byte) (v any, replaced bool, err error) {
	var d decoder
	return d.decode(body, nil)
}

// decode builds the parts of the value that are wanted, or all of it if that is nil.
func (d *decoder) decode(body []byte, wanted *part) (v any, replaced bool, err error) {
	if len(body) > MaxBodyBytes {
		return nil, false, &Error{Stage: stageBody, Msg: fmt.Sprintf("%d bytes long, more than %d", len(body), MaxBodyBytes)}
	}
	defer d.release()
	if wanted != nil && !wanted.whole {
		if v, ok := d.decodePart(body, wanted); ok {
			return v, d.replaced, nil
		}
		d.release()
	}
	if utf8.Valid(body) {
		d.s = string(body)
	} else {
		d.s, d.replaced = string(bytes.ToValidUTF8(body, []byte("\uFFFD"))), true
	}
	d.skipStart()
	v, derr := d.document()
	if derr != nil {
		return nil, false, &Error{Stage: stageBody, Path: derr.path(), Msg: derr.text()}
	}
	return v, d.replaced, nil
}

// decodeText reads JSON out of a string of the program.
func decodeText(s string) (any, error) {
	d := decoder{s: strings.ToValidUTF8(s, "\uFFFD")}
	v, err := d.document()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %s", err.text())
	}
	return v, nil
}

// decoder may be used again; what it has made stays as it is.
type decoder struct {
	s        string
	i        int
	replaced bool
	items    []any    // parts of the arrays and objects being read
	names    []string // member names of the objects being read
}

// maxKept is how many parts a decoder keeps room for from one body to the next.
const maxKept = 1024

// release makes the decoder ready for another body and keeps nothing of this one.
func (d *decoder) release() {
	items, names := d.items, d.names
	*d = decoder{}
	if cap(items) <= maxKept && cap(names) <= maxKept {
		clear(items) // of a body that could not be read
		clear(names[:cap(names)])
		d.items, d.names = items[:0], names[:0]
	}
}

// decodeError is where and why a body could not be read. where is filled from
// the inside out while the error goes up.
type decodeError struct {
	msg    string
	offset int
	where  []string
}

func (e *decodeError) text() string { return fmt.Sprintf("%s at byte %d", e.msg, e.offset) }

func (e *decodeError) path() string {
	slices.Reverse(e.where)
	return joinPath(e.where)
}

func (d *decoder) fail(msg string) *decodeError {
	return &decodeError{msg: msg, offset: d.i}
}

const byteOrderMark = "\uFEFF"

func (d *decoder) skipStart() {
	for {
		d.blanks()
		if !strings.HasPrefix(d.s[d.i:], byteOrderMark) {
			return
		}
		d.i += len(byteOrderMark)
	}
}

func (d *decoder) blanks() {
	for d.i < len(d.s) {
		switch d.s[d.i] {
		case ' ', '\t', '\n', '\r':
			d.i++
		default:
			return
		}
	}
}

func (d *decoder) document() (any, *decodeError) {
	d.blanks()
	if d.i == len(d.s) {
		return nil, d.fail("nothing there")
	}
	v, err := d.value(0)
	if err != nil {
		return nil, err
	}
	if d.blanks(); d.i < len(d.s) {
		return nil, d.fail("text after the end of the JSON value")
	}
	return v, nil
}

func (d *decoder) value(depth int) (any, *decodeError) {
	d.blanks()
	if d.i == len(d.s) {
		return nil, d.fail("ends too early")
	}
	switch c := d.s[d.i]; c {
	case '{':
		return d.object(depth)
	case '[':
		return d.array(depth)
	case '"':
		return d.str()
	case 't':
		return d.word("true", true)
	case 'f':
		return d.word("false", false)
	case 'n':
		return d.word("null", nil)
	default:
		if c == '-' || isDigit(c) {
			return d.number()
		}
		return nil, d.fail("not JSON")
	}
}

func (d *decoder) word(w string, v any) (any, *decodeError) {
	if !strings.HasPrefix(d.s[d.i:], w) {
		return nil, d.fail("not JSON")
	}
	d.i += len(w)
	return v, nil
}

func (d *decoder) object(depth int) (any, *decodeError) {
	if depth >= maxBodyDepth {
		return nil, d.fail("nested deeper than 200 levels")
	}
	d.i++
	if d.blanks(); d.i < len(d.s) && d.s[d.i] == '}' {
		d.i++
		return map[string]any{}, nil
	}
	firstItem, firstName := len(d.items), len(d.names)
	for {
		name, err := d.member(depth)
		if err != nil {
			return nil, err
		}
		d.names = append(d.names, name)
		more, err := d.next('}')
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	m, err := d.fill(d.names[firstName:], d.items[firstItem:])
	clear(d.items[firstItem:])
	d.items, d.names = d.items[:firstItem], d.names[:firstName]
	return m, err
}

// member reads a name, a colon and a value, and puts the value on d.items.
func (d *decoder) member(depth int) (string, *decodeError) {
	if d.blanks(); d.i == len(d.s) || d.s[d.i] != '"' {
		return "", d.fail("a member name in quotes is missing")
	}
	name, err := d.text()
	if err != nil {
		return "", err
	}
	if d.blanks(); d.i == len(d.s) || d.s[d.i] != ':' {
		return "", d.fail("a colon is missing")
	}
	d.i++
	v, err := d.value(depth + 1)
	if err != nil {
		err.where = append(err.where, pathMember(name))
		return "", err
	}
	d.items = append(d.items, v)
	return name, nil
}

func (d *decoder) fill(names []string, items []any) (any, *decodeError) {
	m := make(map[string]any, len(names))
	for i, name := range names {
		m[name] = items[i]
		if len(m) == i+1 {
			continue
		}
		return d.fillTwice(names, items)
	}
	return m, nil
}

// fillTwice makes an object that has at least one member twice.
func (d *decoder) fillTwice(names []string, items []any) (any, *decodeError) {
	m := make(map[string]any, len(names))
	for i, name := range names {
		if was, ok := m[name]; ok && !reflect.DeepEqual(was, items[i]) {
			err := d.fail("an object has this member twice, with different values; the object ends")
			err.where = append(err.where, pathMember(name))
			return nil, err
		}
		m[name] = items[i]
	}
	return m, nil
}

func (d *decoder) array(depth int) (any, *decodeError) {
	if depth >= maxBodyDepth {
		return nil, d.fail("nested deeper than 200 levels")
	}
	d.i++
	if d.blanks(); d.i < len(d.s) && d.s[d.i] == ']' {
		d.i++
		return []any{}, nil
	}
	first := len(d.items)
	for {
		v, err := d.value(depth + 1)
		if err != nil {
			err.where = append(err.where, pathIndex(len(d.items)-first))
			return nil, err
		}
		d.items = append(d.items, v)
		more, err := d.next(']')
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
	}
	a := append([]any(nil), d.items[first:]...)
	clear(d.items[first:])
	d.items = d.items[:first]
	return a, nil
}

// next reads the comma before another part, or the end of the array or object.
func (d *decoder) next(end byte) (more bool, err *decodeError) {
	if d.blanks(); d.i < len(d.s) {
		switch d.s[d.i] {
		case ',':
			d.i++
			return true, nil
		case end:
			d.i++
			return false, nil
		}
	}
	return false, d.fail(fmt.Sprintf("a comma or %q is missing", end))
}

func (d *decoder) number() (any, *decodeError) {
	start := d.i
	whole, err := d.numberEnd()
	if err != nil {
		return nil, err
	}
	text := d.s[start:d.i]
	if whole && len(strings.TrimPrefix(text, "-")) <= 18 && text != "-0" {
		n, _ := strconv.Atoi(text)
		return n, nil
	}
	return json.Number(text), nil
}

// numberEnd passes over a number, and tells whether it is without fraction and exponent.
func (d *decoder) numberEnd() (bool, *decodeError) {
	start, s := d.i, d.s
	i := start
	if s[i] == '-' {
		i++
	}
	first := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == first || s[first] == '0' && i > first+1 {
		return false, d.fail("not a JSON number")
	}
	whole := i
	if i < len(s) && s[i] == '.' {
		i = digitsFrom(s, i+1)
	}
	if i > 0 && i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		if i++; i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		i = digitsFrom(s, i)
	}
	if i < 0 {
		return false, d.fail("not a JSON number")
	}
	d.i = i
	return i == whole, nil
}

// digitsFrom passes over at least one digit, or returns -1.
func digitsFrom(s string, i int) int {
	first := i
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

func (d *decoder) str() (any, *decodeError) {
	s, err := d.text()
	if err != nil {
		return nil, err
	}
	return s, nil
}

// text reads a string; without escapes it is a part of the body's copy.
func (d *decoder) text() (string, *decodeError) {
	s, start := d.s, d.i+1
	i := plainEnd(s, start)
	switch {
	case i == len(s):
		return "", d.fail("a string has no end")
	case s[i] == '"':
		d.i = i + 1
		return s[start:i], nil
	case s[i] == '\\':
		return d.escaped(start, i)
	}
	d.i = i
	return "", d.fail("a control character in a string")
}

// plainEnd is where the first quote, backslash or control character stands
// from i on, or the end of s.
func plainEnd(s string, i int) int {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; i+8 <= len(s); i += 8 {
		b := s[i : i+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
			uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		quote, backslash := w^('"'*ones), w^('\\'*ones)
		// The lowest top bit that is set marks the first such byte.
		found := ((quote-ones)&^quote | (backslash-ones)&^backslash | (w-' '*ones)&^w) & tops
		if found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for ; i < len(s); i++ {
		if c := s[i]; c == '"' || c == '\\' || c < ' ' {
			break
		}
	}
	return i
}

func (d *decoder) escaped(start, i int) (string, *decodeError) {
	s := d.s
	b := append(make([]byte, 0, i-start+32), s[start:i]...)
	for i < len(s) {
		switch c := s[i]; {
		case c == '"':
			d.i = i + 1
			return string(b), nil
		case c < ' ':
			d.i = i
			return "", d.fail("a control character in a string")
		case c != '\\':
			b = append(b, c)
			i++
		case i+1 < len(s) && s[i+1] == 'u':
			r, size := d.unicodeEscape(s[i:])
			if size == 0 {
				d.i = i
				return "", d.fail("not an escape of JSON")
			}
			b = utf8.AppendRune(b, r)
			i += size
		default:
			c, ok := simpleEscape(s[i:])
			if !ok {
				d.i = i
				return "", d.fail("not an escape of JSON")
			}
			b = append(b, c)
			i += 2
		}
	}
	return "", d.fail("a string has no end")
}

func simpleEscape(s string) (byte, bool) {
	if len(s) < 2 {
		return 0, false
	}
	switch s[1] {
	case '"', '\\', '/':
		return s[1], true
	case 'b':
		return '\b', true
	case 'f':
		return '\f', true
	case 'n':
		return '\n', true
	case 'r':
		return '\r', true
	case 't':
		return '\t', true
	}
	return 0, false
}

// unicodeEscape reads \uXXXX or a surrogate pair of them; size 0 means that it
// is neither.
func (d *decoder) unicodeEscape(s string) (r rune, size int) {
	hi, ok := hexEscape(s)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(hi) {
		return hi, 6
	}
	if lo, ok := hexEscape(s[6:]); ok {
		if r := utf16.DecodeRune(hi, lo); r != utf8.RuneError {
			return r, 12
		}
	}
	d.replaced = true
	return utf8.RuneError, 6
}

func hexEscape(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 32)
	return rune(n), err == nil && s[2] != '+' && s[2] != '-'
}

func pathMember(name string) string {
	if isName(name) {
		return "." + name
	}
	if len(name) > 60 {
		name = truncateText(name, 60) + "…"
	}
	return "[" + strconv.Quote(name) + "]"
}

func pathIndex(i int) string { return "[" + strconv.Itoa(i) + "]" }

func isName(s string) bool {
	if s == "" || len(s) > 60 || isDigit(s[0]) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isDigit(c) && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return false
		}
	}
	return true
}
