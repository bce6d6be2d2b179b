package file

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"syncd/internal/jsonscan"
)

// maxHeader bounds the header line of a CSV file, in bytes.
const maxHeader = 1 << 20

// csvEnd returns the length of the first record in data with its line end, or 0 when its end is not there. Only a quote at the
// beginning of a value opens a quoted one, in which line ends are text; so a stray quote elsewhere spoils no other line.
func csvEnd(data []byte, delimiter byte) int {
	i := bytes.IndexByte(data, '\n')
	if i < 0 {
		return 0
	}
	if bytes.IndexByte(data[:i], '"') < 0 {
		return i + 1
	}
	for start := 0; ; {
		if start < len(data) && data[start] == '"' {
			n := quotedEnd(data[start:])
			if n == 0 {
				return 0
			}
			start += n
		}
		d := bytes.IndexAny(data[start:], string([]byte{delimiter, '\n'}))
		if d < 0 {
			return 0
		}
		start += d + 1
		if data[start-1] == '\n' {
			return start
		}
	}
}

// quotedEnd is the length of the quoted value at the beginning of s, with its quotes, or 0 if it does not end.
func quotedEnd(s []byte) int {
	for i := 1; ; {
		n := bytes.IndexByte(s[i:], '"')
		if n < 0 {
			return 0
		}
		i += n + 1
		if i >= len(s) || s[i] != '"' {
			return i
		}
		i++ // two quotes stand for one
	}
}

// quoteAstray is where a quoted value begins that does not end, or that something else follows than a delimiter or the end; -1 if all are well.
func quoteAstray(data []byte, delimiter byte) int {
	for start := 0; ; {
		if start < len(data) && data[start] == '"' {
			n := quotedEnd(data[start:])
			after := bytes.TrimSuffix(data[start+n:], []byte{'\n'})
			if n == 0 || len(bytes.TrimSuffix(after, []byte{'\r'})) > 0 && after[0] != delimiter {
				return start
			}
			start += n
		}
		d := bytes.IndexByte(data[start:], delimiter)
		if d < 0 {
			return -1
		}
		start += d + 1
	}
}

// csvSplit appends the values of one record, without its line end, to values.
func csvSplit(line []byte, delimiter byte, values []string) ([]string, error) {
	for {
		var rest []byte
		if len(line) > 0 && line[0] == '"' {
			n := quotedEnd(line)
			if n == 0 {
				return values, errors.New("a quoted value does not end")
			}
			values = append(values, strings.ReplaceAll(string(line[1:n-1]), `""`, `"`))
			rest = line[n:]
			if len(rest) > 0 && rest[0] != delimiter {
				return values, errors.New("something follows the end of a quoted value; a quote inside one is written twice")
			}
		} else {
			n := bytes.IndexByte(line, delimiter)
			if n < 0 {
				n = len(line)
			}
			values = append(values, string(line[:n]))
			rest = line[n:]
		}
		if len(rest) == 0 {
			return values, nil
		}
		line = rest[1:]
	}
}

// table knows the columns of one CSV file.
type table struct {
	keys   [][]byte   // of each column: its field's name as a JSON key with colon
	look   [looks]int // of each looked-at field: its column, or -1
	values []string   // of the record at hand
}

// newTable makes the table for a file whose columns are called that.
func (s *Stream) newTable(columns []string) (*table, error) {
	names := slices.Clone(columns)
	for column, name := range s.CSV.Header {
		i := slices.Index(columns, column)
		if i < 0 {
			return nil, fmt.Errorf("there is no column %q, which csv.header names, among its %d", column, len(columns))
		}
		names[i] = name
	}
	t := &table{}
	for i, name := range names {
		if name == "" {
			return nil, fmt.Errorf("column %d has no name", i+1)
		}
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("columns %d and %d have the same name; give each its own", slices.Index(names, name)+1, i+1)
		}
		t.keys = append(t.keys, append(jsonscan.AppendQuoted(nil, name), ':'))
	}
	for slot, name := range s.looked() {
		t.look[slot] = slices.Index(names, name)
		if name != "" && t.look[slot] < 0 {
			return nil, fmt.Errorf("there is no column %q among its %d; look at delimiter, header and no_header", name, len(names))
		}
	}
	return t, nil
}

var errNUL = errors.New("it holds the character U+0000, which no text has")

var errNotUTF8 = errors.New("not UTF-8; write the file in UTF-8")

// record makes the JSON object of one record, in which all values are texts, and finds its looked-at fields.
func (t *table) record(line []byte, delimiter byte, f *fields) (body []byte, err error) {
	if !utf8.Valid(line) {
		return nil, errNotUTF8
	}
	if bytes.IndexByte(line, 0) >= 0 {
		return nil, errNUL
	}
	if t.values, err = csvSplit(line, delimiter, t.values[:0]); err != nil {
		return nil, err
	}
	if len(t.values) != len(t.keys) {
		return nil, fmt.Errorf("%d values for %d columns", len(t.values), len(t.keys))
	}
	body = make([]byte, 0, len(line)+len(line)/8+16*len(t.keys))
	var at [looks][2]int
	for i, v := range t.values {
		body = append(body, "{,"[min(i, 1)])
		body = append(body, t.keys[i]...)
		start := len(body)
		body = jsonscan.AppendQuoted(body, v)
		for slot, column := range t.look {
			if column == i {
				at[slot] = [2]int{start, len(body)}
			}
		}
	}
	body = append(body, '}')
	for slot, a := range at {
		if a[1] > 0 {
			f.raw[slot] = body[a[0]:a[1]:a[1]]
		}
	}
	return body, nil
}
