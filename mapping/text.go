package mapping

import (
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/text/unicode/norm"
)

// textArg reads the text of a function's first argument: a string as it is, a
// number with its digits.
func textArg(v any) (string, error) {
	if s, ok := v.(string); ok {
		return s, nil
	}
	if s, ok := numberText(v); ok {
		return s, nil
	}
	return "", fmt.Errorf("a string was expected but there is %s", typeName(v))
}

// optionalText is textArg for functions that pass null through: a field that
// may be missing stays missing.
func optionalText(v any) (s string, null bool, err error) {
	if v == nil {
		return "", true, nil
	}
	s, err = textArg(v)
	return s, false, err
}

func limitArg(v any, least int) (int, error) {
	n, ok := asInt(v)
	if !ok || n < least {
		return 0, fmt.Errorf("the length must be a whole number from %d", least)
	}
	return n, nil
}

func fnTrimKey(_ *run, _ any, args []any) (any, error) {
	text, err := keyText(args[0])
	if err != nil {
		return nil, err
	}
	key, err := NormalizeKey(text)
	if err != nil {
		return nil, err
	}
	return key, nil
}

// truncateFn makes truncate, truncate_bytes and truncate_utf16, which differ
// in how much of the limit a character uses.
func truncateFn(size func(rune) int) callFunc {
	return func(r *run, _ any, args []any) (any, error) {
		s, null, err := optionalText(args[0])
		if err != nil || null {
			return nil, err
		}
		n, err := limitArg(args[1], 0)
		if err != nil {
			return nil, err
		}
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
		return cut(s, n, size), nil
	}
}

func oneEach(rune) int { return 1 }

func utf16Units(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}

func truncateText(s string, n int) string { return cut(s, n, oneEach) }

// cut returns the longest start of s whose characters' sizes sum to at most
// limit and that does not end inside a cluster: a letter keeps its accents, an
// emoji its skin tone and the parts joined to it, a flag its second half.
func cut(s string, limit int, size func(rune) int) string {
	var (
		used, keep int // keep: the last place where cutting does no harm
		prev       rune
		flags      int // regional indicators in a row before this place
	)
	for i, r := range s {
		if !joins(prev, r, flags) {
			keep = i
		}
		if used += size(r); used > limit {
			return s[:keep]
		}
		if isRegional(r) {
			flags++
		} else {
			flags = 0
		}
		prev = r
	}
	return s
}

// joins reports whether r belongs to what stands before it.
func joins(prev, r rune, flags int) bool {
	const zeroWidthJoiner = 0x200d
	switch {
	case prev == 0:
		return false
	case unicode.Is(unicode.M, r), // accents, vowel signs, variation selectors
		r == zeroWidthJoiner, prev == zeroWidthJoiner,
		r >= 0x1f3fb && r <= 0x1f3ff, // skin tones
		r >= 0xe0020 && r <= 0xe007f, // tags of regional flags
		prev == '\r' && r == '\n':
		return true
	}
	return isRegional(r) && flags%2 == 1
}

func isRegional(r rune) bool { return r >= 0x1f1e6 && r <= 0x1f1ff }

// hashLetters is the length of the hash that fit_key appends: 80 bits.
const hashLetters = 16

// minFitKey leaves room for the hash, the dash before it and some of the key.
const minFitKey = hashLetters + 8

// fnFitKey shortens a key to n bytes. Two long keys that begin alike get
// different hashes, so they never meet, as they would if both were cut.
func fnFitKey(r *run, _ any, args []any) (any, error) {
	text, err := keyText(args[0])
	if err != nil {
		return nil, err
	}
	n, err := limitArg(args[1], minFitKey)
	if err != nil {
		return nil, err
	}
	if n > MaxKeyBytes {
		return nil, fmt.Errorf("the length must be at most %d", MaxKeyBytes)
	}
	if err := r.text(len(text)); err != nil {
		return nil, err
	}
	whole, err := normalizeLong(text)
	if err != nil {
		return nil, err
	}
	if len(whole) <= n {
		return whole, nil
	}
	sum := sha256.Sum256([]byte(whole))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
	return cut(whole, n-hashLetters-1, utf8.RuneLen) + "-" + hash, nil
}

