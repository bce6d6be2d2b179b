package memory

import (
	"context"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// ListSources implements jobs.Lister.
func (t *tx) ListSources(_ context.Context, flow, after string, limit int) ([]jobs.SourceRecord, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first := pair{id(flow), id(after)}
	return list(&t.s.sources, first, limit, func(k pair) bool { return k[0] == first[0] }, sourceOut), nil
}

// ListContenders implements jobs.Lister.
func (t *tx) ListContenders(_ context.Context, flow string, after jobs.Contender, limit int) ([]jobs.Contender, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first := triple{id(flow), id(after.Key), id(after.SourceID)}
	return list(&t.s.contenders, first, limit, func(k triple) bool { return k[0] == first[0] }, contenderOut), nil
}

// ListLinks implements jobs.Lister.
func (t *tx) ListLinks(_ context.Context, client string, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first := linkKey(client, after)
	return list(&t.s.links, first, limit, func(k triple) bool { return k[0] == first[0] }, same), nil
}

// ListGroups implements jobs.Lister.
func (t *tx) ListGroups(_ context.Context, flow, after string, limit int) ([]jobs.Group, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first := pair{id(flow), id(after)}
	return list(&t.s.groups, first, limit, func(k pair) bool { return k[0] == first[0] }, same), nil
}

// ListPins implements jobs.Lister.
func (t *tx) ListPins(_ context.Context, after jobs.Pin, limit int) ([]jobs.Pin, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	return list(&t.s.pins, pinKey(&after), limit, all, pinOut), nil
}

// ListAttempts implements jobs.Lister.
func (t *tx) ListAttempts(_ context.Context, after int64, limit int) (as []jobs.Attempt, last int64, err error) {
	if err := t.reads(); err != nil {
		return nil, 0, err
	}
	last = after
	for n, a := range t.s.attempts.from(number(after) + 1) {
		if len(as) >= limit {
			break
		}
		as, last = append(as, a), int64(n)
	}
	return as, last, nil
}

// ListRequests implements jobs.Lister.
func (t *tx) ListRequests(_ context.Context, after int64, limit int) ([]jobs.Request, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	return list(&t.s.requests, number(after), limit, all, same), nil
}

// LinkClients implements jobs.Lister.
func (t *tx) LinkClients(context.Context) ([]string, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []string
	for k := (triple{}); ; {
		found := false
		for at := range t.s.links.from(k) {
			client, err := stored.ParseID(at[0])
			if err != nil {
				return nil, err
			}
			out = append(out, client)
			// No stored form holds a NUL, so the next client stands behind this.
			k, found = triple{at[0] + "\x00"}, true
			break
		}
		if !found {
			return out, nil
		}
	}
}
