package jsonscan

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns the text of a checked string value. A lone half of a surrogate pair becomes U+FFFD.
func Text(value []byte) string { return string(unquoted(value)) }

// Scalar returns a checked scalar as text: that of a string, the digits of a number as they are, true or false.
// ok is false for null, arrays and objects.
func Scalar(value []byte) (text string, ok bool) {
	switch Kind(value) {
	case '"':
		return Text(value), true
	case '0', 't', 'f':
		return string(value), true
	}
	return "", false
}

// unquoted decodes a checked string. Without escapes it is a slice of its argument.
func unquoted(quoted []byte) []byte {
	s := quoted[1 : len(quoted)-1]
	i := bytes.IndexByte(s, '\\')
	if i < 0 {
		return s[:len(s):len(s)]
	}
	out := make([]byte, 0, len(s))
	for i >= 0 {
		out = append(out, s[:i]...)
		r, n := unescape(s[i:])
		out = utf8.AppendRune(out, r)
		s = s[i+n:]
		i = bytes.IndexByte(s, '\\')
	}
	return append(out, s...)
}

// unescape decodes the escape at the beginning of s, which was checked, and tells its length.
func unescape(s []byte) (rune, int) {
	switch s[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ := hex4(s)
		if !utf16.IsSurrogate(r) {
			return r, 6
		}
		if low, ok := hex4(s[6:]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return both, 12
			}
		}
		return utf8.RuneError, 6
	}
	return rune(s[1]), 2
}

// AppendQuoted appends text as a JSON string. What is not UTF-8 becomes U+FFFD.
func AppendQuoted(dst []byte, text string) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(text); {
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(text[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, text[start:i]...)
				dst = utf8.AppendRune(dst, utf8.RuneError)
				start = i + 1
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, text[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, text[start:]...), '"')
}