// normalizeLong is NormalizeKey without the limit on length.
func normalizeLong(s string) (string, error) {
	if len(s) <= MaxKeyBytes {
		return NormalizeKey(s)
	}
	if !utf8.ValidString(s) {
		return "", errors.New("key is not valid UTF-8")
	}
	s = norm.NFC.String(strings.TrimFunc(strings.Map(dropInvisible, s), unicode.IsSpace))
	head, err := NormalizeKey(cut(s, MaxKeyBytes, utf8.RuneLen))
	if err != nil {
		return "", err
	}
	if hasControl(s) {
		return "", errors.New("key holds a control character")
	}
	if len(s) <= MaxKeyBytes {
		return head, nil
	}
	return s, nil
}

// fnStripAstral removes what three-byte UTF-8 columns cannot hold.
func fnStripAstral(r *run, _ any, args []any) (any, error) {
	s, null, err := optionalText(args[0])
	if err != nil || null {
		return nil, err
	}
	if err := r.text(len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	dropped := false
	for _, c := range s {
		switch {
		case c > 0xffff:
			dropped = true
		case dropped && (c == 0x200d || c == 0xfe0f):
			// a joiner or selector of the emoji that is gone
		default:
			b.WriteRune(c)
			dropped = false
		}
	}
	return b.String(), nil
}

func fnSlug(r *run, _ any, args []any) (any, error) {
	s, err := textArg(args[0])
	if err != nil {
		return nil, err
	}
	if err := r.text(4 * len(s)); err != nil {
		return nil, err
	}
	var b strings.Builder
	dash := false
	for _, c := range norm.NFKD.String(s) {
		if unicode.Is(unicode.Mn, c) {
			continue
		}
		part := asciiOf(unicode.ToLower(c))
		if part == "" {
			dash = b.Len() > 0
			continue
		}
		if dash {
			b.WriteByte('-')
			dash = false
		}
		b.WriteString(part)
	}
	if b.Len() == 0 {
		return nil, errors.New("nothing of the string is left: it has no letter that becomes a to z, and no digit")
	}
	return b.String(), nil
}

// asciiOf gives the letters that stand for a lower-case letter without an
// accent; those that Unicode does not decompose are listed.
func asciiOf(c rune) string {
	if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
		return string(c)
	}
	switch c {
	case 'ß', 'ẞ':
		return "ss"
	case 'æ':
		return "ae"
	case 'œ':
		return "oe"
	case 'ø':
		return "o"
	case 'đ', 'ð':
		return "d"
	case 'ł':
		return "l"
	case 'þ':
		return "th"
	case 'ħ':
		return "h"
	case 'ı':
		return "i"
	case 'ŧ':
		return "t"
	case 'ŋ':
		return "n"
	}
	return ""
}

// fnUUID5 derives a name-based UUID (RFC 9562, version 5). The namespace is a
// UUID, or any other text, which then stands for its own UUID under the URL
// namespace of the standard.
func fnUUID5(r *run, _ any, args []any) (any, error) {
	space, err := textArg(args[0])
	if err != nil {
		return nil, fmt.Errorf("namespace: %w", err)
	}
	name, err := textArg(args[1])
	if err != nil {
		return nil, fmt.Errorf("name: %w", err)
	}
	if space == "" || name == "" {
		return nil, errors.New("the namespace and the name must not be empty")
	}
	if err := r.spend((len(space) + len(name)) / 16); err != nil {
		return nil, err
	}
	id, err := uuid.Parse(space)
	if err != nil || len(space) != 36 {
		id = uuid.NewSHA1(uuid.NameSpaceURL, []byte(space))
	}
	return uuid.NewSHA1(id, []byte(name)).String(), nil
}

// fnFail ends the mapping of the event with the author's own words.
func fnFail(_ *run, _ any, args []any) (any, error) {
	s, err := textArg(args[0])
	if err != nil {
		return nil, fmt.Errorf("the message: %w", err)
	}
	s = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if s = strings.TrimSpace(truncateText(s, 500)); s == "" {
		s = "fail was called without a message"
	}
	return nil, &ownWords{s}
}
