package mapping

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxKeyBytes is the length of the longest key, in bytes of UTF-8 after
// normalisation.
const MaxKeyBytes = 512

// maxRawKeyBytes bounds the work done on a text that only shrinks to a key by
// losing blanks and invisible characters.
const maxRawKeyBytes = 16 << 10

// NormalizeKey returns the one normal form of a record's key, the form in
// which keys are stored, compared and looked up:
//
//   - Unicode NFC, so that a composed and a decomposed letter are one key;
//   - without zero-width characters (zero-width space and joiners, word joiner,
//     byte-order mark, soft hyphen, direction marks) anywhere;
//   - without Unicode white space, no-break space included, at both ends.
//
// Case is kept and full-width letters are not folded: "AbC9" and "aBc9" are
// two keys. A key that is empty, longer than [MaxKeyBytes], not valid UTF-8,
// holds a control character, or begins with '@' (reserved) is an error. The
// error never quotes the key. NormalizeKey of a normal form is that form.
func NormalizeKey(s string) (string, error) {
	if plainKey(s) {
		return s, nil
	}
	if len(s) > maxRawKeyBytes {
		return "", fmt.Errorf("key is longer than %d bytes; use fit_key(x; n) to shorten it", MaxKeyBytes)
	}
	if !utf8.ValidString(s) {
		return "", errors.New("key is not valid UTF-8")
	}
	s = strings.Map(dropInvisible, s)
	s = norm.NFC.String(strings.TrimFunc(s, unicode.IsSpace))
	switch {
	case s == "":
		return "", errors.New("key is empty")
	case len(s) > MaxKeyBytes:
		return "", fmt.Errorf("key is %d bytes long, more than %d; use fit_key(x; n) to shorten it", len(s), MaxKeyBytes)
	case s[0] == '@':
		return "", errors.New("key begins with '@', which is reserved; put a prefix before it")
	}
	if i := strings.IndexFunc(s, unicode.IsControl); i >= 0 {
		return "", fmt.Errorf("key holds the control character U+%04X at byte %d", firstRune(s[i:]), i)
	}
	return s, nil
}

// plainKey says whether s is printable ASCII and already in normal form, as
// nearly all keys are.
func plainKey(s string) bool {
	if s == "" || len(s) > MaxKeyBytes || s[0] == '@' || s[0] == ' ' || s[len(s)-1] == ' ' {
		return false
	}
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

func firstRune(s string) rune {
	r, _ := utf8.DecodeRuneInString(s)
	return r
}

// dropInvisible removes the characters that take no room on a screen, so that
// a pasted SKU with one inside is the SKU a person sees.
func dropInvisible(r rune) rune {
	if isInvisible(r) {
		return -1
	}
	return r
}

// isInvisible reports zero-width and direction-control characters of the
// Unicode category Cf. Variation selectors and the visible members of Cf
// (Arabic number signs) are not among them.
func isInvisible(r rune) bool {
	switch {
	case r < 0xad:
		return false
	case r == 0xad, // soft hyphen
		r == 0x61c,                 // Arabic letter mark
		r == 0x180e,                // Mongolian vowel separator
		r >= 0x200b && r <= 0x200f, // zero-width space, joiners, direction marks
		r >= 0x202a && r <= 0x202e, // embeddings and overrides
		r >= 0x2060 && r <= 0x206f, // word joiner, invisible operators, isolates
		r == 0xfeff:                // byte-order mark
		return true
	}
	return false
}
