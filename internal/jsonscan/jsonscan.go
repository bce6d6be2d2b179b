// Package jsonscan walks JSON text without building anything from it: it checks the
// grammar of RFC 8259 strictly, and hands out the members of an object as slices of
// the input, so that digits, escapes and the order of keys stay as they were written.
// Connectors use it where a record passes through as a whole and only a few of its
// fields are looked at.
package jsonscan

import (
	"fmt"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may be nested.
const MaxDepth = 1000

// Error says where and why a text is not what was asked for. It repeats nothing of the text.
type Error struct {
	// Offset is the position in bytes, from 0.
	Offset int
	What   string
}

func (e *Error) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.Offset) }

// Valid returns an error unless data is one JSON value in UTF-8, with blanks around it at most.
func Valid(data []byte) error {
	if err := validUTF8(data); err != nil {
		return err
	}
	i, err := skipValue(data, skipSpace(data, 0), 0)
	if err != nil {
		return err
	}
	return end(data, i)
}

// Object calls f for each member of the object that data holds, in order. The key is
// decoded and may be kept only as a copy; the value is a slice of data, checked, without blanks around it. An
// error of f ends the walk and is returned. A key that occurs twice is handed out twice.
func Object(data []byte, f func(key, value []byte) error) error {
	return walk(data, '{', f)
}

// Array calls f for each element of the array that data holds, in order, in the manner of Object.
func Array(data []byte, f func(value []byte) error) error {
	return walk(data, '[', func(_, value []byte) error { return f(value) })
}

// Kind tells what a checked value is: '{', '[', '"', 't', 'f' or 'n' by its first byte, '0' for a number, and 0 for nothing.
func Kind(value []byte) byte {
	if len(value) == 0 {
		return 0
	}
	if c := value[0]; c != '-' && (c < '0' || c > '9') {
		return c
	}
	return '0'
}

func walk(data []byte, open byte, f func(key, value []byte) error) error {
	if err := validUTF8(data); err != nil {
		return err
	}
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != open {
		if open == '[' {
			return &Error{i, "not an array"}
		}
		return &Error{i, "not an object"}
	}
	i, err := members(data, i, 0, f)
	if err != nil {
		return err
	}
	return end(data, i)
}

func end(data []byte, i int) error {
	if i = skipSpace(data, i); i < len(data) {
		return &Error{i, "something follows the value"}
	}
	return nil
}

func validUTF8(data []byte) error {
	if utf8.Valid(data) {
		return nil
	}
	for i := 0; ; {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n <= 1 {
			return &Error{i, "not UTF-8"}
		}
		i += n
	}
}

// members reads the object or array that begins at data[i], and returns where it ends. f may be nil.
func members(data []byte, i, depth int, f func(key, value []byte) error) (int, error) {
	if depth >= MaxDepth {
		return i, &Error{i, fmt.Sprintf("nested deeper than %d", MaxDepth)}
	}
	object := data[i] == '{'
	closing := data[i] + 2 // in ASCII, } and ] follow their openings by two
	i = skipSpace(data, i+1)
	if i < len(data) && data[i] == closing {
		return i + 1, nil
	}
	for {
		var key []byte
		var err error
		if object {
			start, end := i, 0
			if end, i, err = skipName(data, i); err != nil {
				return i, err
			}
			if f != nil {
				key = unquoted(data[start:end])
			}
		}
		start := i
		if i, err = skipValue(data, i, depth+1); err != nil {
			return i, err
		}
		if f != nil {
			if err := f(key, data[start:i:i]); err != nil {
				return i, err
			}
		}
		i = skipSpace(data, i)
		switch {
		case i < len(data) && data[i] == ',':
			i = skipSpace(data, i+1)
		case i < len(data) && data[i] == closing:
			return i + 1, nil
		case object:
			return i, &Error{i, "expected a comma or the end of the object"}
		default:
			return i, &Error{i, "expected a comma or the end of the array"}
		}
	}
}
