package tryton

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"strconv"
	"strings"
	"time"

	"syncd/connectors"
)

// encode makes of a record's plain JSON what the server takes for a model:
// decimals, dates and times in their tagged forms, ids for texts that name a
// record. One-to-many fields are left out and returned apart.
func (r *rpc) encode(ctx context.Context, model string, rec map[string]any) (vals map[string]any, lists map[string][]map[string]any, err error) {
	fs, err := r.fields(ctx, model)
	if err != nil {
		return nil, nil, err
	}
	vals, lists = map[string]any{}, map[string][]map[string]any{}
	for name, v := range rec {
		f, ok := fs[name]
		if !ok {
			return nil, nil, fault("write "+model, connectors.Fail(connectors.Invalid, "field", "%s has no field %q; correct the flow's map", model, name))
		}
		if f.Type == "one2many" {
			l, err := objects(model, name, v)
			if err != nil {
				return nil, nil, err
			}
			lists[name] = l
			continue
		}
		if vals[name], err = r.value(ctx, model, name, f, v); err != nil {
			return nil, nil, err
		}
	}
	return vals, lists, nil
}

func objects(model, name string, v any) ([]map[string]any, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, bad(model, name, "a list of objects")
	}
	out := make([]map[string]any, len(list))
	for i, x := range list {
		if out[i], ok = x.(map[string]any); !ok {
			return nil, bad(model, name, "a list of objects")
		}
	}
	return out, nil
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
	case "float", "integer", "biginteger":
		d, ok := number(v)
		if !ok {
			return nil, bad(model, name, "a number")
		}
		return json.Number(d), nil
	case "date":
		t, err := time.Parse(time.DateOnly, fmt.Sprint(v))
		if err != nil {
			return nil, bad(model, name, "a date such as 2026-11-29")
		}
		return map[string]any{"__class__": "date", "year": t.Year(), "month": int(t.Month()), "day": t.Day()}, nil
	case "datetime", "timestamp":
		t, err := time.Parse(time.RFC3339Nano, fmt.Sprint(v))
		if err != nil {
			return nil, bad(model, name, "an RFC 3339 time")
		}
		t = t.UTC()
		return map[string]any{"__class__": "datetime", "year": t.Year(), "month": int(t.Month()), "day": t.Day(),
			"hour": t.Hour(), "minute": t.Minute(), "second": t.Second(), "microsecond": t.Nanosecond() / 1000}, nil
	case "many2one", "one2one":
		switch x := v.(type) {
		case json.Number:
			return x, nil
		case string:
			id, err := r.one(ctx, f.Relation, x)
			if err != nil {
				return nil, err
			}
			return json.Number(strconv.FormatInt(id, 10)), nil
		}
		return nil, bad(model, name, "an id, a reference, or a text that names one record")
	case "boolean":
		if _, ok := v.(bool); !ok {
			return nil, bad(model, name, "true or false")
		}
		return v, nil
	case "char", "text", "selection":
		if n, ok := v.(json.Number); ok {
			return n.String(), nil
		}
		if _, ok := v.(string); !ok {
			return nil, bad(model, name, "a text")
		}
		return v, nil
	case "many2many":
		return nil, bad(model, name, "left out: many-to-many fields cannot be written")
	default:
		return v, nil
	}
}

// number is the plain decimal text of a JSON number or of a text that is one.
func number(v any) (string, bool) {
	s := ""
	switch x := v.(type) {
	case json.Number:
		s = x.String()
	case string:
		s = strings.TrimSpace(x)
	default:
		return "", false
	}
	if s == "" || strings.ContainsAny(s, "/_xXpP") || len(s) > 64 {
		return "", false
	}
	if _, ok := new(big.Rat).SetString(s); !ok {
		return "", false
	}
	return s, true
}

// equal tells whether the server's value (as read) is the one that was encoded.
// An empty text and none are the same to Tryton.
func equal(want, have any) bool {
	if w, ok := want.(map[string]any); ok {
		h, ok := have.(map[string]any)
		if !ok {
			return false
		}
		if w["__class__"] == "Decimal" {
			return sameNumber(fmt.Sprint(w["decimal"]), fmt.Sprint(h["decimal"]))
		}
		for k, v := range w {
			if fmt.Sprint(v) != fmt.Sprint(h[k]) {
				return false
			}
		}
		return true
	}
	if empty(want) && empty(have) {
		return true
	}
	if empty(want) != empty(have) {
		return false
	}
	if n, ok := want.(json.Number); ok {
		return sameNumber(n.String(), fmt.Sprint(have))
	}
	return want == have
}

func empty(v any) bool { return v == nil || v == "" }

func sameNumber(a, b string) bool {
	x, ok := new(big.Rat).SetString(a)
	y, ok2 := new(big.Rat).SetString(b)
	return ok && ok2 && x.Cmp(y) == 0
}

// decode reads a record's JSON with its digits.
func decode(body json.RawMessage) (map[string]any, error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.UseNumber()
	var rec map[string]any
	if err := d.Decode(&rec); err != nil {
		return nil, fault("write", connectors.Fail(connectors.Invalid, "record", "the record is no JSON object"))
	}
	return rec, nil
}
