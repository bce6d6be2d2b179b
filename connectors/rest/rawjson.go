package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"syncd/internal/jsonscan"
)

// raw is one valid JSON value as the server wrote it, without blanks around
// it. Values are cut out of the answer and never decoded into a tree, so that
// numbers keep their digits.
type raw []byte

var byteOrderMark = []byte("\xef\xbb\xbf")

var errEmptyBody = errors.New("the body is empty")

// parse takes an answer's whole body. A byte-order mark and blanks around the
// value are fine; anything else after it is not, because an answer with
// rubbish at its end may lack what should stand there.
func parse(body []byte) (raw, error) {
	body = bytes.TrimPrefix(body, byteOrderMark)
	body = bytes.Trim(body, " \t\r\n")
	if len(body) == 0 {
		return nil, errEmptyBody
	}
	if err := jsonscan.Valid(body); err != nil {
		return nil, notJSON(body, err)
	}
	return raw(body), nil
}

// notJSON says why a body cannot be read, and shows nothing of it: that may be
// somebody's order, or a page that greets somebody.
func notJSON(body []byte, err error) error {
	if body[0] == '<' {
		return fmt.Errorf("the body is not JSON but begins like HTML or XML: %d bytes", len(body))
	}
	return fmt.Errorf("the body is not JSON: %w of %d", err, len(body))
}

// kind is the first byte of the value, with '0' for all numbers and 'n' for no
// value at all.
func (v raw) kind() byte {
	if k := jsonscan.Kind(v); k != 0 {
		return k
	}
	return 'n'
}

func (v raw) isNull() bool { return v.kind() == 'n' }

// kindName names a value's kind for errors.
func (v raw) kindName() string {
	switch v.kind() {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case '0':
		return "a number"
	case 'n':
		return "null"
	}
	return "true or false"
}

var errEnough = errors.New("enough")

// members calls f for each member of an object until f returns false.
func (v raw) members(f func(key string, val raw) bool) {
	_ = jsonscan.Object(v, func(key, val []byte) error { // v is valid; what is no object has no members
		if !f(string(key), val) {
			return errEnough
		}
		return nil
	})
}

// elements calls f for each element of a list until f returns false.
func (v raw) elements(f func(val raw) bool) {
	_ = jsonscan.Array(v, func(val []byte) error {
		if !f(val) {
			return errEnough
		}
		return nil
	})
}

// member returns the member of that name. A name that stands twice is an
// error: readers differ in which of the two counts.
func (v raw) member(name string) (val raw, found bool, err error) {
	n := 0
	v.members(func(key string, x raw) bool {
		if key == name {
			val = x
			n++
		}
		return true
	})
	if n > 1 {
		return nil, false, fmt.Errorf("%q stands twice in one object", name)
	}
	return val, n == 1, nil
}

func (v raw) element(n int) (val raw, found bool) {
	i := 0
	v.elements(func(x raw) bool {
		if i == n {
			val, found = x, true
		}
		i++
		return !found
	})
	return val, found
}

// list returns the elements of a list. An object whose names are all whole
// numbers counts as one, in the order of the numbers: servers written in PHP
// send a list with a gap in it like that. null is an empty list.
func (v raw) list() ([]raw, error) {
	switch v.kind() {
	case 'n':
		return nil, nil
	case '[':
		var l []raw
		v.elements(func(x raw) bool { l = append(l, x); return true })
		return l, nil
	case '{':
		return v.numberedList()
	}
	return nil, fmt.Errorf("expected a list, not %s", v.kindName())
}

// longerThan tells whether a list, or an object in place of one, has more than n
// elements. It counts no further.
func (v raw) longerThan(n int) bool {
	count := 0
	v.elements(func(raw) bool { count++; return count <= n })
	v.members(func(string, raw) bool { count++; return count <= n })
	return count > n
}

func (v raw) numberedList() ([]raw, error) {
	type item struct {
		n   uint64
		val raw
	}
	var items []item
	var err error
	v.members(func(key string, x raw) bool {
		var n uint64
		if n, err = strconv.ParseUint(key, 10, 64); err != nil {
			err = fmt.Errorf("expected a list, not an object with the member %q", cut(key, 40))
			return false
		}
		items = append(items, item{n, x})
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(items, func(a, b item) int {
		switch {
		case a.n < b.n:
			return -1
		case a.n > b.n:
			return 1
		}
		return 0
	})
	l := make([]raw, len(items))
	for i, it := range items {
		l[i] = it.val
	}
	return l, nil
}

// text returns the value as an opaque text: a string as it is, a number by its
// digits as written, so that 9007199254740993 and "9007199254740993" are the
// same. Other values have no text.
func (v raw) text() (string, bool) {
	if k := v.kind(); k != '"' && k != '0' {
		return "", false
	}
	return jsonscan.Scalar(v)
}

// word is text that also knows true and false, to compare a field with what a
// configuration says.
func (v raw) word() string {
	s, _ := jsonscan.Scalar(v)
	return s
}

// empty tells whether a value holds nothing: null, false, an empty text, list or
// object. 0 is something.
func (v raw) empty() bool {
	switch v.kind() {
	case '"':
		return v.word() == ""
	case '0':
		return false
	}
	return !v.truthy()
}

// truthy tells whether a value says yes: anything but null, false, 0, an empty
// text, list or object.
func (v raw) truthy() bool {
	switch v.kind() {
	case 'n', 'f':
		return false
	case '"':
		s := v.word()
		return s != "" && s != "0" && s != "false"
	case '0':
		return strings.Trim(string(v), "-0.") != ""
	case '[', '{':
		return len(bytes.Trim(v, "[]{} \t\r\n")) > 0
	}
	return true
}

// quote encodes a JSON string.
func quote(s string) raw { return jsonscan.AppendQuoted(nil, s) }

// object writes an object with sorted names, its values as they are.
func object(m map[string]raw) raw {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	b := []byte{'{'}
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = jsonscan.AppendQuoted(b, name)
		b = append(b, ':')
		b = append(b, m[name]...)
	}
	return append(b, '}')
}

// asMap returns an object's members. Of a name that stands twice the last counts.
func (v raw) asMap() map[string]raw {
	m := map[string]raw{}
	v.members(func(key string, x raw) bool { m[key] = x; return true })
	return m
}

// scalarLink makes a link of an id: a JSON scalar in its shortest form.
func scalarLink(v raw) (link string, ok bool) {
	t, ok := v.text()
	if !ok || t == "" {
		return "", false
	}
	if v.kind() == '0' {
		return string(v), true
	}
	return string(quote(t)), true
}

// linkText is the text of a link, as it goes into a path.
func linkText(link string) (string, error) {
	v, err := parse(json.RawMessage(link))
	if err == nil {
		if t, ok := v.text(); ok && t != "" {
			return t, nil
		}
	}
	return "", errors.New("the stored link is neither a number nor a text")
}

// cut shortens a text to n runes, on one line, for people to read.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "?")), " ")
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
