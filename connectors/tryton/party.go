package tryton

import (
	"context"

	"syncd/connectors"
)

// party is the entity of parties.
type party struct{ entity }

// Create makes a party.
func (p *party) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	vals, lists, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	return p.create(ctx, p.model, w, vals, lists)
}

// Update brings a party to what is wanted; an archived one comes back.
func (p *party) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	vals, lists, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	if _, given := vals["active"]; !given {
		vals["active"] = true
	}
	c, missing, err := p.diff(ctx, p.model, id, p.op("read", w), vals, lists)
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return connectors.Fail(connectors.Missing, "missing", "there is no party with id %d any more", id)
	}
	return p.apply(ctx, p.model, id, p.op("write", w), c)
}

// Remove archives a party.
func (p *party) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	id, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	return p.archive(ctx, p.model, id, p.op("archive", w))
}

func (p *party) record(ctx context.Context, w connectors.Write) (map[string]any, map[string][]map[string]any, error) {
	rec, err := decode(w.Body)
	if err != nil {
		return nil, nil, err
	}
	rec[p.keyField] = w.Key
	return p.rpc.encode(ctx, p.model, rec)
}
