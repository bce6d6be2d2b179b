package connectors

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// IDProblem says of a text why it cannot be the id of a source's record, as in "is
// blank"; "" if it can. An id is opaque, and blanks at its ends are part of it. But one with
// nothing to be seen in it belongs to no record, and one that holds something that
// cannot be seen looks like another record's: a byte-order mark or a line end that
// comes today and not tomorrow would make two records of one.
func IDProblem(id string) string {
	if BlankID(id) {
		return "is blank"
	}
	for i, r := range id {
		switch {
		case r == utf8.RuneError && strings.HasPrefix(id[i:], "\uFFFD"):
			return fmt.Sprintf("holds U+FFFD as its byte %d, which stands for a character that could not be read; correct the encoding at the source", i+1)
		case joins(r) && i > 0 && i+utf8.RuneLen(r) < len(id):
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return fmt.Sprintf("holds a character that cannot be seen, %U as its byte %d; correct it at the source", r, i+1)
		}
	}
	return ""
}

// BlankID tells whether nothing is to be seen in an id.
func BlankID(id string) bool {
	return !strings.ContainsFunc(id, func(r rune) bool {
		return !unicode.IsSpace(r) && !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Z)
	})
}

// joins tells whether a character, although not to be seen, belongs to the
// spelling of words in some scripts: the zero-width joiner and non-joiner.
func joins(r rune) bool { return r == '\u200c' || r == '\u200d' }
