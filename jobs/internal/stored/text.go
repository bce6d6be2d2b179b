package stored

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// escape begins the stored form of a byte that text columns cannot hold.
// PostgreSQL refuses NUL and whatever is no UTF-8 in text; ids and keys may hold
// any byte, and one odd id must not stop the page it came on.
const escape = 0x1a

const hexDigits = "0123456789abcdef"

// ID returns the stored form of an id or key. NUL, 0x1a and bytes that are not
// UTF-8 become 0x1a and two hexadecimal digits; all else stays as it is, so the
// stored form of an ordinary id is the id. Different ids have different forms.
func ID(s string) string {
	i := firstOdd(s)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 8)
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == 0 || r == escape || r == utf8.RuneError && n == 1 {
			b.WriteByte(escape)
			b.WriteByte(hexDigits[s[i]>>4])
			b.WriteByte(hexDigits[s[i]&15])
		} else {
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// firstOdd is the place of the first byte that has to be escaped; -1 for none.
func firstOdd(s string) int {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == 0 || c == escape:
			return i
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				return i
			}
			i += n - 1
		}
	}
	return -1
}

// ParseID returns the id of a stored form.
func ParseID(s string) (string, error) {
	i := strings.IndexByte(s, escape)
	if i < 0 {
		return s, nil
	}
	var b strings.Builder
	b.Grow(len(s))
	for i >= 0 {
		b.WriteString(s[:i])
		if len(s) < i+3 {
			return "", fmt.Errorf("read a stored id: it ends within an escaped byte")
		}
		hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
		if hi < 0 || lo < 0 {
			return "", fmt.Errorf("read a stored id: it has a damaged escaped byte")
		}
		b.WriteByte(byte(hi<<4 | lo))
		s = s[i+3:]
		i = strings.IndexByte(s, escape)
	}
	b.WriteString(s)
	return b.String(), nil
}

// IDs are the stored forms of ss, in order; ss itself when nothing is to change.
func IDs(ss []string) []string {
	for i, s := range ss {
		if firstOdd(s) >= 0 {
			out := append([]string(nil), ss...)
			for j := i; j < len(out); j++ {
				out[j] = ID(out[j])
			}
			return out
		}
	}
	return ss
}

// Message returns what a column for people can hold of a text: without NUL, and
// with U+FFFD for what is not UTF-8. Unlike an id it need not be read back exactly.
func Message(s string) string {
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", "")
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
