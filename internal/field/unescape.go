package field

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// maxDepth is how many escapes upon another are undone, maxVersions how many texts are looked at.
	maxDepth    = 4
	maxVersions = 60
)

// version is what a text stands for when escapes in it are undone.
type version struct {
	text string
	// from tells for each byte of text, and for its end, where in the original it comes from; nil for the original itself.
	from []int
}

func (v version) at(i int) int {
	if v.from == nil {
		return i
	}
	return v.from[i]
}

// versions are a text and all that it stands for when percent-encoding and the escapes of JSON, Go and HTML are undone, once or
// several times, in any order.
func versions(text string) []version {
	all := []version{{text: text}}
	seen := map[string]bool{text: true}
	for depth, next := 0, 0; depth < maxDepth; depth++ {
		last := len(all)
		for ; next < last; next++ {
			for _, undo := range []func(string) (string, int){percent, form, backslash, entity} {
				v, changed := all[next].undone(undo)
				if changed && !seen[v.text] && len(all) < maxVersions {
					seen[v.text] = true
					all = append(all, v)
				}
			}
		}
	}
	return all
}

// undone undoes one kind of escape. undo reads the escape that a text begins with, and how long it is; 0 for none.
func (v version) undone(undo func(string) (string, int)) (w version, changed bool) {
	if !strings.ContainsAny(v.text, `%+\&`) {
		return v, false
	}
	var b strings.Builder
	for i := 0; i < len(v.text); {
		is, took := v.text[i:i+1], 1
		if c := is[0]; c == '%' || c == '+' || c == '\\' || c == '&' {
			if x, n := undo(v.text[i:]); n > 0 {
				is, took, changed = x, n, true
			}
		}
		for range len(is) {
			w.from = append(w.from, v.at(i))
		}
		b.WriteString(is)
		i += took
	}
	w.text, w.from = b.String(), append(w.from, v.at(len(v.text)))
	return w, changed
}

// percent reads %41.
func percent(s string) (string, int) {
	if s[0] != '%' || len(s) < 3 || !isHex(s[1:3]) {
		return "", 0
	}
	return octet(s[1:3]), 3
}

// form is percent where a plus sign stands for a blank.
func form(s string) (string, int) {
	if s[0] == '+' {
		return " ", 1
	}
	return percent(s)
}

// backslash reads the escapes of JSON and of Go.
func backslash(s string) (string, int) {
	if s[0] != '\\' || len(s) < 2 {
		return "", 0
	}
	switch c := s[1]; c {
	case '"', '\'', '/', '\\':
		return s[1:2], 2
	case 'x':
		if len(s) >= 4 && isHex(s[2:4]) {
			return octet(s[2:4]), 4
		}
		return "", 0
	case 'u':
		r, ok := unit(s)
		if !ok {
			return "", 0
		}
		if low, ok := unit(s[6:]); ok && utf16.IsSurrogate(r) {
			return string(utf16.DecodeRune(r, low)), 12
		}
		return string(r), 6
	case 'U':
		if len(s) >= 10 && isHex(s[2:10]) {
			n, _ := strconv.ParseUint(s[2:10], 16, 32)
			return string(rune(n)), 10
		}
		return "", 0
	default:
		if i := strings.IndexByte("abfnrtv", c); i >= 0 {
			return "\a\b\f\n\r\t\v"[i : i+1], 2
		}
		return "", 0
	}
}

// unit reads \u0041.
func unit(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` || !isHex(s[2:6]) {
		return 0, false
	}
	n, _ := strconv.ParseUint(s[2:6], 16, 16)
	return rune(n), true
}

// entity reads &amp;, &#38; and &#x26;.
func entity(s string) (string, int) {
	if s[0] != '&' {
		return "", 0
	}
	end := strings.IndexByte(s[:min(len(s), 12)], ';')
	if end < 2 {
		return "", 0
	}
	is := html.UnescapeString(s[:end+1])
	if utf8.RuneCountInString(is) != 1 {
		return "", 0
	}
	return is, end + 1
}

func octet(digits string) string {
	n, _ := strconv.ParseUint(digits, 16, 8)
	return string([]byte{byte(n)})
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// brokenEscape is an escape of which the end was cut off.
var brokenEscape = regexp.MustCompile(`(?:%[0-9A-Fa-f]?|\\(?:u[0-9A-Fa-f]{0,3}|x[0-9A-Fa-f]?|U[0-9A-Fa-f]{0,7})?|&#?[0-9A-Za-z]{0,10})$`)
