package memory

import (
	"context"
	"errors"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddClaim implements jobs.Tx.
func (t *tx) AddClaim(_ context.Context, c jobs.Claim) error {
	if err := t.writes(); err != nil {
		return err
	}
	if _, there := t.s.claims.get(text(id(c.ID))); there {
		return t.fail(errors.New("there is one of that id"), "store claim %s of client %s", c.ID, c.Client)
	}
	t.s.claims.put(t.edit, text(id(c.ID)), claimIn(c))
	return nil
}

// Claims implements jobs.Tx.
func (t *tx) Claims(_ context.Context, client string) ([]jobs.Claim, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Claim
	for _, c := range t.s.claims.from("") {
		if client == "" || c.Client == client {
			out = append(out, claimOut(c))
		}
	}
	return out, nil
}

// ReduceClaim implements jobs.Tx.
func (t *tx) ReduceClaim(_ context.Context, claim, owner string, n int) (bool, error) {
	if err := t.writes(); err != nil {
		return false, err
	}
	k := text(id(claim))
	c, ok := t.s.claims.get(k)
	if !ok || c.Owner != owner {
		return false, nil
	}
	c.Open -= n
	if c.Open > 0 {
		t.s.claims.put(t.edit, k, c)
	} else {
		t.s.claims.remove(t.edit, k)
	}
	return true, nil
}

func linkKey(client string, k jobs.EntityKey) triple {
	return triple{id(client), id(k.Entity), id(k.Key)}
}

// Links implements jobs.Tx.
func (t *tx) Links(_ context.Context, client string, keys []jobs.EntityKey) ([]jobs.Link, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Link
	for _, k := range stored.EntityKeys(keys) {
		if l, ok := t.s.links.get(linkKey(client, k)); ok {
			out = append(out, l)
		}
	}
	return out, nil
}

// PutLinks implements jobs.Tx.
func (t *tx) PutLinks(_ context.Context, client string, ls []jobs.Link) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, l := range stored.Links(ls) {
		if err := stored.Fit(l.Key); err != nil {
			return t.fail(err, "store the link of %s %s at client %s", l.Entity, l.Key, client)
		}
		k := linkKey(client, l.EntityKey)
		if old, ok := t.s.links.get(k); !ok || old.Link != l.Link {
			t.s.links.put(t.edit, k, linkIn(l))
		}
	}
	return nil
}

// DeleteLinks implements jobs.Tx.
func (t *tx) DeleteLinks(_ context.Context, client string, keys []jobs.EntityKey) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, k := range keys {
		t.s.links.remove(t.edit, linkKey(client, k))
	}
	return nil
}

// pinsOf returns what is pinned for one row.
func (t *tx) pinsOf(r jobs.RowID) []jobs.Pin {
	k := rowKey(r)
	return among(&t.s.pins, triple{k[0], k[1]}, func(p triple) bool { return pair{p[0], p[1]} == k }, pinOut)
}

func pinKey(p *jobs.Pin) triple { return triple{id(p.Flow), id(p.RowID.Key), id(p.Operation)} }

// Pins implements jobs.Tx.
func (t *tx) Pins(_ context.Context, ids []jobs.RowID) ([]jobs.Pin, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Pin
	for _, r := range stored.RowIDs(ids) {
		out = append(out, t.pinsOf(r)...)
	}
	return out, nil
}

// PutPins implements jobs.Tx.
func (t *tx) PutPins(_ context.Context, ps []jobs.Pin) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, p := range ps {
		if err := stored.Fit(p.RowID.Key, p.Operation); err != nil {
			return t.fail(err, "pin what is sent of %s", p.RowID)
		}
		t.s.pins.put(t.edit, pinKey(&p), pinIn(p))
	}
	return nil
}

// DeletePins implements jobs.Tx.
func (t *tx) DeletePins(_ context.Context, ids []jobs.RowID) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, r := range ids {
		for _, p := range t.pinsOf(r) {
			t.s.pins.remove(t.edit, pinKey(&p))
		}
	}
	return nil
}
