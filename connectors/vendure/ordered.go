package vendure

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// identities are the fields by which the parts of a record are put in order, the
// first that all of them have.
var identities = []string{"id", "orderLineId", "stockLocationId", "code"}

// ordered is a record with the lists within it in the order of their ids. The
// shop does not order them: it tells the lines of an order as its database comes
// upon them, which changes whenever one of them is written, and two tellings of
// one record have to be the same.
func ordered(raw json.RawMessage) (json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	order(v)
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

func order(v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			order(x)
		}
	case []any:
		for _, x := range v {
			order(x)
		}
		for _, name := range identities {
			if all(v, name) {
				slices.SortStableFunc(v, func(a, b any) int { return compareIDs(identity(a, name), identity(b, name)) })
				return
			}
		}
	}
}

func all(list []any, name string) bool {
	return !slices.ContainsFunc(list, func(x any) bool { return identity(x, name) == "" })
}

// identity is a field that tells one part from another, as text; "" when there
// is none.
func identity(x any, name string) string {
	m, _ := x.(map[string]any)
	switch id := m[name].(type) {
	case string:
		return id
	case json.Number:
		return id.String()
	}
	return ""
}

// compareIDs puts 9 before 10: the shop's ids are numbers given in turn, unless
// it is set up with others. https://docs.vendure.io/reference/typescript-api/configuration/entity-id-strategy/
func compareIDs(a, b string) int {
	if digits(a) && digits(b) {
		a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	}
	return strings.Compare(a, b)
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
