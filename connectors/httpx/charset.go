package httpx

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// toUTF8 writes a body in UTF-8 that says to be in another charset. A charset that
// is not known, or bytes that are not of it, are an error: a text that was read in
// another way than it was written must not be passed on. A body without the name
// of a charset, or in UTF-8, is given back as it is, whatever its bytes.
func toUTF8(body []byte, charset string) ([]byte, *bodyError) {
	name := strings.ToLower(strings.Trim(charset, " \t'\""))
	if len(body) == 0 || name == "" || isUTF8(name) {
		return body, nil
	}
	from := decoding(name)
	if from == nil {
		return body, &bodyError{code: "charset", detail: fmt.Sprintf("the answer is in %s, which cannot be read; have the server send UTF-8", charsetName(name))}
	}
	if canonical, err := htmlindex.Name(from); err == nil && canonical == "windows-1252" && utf8.Valid(body) {
		// Many servers name ISO 8859-1 or ASCII by default and send UTF-8, as JSON
		// must be, where the name of a charset has no effect
		// (https://www.rfc-editor.org/rfc/rfc8259#section-11). The other way round,
		// a text in ISO 8859-1 with such letters is hardly ever proper UTF-8.
		return body, nil
	}
	out, err := from.NewDecoder().Bytes(body)
	if err == nil && bytes.ContainsRune(out, utf8.RuneError) {
		// What stands for bytes that mean nothing, unless the text itself holds it.
		var back []byte
		if back, err = from.NewEncoder().Bytes(out); err == nil && !bytes.Equal(back, body) {
			err = encoding.ErrInvalidUTF8
		}
	}
	if err != nil {
		return body, &bodyError{code: "charset", detail: fmt.Sprintf("the answer says that it is in %s and holds bytes that are not; have the server send UTF-8", charsetName(name))}
	}
	return out, nil
}

// isUTF8 knows UTF-8 by all its names, such as a database's utf8mb4.
func isUTF8(name string) bool {
	return strings.HasPrefix(strings.NewReplacer("-", "", "_", "").Replace(name), "utf8")
}

// decoding finds a charset by the names that are in use
// (https://encoding.spec.whatwg.org/#names-and-labels); nil for one not known.
func decoding(name string) encoding.Encoding {
	if name == "utf-16" || name == "utf16" {
		// https://www.rfc-editor.org/rfc/rfc2781#section-4.3
		return unicode.UTF16(unicode.BigEndian, unicode.UseBOM)
	}
	from, err := htmlindex.Get(name)
	if err != nil || from == encoding.Replacement {
		return nil
	}
	return from
}

// charsetName names a charset, if that can be its name.
func charsetName(name string) string {
	if len(name) > 40 || !isToken(name) {
		return "a charset of no proper name"
	}
	return "the charset " + name
}
