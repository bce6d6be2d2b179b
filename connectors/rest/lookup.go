package rest

import (
	"bytes"
	"context"
	"math/big"
	"strconv"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// finder is an entity with lookup.
type finder struct{ *entity }

// Find asks the API for the key and believes only records that carry exactly it.
func (f finder) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	found, err := f.find(ctx, w)
	if err != nil {
		return nil, withOp(err, "find "+f.name+" "+cut(w.Key, 64))
	}
	return found, nil
}

func (f finder) find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	set := f.set.Lookup
	values := fill{"key": w.Key}
	p, err := values.path(set.Path)
	if err != nil {
		return nil, connectors.Errorf(connectors.Invalid, "request", "%v", err)
	}
	_, body, err := f.api.read(ctx, &httpx.Request{Path: p, Query: values.query(set.Query), Shape: shape("", set.Path)})
	if err != nil {
		if uses(set.Path, "key") && notThere(err) {
			return nil, nil
		}
		return nil, err
	}
	if body == nil { // 204
		return nil, nil
	}
	recs, err := f.records(body)
	if err != nil {
		return nil, asShape(err)
	}
	return f.matching(recs, w)
}

// records takes the answer apart: a list, or one record.
func (f finder) records(body raw) ([]raw, error) {
	set := f.set.Lookup
	v, found, err := set.Records.in(body)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, connectors.Errorf(connectors.Transient, "answer_shape", "the answer holds nothing at records: %s%s", set.Records, holds(body))
	}
	recs, err := f.api.records(v)
	if err != nil && v.kind() == '{' {
		return []raw{v}, nil
	}
	return recs, err
}

// matching picks the records that carry the key. That there is none is said
// only if the answer proves it: a server that ignores the filter answers with
// its first page, and ours may be on the second.
func (f finder) matching(recs []raw, w connectors.Write) ([]connectors.Found, error) {
	set := f.set.Lookup
	var out []connectors.Found
	for _, rec := range recs {
		v, found, err := set.KeyField.in(rec)
		if err != nil {
			return nil, connectors.Errorf(connectors.Invalid, "answer_shape", "%v", err)
		}
		if key, ok := v.text(); !found || !ok || key != w.Key {
			continue
		}
		one, err := f.found(rec, w)
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	switch {
	case len(out) > 0 || len(recs) == 0:
		return out, nil
	case set.Match == "exact":
		return nil, connectors.Errorf(connectors.Invalid, "lookup_ignored",
			"the answer holds %d records and none carries the key at %s: the server ignores the filter, changes keys, or finds parts of them; mend lookup.query, or set match: partial", len(recs), set.KeyField)
	case len(recs) >= set.Size:
		return nil, connectors.Errorf(connectors.Invalid, "lookup_cut",
			"the answer holds %d records, none carries the key at %s, and there may be more; ask more narrowly, or for more records and set lookup.size", len(recs), set.KeyField)
	}
	return nil, nil
}

func (f finder) found(rec raw, w connectors.Write) (connectors.Found, error) {
	set := f.set.Lookup
	v, _, err := set.ID.in(rec)
	link, ok := scalarLink(v)
	if err != nil || !ok {
		return connectors.Found{}, connectors.Errorf(connectors.Transient, "answer_shape", "a found record holds no id at %s", set.ID)
	}
	out := connectors.Found{Link: link}
	if out.Archived, err = set.Archived.marks(rec); err != nil {
		return out, connectors.Errorf(connectors.Transient, "answer_shape", "%v", err)
	}
	if f.set.version.given() {
		if v, ok, err := f.set.version.in(rec); ok && err == nil {
			t, _ := v.text()
			out.Version, _ = strconv.ParseInt(t, 10, 64) // what is no number is no version of ours
		}
	}
	if w.Body != nil {
		want, err := f.record(w, path{})
		out.Same = err == nil && covers(rec, want)
	}
	return out, nil
}

// covers tells whether have holds all that want asks for: members that want
// does not name may be anything.
func covers(have, want raw) bool {
	if have.kind() != want.kind() {
		return false
	}
	switch want.kind() {
	case '{':
		m, ok := have.asMap(), true
		want.members(func(name string, x raw) bool {
			h, there := m[name]
			ok = there && covers(h, x)
			return ok
		})
		return ok
	case '[':
		return coversList(have, want)
	case '"':
		return have.word() == want.word()
	case '0':
		return sameNumber(string(have), string(want))
	}
	return bytes.Equal(have, want)
}

func coversList(have, want raw) bool {
	hs, errH := have.list()
	ws, errW := want.list()
	if errH != nil || errW != nil || len(hs) != len(ws) {
		return false
	}
	for i := range ws {
		if !covers(hs[i], ws[i]) {
			return false
		}
	}
	return true
}

// sameNumber compares numbers by value without a float. Long ones, which could
// take much memory, are the same only if they are written the same.
func sameNumber(a, b string) bool {
	if a == b || len(a) > 60 || len(b) > 60 {
		return a == b
	}
	for _, s := range []string{a, b} {
		if i := bytes.IndexAny([]byte(s), "eE"); i >= 0 {
			return false
		}
	}
	x, okA := new(big.Rat).SetString(a)
	y, okB := new(big.Rat).SetString(b)
	return okA && okB && x.Cmp(y) == 0
}
