package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddAttempts implements jobs.Tx.
func (t *tx) AddAttempts(ctx context.Context, as []jobs.Attempt) error {
	for _, a := range as {
		_, err := t.exec(ctx, `INSERT INTO attempts (flow, key, number, generation, at, class, code, message)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
			id(a.Flow), id(a.Key), a.Number, a.Generation, stamp(a.At), string(a.Class), stored.Message(a.Code), stored.Message(a.Message))
		if err != nil {
			return fmt.Errorf("store attempt %d of %s: %w", a.Number, a.RowID, err)
		}
	}
	return nil
}

// Attempts implements jobs.Tx.
func (t *tx) Attempts(ctx context.Context, rid jobs.RowID, limit int) (out []jobs.Attempt, err error) {
	err = t.query(ctx, `SELECT number, generation, at, class, code, message FROM attempts
		WHERE flow = ? AND key = ? ORDER BY id DESC LIMIT ?`, []any{id(rid.Flow), id(rid.Key), int64(limit)}, func(v row) error {
		out = append(out, jobs.Attempt{RowID: rid, Number: v.int(0), Generation: v.int(1), At: v.time(2),
			Class: connectors.Class(v.text(3)), Code: v.text(4), Message: v.text(5)})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the attempts of %s: %w", rid, err)
	}
	return out, nil
}

const (
	oldAttempts = `SELECT coalesce(max(id), ?1) FROM (SELECT id, at FROM attempts WHERE id > ?1 ORDER BY id LIMIT ?2) WHERE at IS NULL OR at < ?3`

	pruneAttempts = `DELETE FROM attempts WHERE id IN (SELECT id FROM attempts WHERE id > ?1 ORDER BY id LIMIT ?2) AND (at IS NULL OR at < ?3)
		AND NOT EXISTS (SELECT 1 FROM jobs j WHERE j.flow = attempts.flow AND j.key = attempts.key
			AND (j.unresolved_at IS NOT NULL OR j.renamed_from <> ''))`
)

// PruneAttempts implements jobs.Tx.
func (t *tx) PruneAttempts(ctx context.Context, after int64, before time.Time, limit int) (int, int64, error) {
	args := []any{after, int64(limit), before.UnixMicro()}
	last := after
	err := t.query(ctx, oldAttempts, args, func(v row) error {
		last = v.int(0)
		return nil
	})
	var n int64
	if err == nil {
		n, err = t.exec(ctx, pruneAttempts, args...)
	}
	if err != nil {
		return 0, after, fmt.Errorf("remove the oldest attempts: %w", err)
	}
	return int(n), last, nil
}

// DeleteAttempts implements jobs.Tx.
func (t *tx) DeleteAttempts(ctx context.Context, ids []jobs.RowID) error {
	for _, rid := range stored.RowIDs(ids) {
		if _, err := t.exec(ctx, `DELETE FROM attempts WHERE flow = ? AND key = ?`, id(rid.Flow), id(rid.Key)); err != nil {
			return fmt.Errorf("remove the attempts of %s: %w", rid, err)
		}
	}
	return nil
}

// AddRequests implements jobs.Tx.
func (t *tx) AddRequests(ctx context.Context, rs []jobs.Request) error {
	for _, r := range rs {
		err := stored.Fit(r.SourceID, r.Key)
		if err == nil {
			_, err = t.exec(ctx, `INSERT INTO requests (client, flow, source_id, kind, key, at, due_at) VALUES (?, ?, ?, ?, ?, ?, ?)
				ON CONFLICT (flow, source_id, kind, key) DO NOTHING`,
				id(r.Client), id(r.Flow), id(r.SourceID), string(r.Kind), id(r.Key), stamp(r.At), r.DueAt.UnixMicro())
		}
		if err != nil {
			return fmt.Errorf("store a request to %s source record %s of flow %s: %w", r.Kind, r.SourceID, r.Flow, err)
		}
	}
	return nil
}

const requestColumns = `id, client, flow, source_id, kind, key, at, due_at`

func readRequest(v row) (jobs.Request, error) {
	var in stored.ReadIDs
	r := jobs.Request{ID: v.int(0), Client: in.ID(v.text(1)), Flow: in.ID(v.text(2)), SourceID: in.ID(v.text(3)),
		Kind: jobs.RequestKind(v.text(4)), Key: in.ID(v.text(5)), At: v.time(6), DueAt: v.due(7)}
	return r, in.Err
}

// Requests implements jobs.Tx.
func (t *tx) Requests(ctx context.Context, client string, now time.Time, limit int) (out []jobs.Request, err error) {
	err = t.query(ctx, `SELECT `+requestColumns+` FROM requests
		WHERE client = ? AND due_at <= ? ORDER BY at, id LIMIT ?`, []any{id(client), now.UnixMicro(), int64(limit)}, func(v row) error {
		r, err := readRequest(v)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the requests to client %s: %w", client, err)
	}
	return out, nil
}

// Asked implements jobs.Tx.
func (t *tx) Asked(ctx context.Context, clients []string, now time.Time) (out []string, err error) {
	for _, c := range clients {
		err := t.query(ctx, `SELECT 1 FROM requests WHERE client = ? AND due_at <= ? ORDER BY at, id LIMIT 1`, []any{id(c), now.UnixMicro()}, func(row) error {
			out = append(out, c)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find out whether client %s is asked for something: %w", c, err)
		}
	}
	return out, nil
}

// PostponeRequest implements jobs.Tx.
func (t *tx) PostponeRequest(ctx context.Context, request int64, due time.Time) error {
	if _, err := t.exec(ctx, `UPDATE requests SET due_at = ?2 WHERE id = ?1`, request, due.UnixMicro()); err != nil {
		return fmt.Errorf("put off request %d: %w", request, err)
	}
	return nil
}

// DeleteRequests implements jobs.Tx.
func (t *tx) DeleteRequests(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := t.exec(ctx, `DELETE FROM requests WHERE id IN (SELECT value FROM json_each(?))`, numbers(ids))
	if err != nil {
		return fmt.Errorf("remove %d requests: %w", len(ids), err)
	}
	return nil
}

// Clients implements jobs.Tx.
func (t *tx) Clients(ctx context.Context) (out []jobs.ClientState, err error) {
	err = t.query(ctx, `SELECT client, paused_until, reason, evidence, since, strikes, owner, seen_at, more FROM clients ORDER BY client`,
		nil, func(v row) error {
			var in stored.ReadIDs
			c := jobs.ClientState{Client: in.ID(v.text(0)), PausedUntil: v.time(1), Reason: v.text(2),
				Evidence: v.text(3), Since: v.time(4), Strikes: int(v.int(5)), Owner: in.ID(v.text(6)), SeenAt: v.time(7)}
			err := stored.ReadClientMore(v.text(8), &c)
			out = append(out, c)
			return errors.Join(in.Err, err)
		})
	if err != nil {
		return nil, fmt.Errorf("read the clients: %w", err)
	}
	return out, nil
}

// PutPause implements jobs.Tx.
func (t *tx) PutPause(ctx context.Context, c jobs.ClientState) error {
	_, err := t.exec(ctx, `INSERT INTO clients (client, paused_until, reason, evidence, since, strikes, owner, seen_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (client) DO UPDATE SET paused_until = excluded.paused_until,
		reason = excluded.reason, evidence = excluded.evidence, since = excluded.since, strikes = excluded.strikes,
		owner = excluded.owner, seen_at = excluded.seen_at`,
		id(c.Client), stamp(c.PausedUntil), stored.Message(c.Reason), stored.Message(c.Evidence), stamp(c.Since),
		int64(c.Strikes), id(c.Owner), stamp(c.SeenAt))
	if err != nil {
		return fmt.Errorf("store the pause of client %s: %w", c.Client, err)
	}
	return nil
}

// PutExpiryHold implements jobs.Tx.
func (t *tx) PutExpiryHold(ctx context.Context, client string, s jobs.Standing) error {
	more, err := stored.ClientMore(client, s)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, `INSERT INTO clients (client, reason, evidence, strikes, owner, more) VALUES (?, '', '', 0, '', ?)
		ON CONFLICT (client) DO UPDATE SET more = excluded.more`, id(client), more)
	if err != nil {
		return fmt.Errorf("store that expiry of client %s is held: %w", client, err)
	}
	return nil
}
