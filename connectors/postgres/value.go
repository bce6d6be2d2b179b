package postgres

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgtype"

	"syncd/internal/jsonscan"
)

// value is what goes to a column, as a text that the server casts to the column's type.
type value struct {
	text string
	null bool
}

// Errors of values. None of them shows a value.
var (
	errNotNumber  = errors.New("is not a number")
	errNotWhole   = errors.New("is not a whole number")
	errRange      = errors.New("is a number outside the column's range")
	errNotBool    = errors.New("is neither true nor false")
	errNotTime    = errors.New("is not an RFC 3339 time with its offset, such as 2026-11-29T10:00:00Z")
	errNotDate    = errors.New("is not a date such as 2026-11-29; a time has to be cut to a date in the mapping, where its zone is known")
	errNotUUID    = errors.New("is not a UUID")
	errNested     = errors.New("is an array or object, which this column does not take")
	errNotArray   = errors.New("is not an array, which this column needs")
	errDimensions = errors.New("is an array of arrays of different lengths or kinds")
)

// convert makes a checked JSON value into one for the column. Digits stay as they are; null becomes NULL. Texts lose U+0000, which
// PostgreSQL cannot store (https://www.postgresql.org/docs/current/datatype-character.html), rather than failing for ever.
func (c *column) convert(raw []byte) (value, error) {
	if jsonscan.Kind(raw) == 'n' {
		return value{null: true}, nil
	}
	switch {
	case c.oid == pgtype.JSONOID || c.oid == pgtype.JSONBOID:
		return value{text: storableJSON(raw)}, nil
	case c.elem != 0:
		return c.array(raw)
	}
	t, err := scalar(c.oid, c.mod, raw)
	return value{text: t}, err
}

// scalar makes a JSON scalar the text of a type.
func scalar(oid uint32, mod int32, raw []byte) (string, error) {
	t, ok := jsonscan.Scalar(raw)
	if !ok {
		return "", errNested
	}
	switch oid {
	case pgtype.Int2OID:
		return whole(t, 16)
	case pgtype.Int4OID:
		return whole(t, 32)
	case pgtype.Int8OID:
		return whole(t, 64)
	case pgtype.NumericOID:
		return numeric(t, mod)
	case pgtype.Float4OID, pgtype.Float8OID:
		if _, ok := parseDecimal(t); !ok {
			return "", errNotNumber
		}
		return t, nil
	case pgtype.BoolOID:
		return boolean(t)
	case pgtype.TimestamptzOID, pgtype.TimestampOID:
		return stamp(t, oid == pgtype.TimestampOID)
	case pgtype.DateOID:
		return date(t)
	case pgtype.UUIDOID:
		return uuid(t)
	case pgtype.VarcharOID, pgtype.BPCharOID:
		t = withoutNUL(t)
		// The modifier counts four bytes for itself.
		if most := int(mod) - 4; mod >= 4 && utf8.RuneCountInString(t) > most {
			return "", fmt.Errorf("has %d characters, and the column takes %d; shorten it in the mapping", utf8.RuneCountInString(t), most)
		}
		return t, nil
	}
	return withoutNUL(t), nil
}

func withoutNUL(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s
	}
	return strings.ReplaceAll(s, "\x00", "")
}

func boolean(t string) (string, error) {
	switch t {
	case "true", "false":
		return t, nil
	case "1":
		return "true", nil
	case "0":
		return "false", nil
	}
	return "", errNotBool
}

// stamp reads a time. A column without zone gets it in UTC; left to itself, the server would drop the offset.
func stamp(text string, naive bool) (string, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if !naive {
			return "", errNotTime
		}
		if t, err = time.Parse("2006-01-02T15:04:05.999999999", strings.Replace(text, " ", "T", 1)); err != nil {
			return "", errNotTime
		}
	}
	if y := t.UTC().Year(); y < 1 {
		return "", errNotTime
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999Z07:00"), nil
}

