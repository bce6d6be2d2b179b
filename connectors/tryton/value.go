package tryton

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"syncd/connectors"
)

// record is a record in the form that the server takes.
type record struct {
	vals map[string]any
	// lists are the records of one-to-many fields.
	lists map[string][]map[string]any
	// hide are the texts in it, which no error may repeat.
	hide []string
}

// encode makes of a record's plain JSON what the server takes for a model:
// decimals, dates and times in their tagged forms, ids for texts that name a
// record.
func (r *rpc) encode(ctx context.Context, model string, rec map[string]any) (*record, error) {
	out := &record{vals: map[string]any{}, lists: map[string][]map[string]any{}}
	for _, name := range slices.Sorted(maps.Keys(rec)) {
		v := rec[name]
		f, err := r.field(ctx, model, name)
		if err != nil {
			return nil, err
		}
		if f.Type == "one2many" {
			if err := r.list(ctx, out, model, name, f.Relation, v); err != nil {
				return nil, err
			}
			continue
		}
		if out.vals[name], err = r.value(ctx, model, name, f, v); err != nil {
			return nil, err
		}
		if text, ok := out.vals[name].(string); ok && f.Type != "selection" {
			out.hide = texts(out.hide, text)
		}
	}
	return out, nil
}

// list encodes the records of a one-to-many field. null leaves it as it is.
func (r *rpc) list(ctx context.Context, out *record, model, name, relation string, v any) error {
	if v == nil {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		return bad(model, name, "a list of objects")
	}
	out.lists[name] = make([]map[string]any, len(list))
	for i, x := range list {
		rec, ok := x.(map[string]any)
		if !ok {
			return bad(model, name, "a list of objects")
		}
		sub, err := r.encode(ctx, relation, rec)
		if err != nil {
			return err
		}
		for deeper := range sub.lists {
			return bad(relation, deeper, "left out: lists within lists cannot be written")
		}
		out.lists[name][i] = sub.vals
		out.hide = append(out.hide, sub.hide...)
	}
	return nil
}

func bad(model, name, want string) error {
	return fault("write "+model, connectors.Fail(connectors.Invalid, "field", "field %s of %s must be %s; correct the flow's map", name, model, want))
}

// value encodes one value.
func (r *rpc) value(ctx context.Context, model, name string, f fieldInfo, v any) (any, error) {
	if v == nil {
		return nil, nil
	}
	switch f.Type {
	case "numeric":
		d, ok := number(v)
		if !ok {
			return nil, bad(model, name, "a decimal number")
		}
		return map[string]any{"__class__": "Decimal", "decimal": d}, nil
	case "float":
		d, ok := number(v)
		if !ok {
			return nil, bad(model, name, "a number")
		}
		return json.Number(d), nil
	case "integer", "biginteger":
		d, ok := whole(v)
		if !ok {
			return nil, bad(model, name, "a whole number")
		}
		return json.Number(d), nil
	case "date", "datetime", "timestamp", "time":
		return moment(model, name, f.Type, v)
	case "many2one", "one2one":
		if n, ok := v.(json.Number); ok {
			if d, whole := whole(n); whole {
				return json.Number(d), nil
			}
		}
		text, ok := v.(string)
		if !ok || text == "" {
			return nil, bad(model, name, "an id, a reference, or a text that names one record")
		}
		id, err := r.one(ctx, "field "+name+" of "+model, f.Relation, text)
		if err != nil {
			return nil, err
		}
		return json.Number(strconv.FormatInt(id, 10)), nil
	case "boolean":
		if _, ok := v.(bool); !ok {
			return nil, bad(model, name, "true or false")
		}
		return v, nil
	case "char", "text", "selection", "reference":
		if n, ok := v.(json.Number); ok {
			return n.String(), nil
		}
		if _, ok := v.(string); !ok {
			return nil, bad(model, name, "a text")
		}
		return v, nil
	case "many2many":
		return nil, bad(model, name, "left out: many-to-many fields cannot be written")
	default: // of a type that is not known here, as it stands
		return v, nil
	}
}

// moment encodes dates and times.
func moment(model, name, kind string, v any) (any, error) {
	text, _ := v.(string)
	switch kind {
	case "date":
		t, err := time.Parse(time.DateOnly, text)
		if err != nil {
			return nil, bad(model, name, "a date such as 2026-11-29")
		}
		return map[string]any{"__class__": "date", "year": t.Year(), "month": int(t.Month()), "day": t.Day()}, nil
	case "time":
		t, err := time.Parse(time.TimeOnly, text)
		if err != nil {
			return nil, bad(model, name, "a time of day such as 15:04:05")
		}
		return map[string]any{"__class__": "time", "hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "microsecond": t.Nanosecond() / 1000}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, bad(model, name, "an RFC 3339 time such as 2026-11-29T15:04:05Z")
	}
	t = t.UTC()
	return map[string]any{"__class__": "datetime", "year": t.Year(), "month": int(t.Month()), "day": t.Day(),
		"hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "microsecond": t.Nanosecond() / 1000}, nil
}

// number is the plain decimal text of a JSON number or of a text that is one.
func number(v any) (string, bool) {
	s := ""
	switch x := v.(type) {
	case json.Number:
		s = x.String()
	case string:
		s = strings.TrimSpace(x)
	}
	if s == "" || len(s) > 64 || strings.ContainsAny(s, "/_xXpPoObB") {
		return "", false
	}
	_, ok := rational(s)
	return s, ok
}

// whole is the text of a whole number, however it is written.
func whole(v any) (string, bool) {
	s, ok := number(v)
	if !ok {
		return "", false
	}
	r, _ := rational(s)
	if !r.IsInt() {
		return "", false
	}
	return r.Num().String(), true
}

// rational reads a decimal number. An exponent of more than two digits is no
// number of business.
func rational(s string) (*big.Rat, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 && len(strings.TrimLeft(s[i+1:], "+-0")) > 2 {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// equal tells whether the server's value (as read) is the one that was encoded.
// An empty text and none are the same to Tryton.
func equal(want, have any) bool {
	if empty(want) || empty(have) {
		return empty(want) && empty(have)
	}
	switch w := want.(type) {
	case map[string]any:
		h, ok := have.(map[string]any)
		if ok && w["__class__"] == "Decimal" {
			return sameNumber(fmt.Sprint(w["decimal"]), fmt.Sprint(h["decimal"]))
		}
	case json.Number:
		return sameNumber(w.String(), fmt.Sprint(have))
	}
	a, errA := json.Marshal(want)
	b, errB := json.Marshal(have)
	return errA == nil && errB == nil && string(a) == string(b)
}

func empty(v any) bool { return v == nil || v == "" }

func sameNumber(a, b string) bool {
	x, ok := rational(a)
	y, ok2 := rational(b)
	return ok && ok2 && x.Cmp(y) == 0
}

// decode reads a record's JSON with its digits.
func decode(body json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var rec map[string]any
	if err := d.Decode(&rec); err != nil || rec == nil {
		return nil, fault("write", connectors.Fail(connectors.Invalid, "record", "the record is no JSON object"))
	}
	return rec, nil
}
