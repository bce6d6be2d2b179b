package rest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// fill holds the values of placeholders. A placeholder that is known but has
// no value now ({cursor} on the first page) is absent from the map.
type fill map[string]string

var placeholder = regexp.MustCompile(`\{([a-z_]+)\}`)

// strangers returns an error if a text holds a placeholder that is not among
// the names.
func strangers(text string, names ...string) error {
	for _, m := range placeholder.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, m[1]) {
			return fmt.Errorf("the placeholder %s is not known here; known are {%s}", m[0], strings.Join(names, "}, {"))
		}
	}
	return nil
}

// uses tells whether a text holds the placeholder.
func uses(text, name string) bool { return strings.Contains(text, "{"+name+"}") }

// text replaces placeholders. ok is false when one of them has no value now.
func (f fill) text(s string, escape func(string) string) (out string, ok bool) {
	ok = true
	out = placeholder.ReplaceAllStringFunc(s, func(m string) string {
		v, has := f[m[1:len(m)-1]]
		if !has {
			ok = false
		}
		if escape != nil {
			v = escape(v)
		}
		return v
	})
	return out, ok
}

// path fills a path template; each value is escaped so that it stays one
// segment.
func (f fill) path(s string) (string, error) {
	var bad error
	out, ok := f.text(s, func(v string) string {
		// "." and ".." are segments that a server, or a proxy, resolves.
		if v == "" || v == "." || v == ".." {
			bad = fmt.Errorf("%q cannot stand in a path", v)
		}
		return escapeSegment(v)
	})
	if bad != nil {
		return "", bad
	}
	if !ok {
		return "", fmt.Errorf("the path %s needs a value that is not known", s)
	}
	return out, nil
}

func escapeSegment(v string) string {
	// PathEscape leaves + & = : @ $ alone, which is right inside a segment; a
	// semicolon and a comma begin parameters for some servers.
	v = url.PathEscape(v)
	return strings.NewReplacer(";", "%3B", ",", "%2C", "+", "%2B").Replace(v)
}

// query fills a query template. A parameter whose placeholder has no value now
// is left out.
func (f fill) query(params map[string]string) url.Values {
	q := url.Values{}
	for name, tmpl := range params {
		if v, ok := f.text(tmpl, nil); ok {
			q.Set(name, v)
		}
	}
	return q
}

// body fills a JSON template: in texts, placeholders are replaced; a text that
// is nothing but {limit}, {page} or {offset} becomes a number; a member whose
// placeholder has no value now is left out.
func (f fill) body(tmpl json.RawMessage) (json.RawMessage, error) {
	v, err := parse(tmpl)
	if err != nil {
		return nil, err
	}
	out, _, err := f.value(v)
	return json.RawMessage(out), err
}

func (f fill) value(v raw) (out raw, ok bool, err error) {
	switch v.kind() {
	case '"':
		tmpl := v.word()
		s, ok := f.text(tmpl, nil)
		switch tmpl {
		case "{limit}", "{page}", "{offset}":
			return raw(s), ok, nil
		}
		return quote(s), ok, nil
	case '{':
		m := map[string]raw{}
		v.members(func(key string, x raw) bool {
			if out, ok, err = f.value(x); ok && err == nil {
				m[key] = out
			}
			return err == nil
		})
		return object(m), true, err
	case '[':
		b := []byte{'['}
		v.elements(func(x raw) bool {
			if out, ok, err = f.value(x); ok && err == nil {
				if len(b) > 1 {
					b = append(b, ',')
				}
				b = append(b, out...)
			}
			return err == nil
		})
		return append(b, ']'), true, err
	}
	return v, true, nil
}