func date(text string) (string, error) {
	t, err := time.Parse("2006-01-02", text)
	if err != nil || t.Year() < 1 {
		return "", errNotDate
	}
	return text, nil
}

func uuid(text string) (string, error) {
	if len(text) != 36 {
		return "", errNotUUID
	}
	for i := range len(text) {
		c := text[i]
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return "", errNotUUID
			}
		default:
			if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'f') {
				return "", errNotUUID
			}
		}
	}
	return strings.ToLower(text), nil
}

// array writes a JSON array as PostgreSQL writes its arrays (https://www.postgresql.org/docs/current/arrays.html#ARRAYS-IO).
func (c *column) array(raw []byte) (value, error) {
	if jsonscan.Kind(raw) != '[' {
		return value{}, errNotArray
	}
	var b strings.Builder
	if _, err := c.appendArray(&b, raw, 0); err != nil {
		return value{}, err
	}
	return value{text: b.String()}, nil
}

// appendArray writes one level, and returns the lengths of this level and those below.
func (c *column) appendArray(b *strings.Builder, raw []byte, depth int) (dims string, err error) {
	if depth == 6 {
		return "", errors.New("is nested deeper than the 6 levels an array can have")
	}
	json := c.elem == pgtype.JSONOID || c.elem == pgtype.JSONBOID
	n, below := 0, ""
	b.WriteByte('{')
	err = jsonscan.Array(raw, func(v []byte) error {
		if n > 0 {
			b.WriteByte(',')
		}
		n++
		d := ""
		switch {
		case jsonscan.Kind(v) == '[' && !json:
			var err error
			if d, err = c.appendArray(b, v, depth+1); err != nil {
				return err
			}
		case jsonscan.Kind(v) == 'n':
			b.WriteString("NULL")
		case json:
			quoteElement(b, storableJSON(v))
		default:
			t, err := scalar(c.elem, c.mod, v)
			if err != nil {
				return fmt.Errorf("holds an element that %w", err)
			}
			quoteElement(b, t)
		}
		if n > 1 && d != below {
			return errDimensions
		}
		below = d
		return nil
	})
	b.WriteByte('}')
	return fmt.Sprintf("%d/%s", n, below), err
}

func quoteElement(b *strings.Builder, t string) {
	b.WriteByte('"')
	for i := range len(t) {
		if t[i] == '"' || t[i] == '\\' {
			b.WriteByte('\\')
		}
		b.WriteByte(t[i])
	}
	b.WriteByte('"')
}

// storableJSON is JSON text as jsonb takes it: without U+0000, and with U+FFFD for lone halves of surrogate pairs.
func storableJSON(raw []byte) string {
	s := string(raw)
	if !strings.Contains(s, `\u`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			n := strings.IndexByte(s[i:], '\\')
			if n < 0 {
				n = len(s) - i
			}
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		if s[i+1] != 'u' {
			b.WriteString(s[i : i+2])
			i += 2
			continue
		}
		i += jsonEscape(&b, s[i:])
	}
	return b.String()
}

// jsonEscape copies the \u escape at the beginning of s, or what stands for it, and returns how much of s it took.
func jsonEscape(b *strings.Builder, s string) int {
	r := hex4(s[2:6])
	switch {
	case r == 0:
	case r >= 0xd800 && r < 0xdc00 && len(s) >= 12 && s[6] == '\\' && s[7] == 'u' && hex4(s[8:12]) >= 0xdc00 && hex4(s[8:12]) < 0xe000:
		b.WriteString(s[:12])
		return 12
	case r >= 0xd800 && r < 0xe000:
		b.WriteString("\ufffd")
	default:
		b.WriteString(s[:6])
	}
	return 6
}

func hex4(s string) (n int) {
	for i := range 4 {
		c := int(s[i])
		if c > '9' {
			c = c&0x0f + 9
		} else {
			c &= 0x0f
		}
		n = n<<4 | c
	}
	return n
}
