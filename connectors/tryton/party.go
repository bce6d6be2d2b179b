package tryton

import (
	"context"

	"syncd/connectors"
)

// party is the entity of parties.
type party struct{ entity }

// Create makes a party.
func (p *party) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	return p.create(ctx, p.model, w, rec)
}

// Update brings a party to what is wanted; an archived one comes back.
func (p *party) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	if _, given := rec.vals["active"]; !given {
		rec.vals["active"] = true
	}
	return p.update(ctx, w, rec)
}

func (p *party) update(ctx context.Context, w connectors.Write, rec *record) connectors.Outcome {
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	c, missing, err := p.diff(ctx, p.model, byID(id), p.op("read", w), rec)
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return p.gone(id)
	}
	return p.apply(ctx, p.model, p.op("write", w), c, rec.hide)
}

// Remove archives a party.
func (p *party) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	o := p.update(ctx, w, &record{vals: map[string]any{"active": false}})
	if o.Class == connectors.Missing {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	return o
}

func (p *party) record(ctx context.Context, w connectors.Write) (*record, error) {
	rec, err := decode(w.Body)
	if err != nil {
		return nil, err
	}
	rec[p.keyField] = w.Key
	return p.rpc.encode(ctx, p.model, rec)
}
