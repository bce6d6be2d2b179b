package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
)

// maxIdentifier is the longest name that PostgreSQL keeps, in bytes; it cuts longer ones silently.
const maxIdentifier = 63

// tableName is a table as the configuration names it.
type tableName struct{ schema, name string }

// parseTable reads schema.table, or table for one in the schema public. A part may stand in double quotes, as in SQL.
func parseTable(text string) (tableName, error) {
	var parts []string
	for rest := text; ; {
		part, after, err := cutPart(rest)
		if err != nil {
			return tableName{}, err
		}
		parts = append(parts, part)
		if after == "" {
			break
		}
		rest = after[1:]
	}
	switch len(parts) {
	case 1:
		return tableName{"public", parts[0]}, nil
	case 2:
		return tableName{parts[0], parts[1]}, nil
	}
	return tableName{}, errors.New("more than two names; write schema.table, and a name that holds a dot in double quotes")
}

// cutPart reads one name; after begins with the dot that follows it.
func cutPart(text string) (part, after string, err error) {
	if !strings.HasPrefix(text, `"`) {
		i := strings.IndexByte(text, '.')
		if i < 0 {
			i = len(text)
		}
		part, after = text[:i], text[i:]
	} else {
		i := 1
		for {
			n := strings.IndexByte(text[i:], '"')
			if n < 0 {
				return "", "", errors.New("a double quote is not closed")
			}
			if i += n + 1; !strings.HasPrefix(text[i:], `"`) {
				break
			}
			i++
		}
		part, after = strings.ReplaceAll(text[1:i-1], `""`, `"`), text[i:]
		if after != "" && after[0] != '.' {
			return "", "", errors.New("something follows a quoted name; write schema.table")
		}
	}
	return part, after, badName(part)
}

// badName refuses names that cannot be a table's or column's.
func badName(name string) error {
	switch {
	case name == "":
		return errors.New("an empty name")
	case strings.ContainsRune(name, 0):
		// Sanitize drops it, so that two names could become one.
		return errors.New("a name with the character U+0000")
	case len(name) > maxIdentifier:
		return errors.New("a name longer than 63 bytes, which PostgreSQL does not keep")
	}
	return nil
}

// quoted is the name as SQL has it.
func (t tableName) quoted() string { return pgx.Identifier{t.schema, t.name}.Sanitize() }

func (t tableName) String() string { return t.schema + "." + t.name }

// quote is a column's name as SQL has it.
func quote(column string) string { return pgx.Identifier{column}.Sanitize() }

// quoteAll quotes names, with a prefix such as "t.", and joins them by commas.
func quoteAll(prefix string, columns []*column) string {
	var b strings.Builder
	for i, c := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(prefix + quote(c.name))
	}
	return b.String()
}
