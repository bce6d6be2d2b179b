package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// skipName reads a key with its quotes and returns where it ends, and where the member's value begins.
func skipName(data []byte, i int) (end, value int, err error) {
	if i >= len(data) || data[i] != '"' {
		return i, i, &Error{i, "expected a key"}
	}
	if end, err = skipString(data, i+1); err != nil {
		return end, end, err
	}
	if i = skipSpace(data, end); i >= len(data) || data[i] != ':' {
		return i, i, &Error{i, "expected a colon"}
	}
	return end, skipSpace(data, i+1), nil
}

// skipValue checks the value at data[i] and returns where it ends.
func skipValue(data []byte, i, depth int) (int, error) {
	if i >= len(data) {
		return i, &Error{i, "expected a value"}
	}
	switch c := data[i]; c {
	case '{', '[':
		return members(data, i, depth, nil)
	case '"':
		return skipString(data, i+1)
	case 't':
		return skipWord(data, i, "true")
	case 'f':
		return skipWord(data, i, "false")
	case 'n':
		return skipWord(data, i, "null")
	default:
		if c == '-' || c >= '0' && c <= '9' {
			return skipNumber(data, i)
		}
		return i, &Error{i, "expected a value"}
	}
}

func skipWord(data []byte, i int, word string) (int, error) {
	if len(data)-i < len(word) || string(data[i:i+len(word)]) != word {
		return i, &Error{i, "expected a value"}
	}
	return i + len(word), nil
}

func skipNumber(data []byte, i int) (int, error) {
	start := i
	if data[i] == '-' {
		i++
	}
	if i < len(data) && data[i] == '0' {
		i++
	} else if n := skipDigits(data, i); n > i {
		i = n
	} else {
		return i, &Error{start, "not a number"}
	}
	if i < len(data) && data[i] == '.' {
		n := skipDigits(data, i+1)
		if n == i+1 {
			return i, &Error{start, "not a number"}
		}
		i = n
	}
	if i < len(data) && data[i]|0x20 == 'e' {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		n := skipDigits(data, i)
		if n == i {
			return i, &Error{start, "not a number"}
		}
		i = n
	}
	if i < len(data) && data[i] >= '0' && data[i] <= '9' {
		return i, &Error{start, "a number with a leading zero"}
	}
	return i, nil
}

func skipDigits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// special has the high bit of each byte of v set that is a quote, a backslash or
// a control character; only the lowest bit that is set can be trusted. It is the
// well-known test for a byte less than n, (v - n·ones) &^ v & highs, see
// https://graphics.stanford.edu/~seander/bithacks.html#ZeroInWord.
func special(v uint64) uint64 {
	quote := v ^ ones*'"'
	slash := v ^ ones*'\\'
	return ((v-ones*0x20)&^v | (quote-ones)&^quote | (slash-ones)&^slash) & highs
}

// skipString reads a string after its opening quote and returns where it ends, after its closing one.
func skipString(data []byte, i int) (int, error) {
	for {
		for len(data)-i >= 8 {
			if m := special(binary.LittleEndian.Uint64(data[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(data) {
			return i, &Error{i, "a string without its end"}
		}
		switch c := data[i]; {
		case c == '"':
			return i + 1, nil
		case c == '\\':
			n := escapeLen(data[i:])
			if n == 0 {
				return i, &Error{i, "not an escape"}
			}
			i += n
		case c < 0x20:
			return i, &Error{i, "a control character in a string"}
		default:
			i++
		}
	}
}

// escapeLen is the length of the escape at the beginning of s, or 0 if it is none.
func escapeLen(s []byte) int {
	if len(s) < 2 {
		return 0
	}
	switch s[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(s); ok {
			return 6
		}
	}
	return 0
}

// hex4 is the number in \uXXXX at the beginning of s.
func hex4(s []byte) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s[2:6] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
