package mapping

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// encoder writes a record as canonical JSON: members sorted by their bytes,
// numbers with their digits, no blanks, and only those characters escaped that
// JSON demands. It replaces what ref made by placeholders, collects them, and
// refuses objects that merely look like one.
type encoder struct {
	buf   []byte
	limit int
	owner *refMaker
	refs  refSet
	keys  []string
	path  []string // filled from the inside out on error
}

// record writes one record and returns its own copy of the bytes.
func (e *encoder) record(m map[string]any) ([]byte, []Ref, error) {
	e.buf, e.path, e.refs = e.buf[:0], nil, refSet{}
	defer e.forget()
	if err := e.object(m, 0); err != nil {
		slices.Reverse(e.path)
		return nil, nil, &Error{Stage: stageRecord, Path: joinPath(e.path), Msg: err.Error()}
	}
	return slices.Clone(e.buf), e.refs.list, nil
}

// forget drops what would keep an event, or the memory of a large one, alive
// until the next.
func (e *encoder) forget() {
	clear(e.keys[:cap(e.keys)])
	e.keys = e.keys[:0]
	if cap(e.buf) > 64<<10 {
		e.buf = nil
	}
}

// joinPath joins the parts of a path, and cuts one that is longer than helps.
func joinPath(parts []string) string {
	const most = 200
	path := strings.Join(parts, "")
	if len(path) > most {
		return truncateText(path, most) + "…"
	}
	return path
}

func (e *encoder) value(v any, depth int) error {
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case json.Number:
		e.buf = append(e.buf, v...)
	case string:
		e.buf = appendJSONString(e.buf, v)
	case *big.Int:
		e.buf = v.Append(e.buf, 10)
	case float64:
		return e.float(v)
	case []any:
		return e.array(v, depth)
	case map[string]any:
		return e.object(v, depth)
	default:
		return fmt.Errorf("holds a value of the unknown type %T", v)
	}
	return e.room()
}

func (e *encoder) room() error {
	if len(e.buf) > e.limit {
		return fmt.Errorf("record is larger than %d bytes", e.limit)
	}
	return nil
}

func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("is not a finite number, and JSON has no other")
	}
	format := byte('f')
	if a := math.Abs(f); a != 0 && (a < 1e-6 || a >= 1e21) {
		format = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, f, format, -1, 64)
	return e.room()
}

func (e *encoder) array(a []any, depth int) error {
	if depth >= maxBodyDepth {
		return fmt.Errorf("record is nested deeper than %d levels", maxBodyDepth)
	}
	e.buf = append(e.buf, '[')
	for i, v := range a {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(v, depth+1); err != nil {
			e.path = append(e.path, pathIndex(i))
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return e.room()
}

func (e *encoder) object(m map[string]any, depth int) error {
	if depth >= maxBodyDepth {
		return fmt.Errorf("record is nested deeper than %d levels", maxBodyDepth)
	}
	if inner, ok := m[refMember]; ok {
		return e.ref(m, inner)
	}
	first := len(e.keys)
	for k := range m {
		e.keys = append(e.keys, k)
	}
	keys := e.keys[first:]
	slices.Sort(keys)
	e.buf = append(e.buf, '{')
	for i, k := range keys {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(appendJSONString(e.buf, k), ':')
		if err := e.value(m[k], depth+1); err != nil {
			e.path = append(e.path, pathMember(k))
			return err
		}
	}
	e.keys = e.keys[:first]
	e.buf = append(e.buf, '}')
	return e.room()
}

func (e *encoder) ref(m map[string]any, inner any) error {
	ref, ok := e.owner.verify(inner)
	if !ok || len(m) != 1 {
		return errForgedRef
	}
	ref.Key = strings.Clone(ref.Key) // not a part of the body, which would stay in memory with it
	e.refs.add(ref)
	e.buf = appendPlaceholder(e.buf, ref)
	return e.room()
}

// appendJSONString writes s as a JSON string. Invalid UTF-8, which only jq's
// own functions can make (@base64d), becomes U+FFFD.
func appendJSONString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			b = append(append(b, s[start:i]...), "\uFFFD"...)
			start = i + 1
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	const hex = "0123456789abcdef"
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}
