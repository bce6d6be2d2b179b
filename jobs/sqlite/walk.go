package sqlite

import (
	"context"
	"fmt"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// The statements of jobs.Lister. Each continues in the key of its table.
const (
	listSources    = `SELECT ` + sourceColumns + ` FROM sources s WHERE flow = ?1 AND id > ?2 ORDER BY id LIMIT ?3`
	listContenders = `SELECT ` + contenderColumns + ` FROM contenders c WHERE flow = ?1 AND (key, source_id) > (?2, ?3) ORDER BY key, source_id LIMIT ?4`
	listLinks      = `SELECT ` + linkColumns + ` FROM links l WHERE client = ?1 AND (entity, key) > (?2, ?3) ORDER BY entity, key LIMIT ?4`
	listGroups     = `SELECT ` + groupColumns + ` FROM groups g WHERE flow = ?1 AND name > ?2 ORDER BY name LIMIT ?3`
	listPins       = `SELECT ` + pinColumns + ` FROM idempotency_keys p WHERE (flow, key, operation) > (?1, ?2, ?3) ORDER BY flow, key, operation LIMIT ?4`
	listAttempts   = `SELECT id, flow, key, number, generation, at, class, code, message FROM attempts WHERE id > ?1 ORDER BY id LIMIT ?2`
	listRequests   = `SELECT ` + requestColumns + ` FROM requests WHERE id > ?1 ORDER BY id LIMIT ?2`
	// linkClients leaps from each client to the next instead of reading its links.
	linkClients = `WITH RECURSIVE c (client) AS (SELECT min(client) FROM links UNION ALL
		SELECT (SELECT min(client) FROM links WHERE client > c.client) FROM c WHERE c.client IS NOT NULL)
		SELECT client FROM c WHERE client IS NOT NULL`
)

// listed runs one of these statements.
func listed[T any](ctx context.Context, t *tx, what, sql string, args []any, read func(row) (T, error)) (out []T, err error) {
	err = t.query(ctx, sql, args, func(v row) error {
		x, err := read(v)
		out = append(out, x)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the %s: %w", what, err)
	}
	return out, nil
}

// ListSources implements jobs.Lister.
func (t *tx) ListSources(ctx context.Context, flow, after string, limit int) ([]jobs.SourceRecord, error) {
	return listed(ctx, t, "source records of flow "+flow, listSources, []any{id(flow), id(after), int64(limit)}, readSource)
}

// ListContenders implements jobs.Lister.
func (t *tx) ListContenders(ctx context.Context, flow string, after jobs.Contender, limit int) ([]jobs.Contender, error) {
	return listed(ctx, t, "contenders of flow "+flow, listContenders, []any{id(flow), id(after.Key), id(after.SourceID), int64(limit)}, readContender)
}

// ListLinks implements jobs.Lister.
func (t *tx) ListLinks(ctx context.Context, client string, after jobs.EntityKey, limit int) ([]jobs.Link, error) {
	return listed(ctx, t, "links of client "+client, listLinks, []any{id(client), id(after.Entity), id(after.Key), int64(limit)}, readLink)
}

// ListGroups implements jobs.Lister.
func (t *tx) ListGroups(ctx context.Context, flow, after string, limit int) ([]jobs.Group, error) {
	return listed(ctx, t, "groups of flow "+flow, listGroups, []any{id(flow), id(after), int64(limit)}, readGroup)
}

// ListPins implements jobs.Lister.
func (t *tx) ListPins(ctx context.Context, after jobs.Pin, limit int) ([]jobs.Pin, error) {
	return listed(ctx, t, "pins", listPins, []any{id(after.Flow), id(after.RowID.Key), id(after.Operation), int64(limit)}, readPin)
}

// ListAttempts implements jobs.Lister.
func (t *tx) ListAttempts(ctx context.Context, after int64, limit int) (as []jobs.Attempt, last int64, err error) {
	last = after
	as, err = listed(ctx, t, "attempts", listAttempts, []any{after, int64(limit)}, func(v row) (jobs.Attempt, error) {
		var in stored.ReadIDs
		last = v.int(0)
		a := jobs.Attempt{RowID: jobs.RowID{Flow: in.ID(v.text(1)), Key: in.ID(v.text(2))}, Number: v.int(3), Generation: v.int(4),
			At: v.time(5), Class: connectors.Class(v.text(6)), Code: v.text(7), Message: v.text(8)}
		return a, in.Err
	})
	return as, last, err
}

// ListRequests implements jobs.Lister.
func (t *tx) ListRequests(ctx context.Context, after int64, limit int) ([]jobs.Request, error) {
	return listed(ctx, t, "requests", listRequests, []any{after, int64(limit)}, readRequest)
}

// LinkClients implements jobs.Lister.
func (t *tx) LinkClients(ctx context.Context) ([]string, error) {
	return listed(ctx, t, "clients with links", linkClients, nil, func(v row) (string, error) { return stored.ParseID(v.text(0)) })
}
