package rest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// fill holds the values of placeholders. A placeholder that is known but has
// no value now ({cursor} on the first page) is absent from the map.
type fill map[string]string

// placeholder finds the first placeholder of a text: s[from:to] with its braces.
func placeholder(s string) (from, to int, ok bool) {
	for from = 0; from < len(s); from++ {
		if s[from] != '{' {
			continue
		}
		to = from + 1
		for to < len(s) && (s[to] >= 'a' && s[to] <= 'z' || s[to] == '_') {
			to++
		}
		if to > from+1 && to < len(s) && s[to] == '}' {
			return from, to + 1, true
		}
	}
	return 0, 0, false
}

// strangers returns an error if a text holds a placeholder that is not among
// the names.
func strangers(text string, names ...string) error {
	for {
		from, to, ok := placeholder(text)
		if !ok {
			return nil
		}
		if m := text[from:to]; !slices.Contains(names, m[1:len(m)-1]) {
			return fmt.Errorf("the placeholder %s is not known here; known are {%s}", m, strings.Join(names, "}, {"))
		}
		text = text[to:]
	}
}

// uses tells whether a text holds the placeholder.
func uses(text, name string) bool { return strings.Contains(text, "{"+name+"}") }

// text replaces placeholders. ok is false when one of them has no value now.
func (f fill) text(s string, escape func(string) string) (out string, ok bool) {
	ok = true
	var b strings.Builder
	for {
		from, to, found := placeholder(s)
		if !found {
			b.WriteString(s)
			return b.String(), ok
		}
		v, has := f[s[from+1:to-1]]
		ok = ok && has
		if escape != nil {
			v = escape(v)
		}
		b.WriteString(s[:from])
		b.WriteString(v)
		s = s[to:]
	}
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
	if !strings.ContainsAny(v, ";,+") {
		return v
	}
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
