package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddAttempts implements jobs.Tx.
func (t *tx) AddAttempts(ctx context.Context, as []jobs.Attempt) error {
	if len(as) == 0 {
		return nil
	}
	_, err := t.exec(ctx, t.q.attemptsAdd,
		column(as, func(a *jobs.Attempt) string { return stored.ID(a.Flow) }),
		column(as, func(a *jobs.Attempt) string { return stored.ID(a.Key) }),
		column(as, func(a *jobs.Attempt) int64 { return a.Number }),
		column(as, func(a *jobs.Attempt) int64 { return a.Generation }),
		column(as, func(a *jobs.Attempt) pgtype.Timestamptz { return stamp(a.At) }),
		column(as, func(a *jobs.Attempt) string { return stored.Message(string(a.Class)) }),
		column(as, func(a *jobs.Attempt) string { return stored.Message(a.Code) }),
		column(as, func(a *jobs.Attempt) string { return stored.Message(a.Message) }))
	if err != nil {
		return fmt.Errorf("store %d attempts: %w", len(as), err)
	}
	return nil
}

// Attempts implements jobs.Tx.
func (t *tx) Attempts(ctx context.Context, id jobs.RowID, limit int) (out []jobs.Attempt, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		a := jobs.Attempt{RowID: id}
		var at pgtype.Timestamptz
		var class string
		if err := rows.Scan(&a.Number, &a.Generation, &at, &class, &a.Code, &a.Message); err != nil {
			return err
		}
		a.At, a.Class = moment(at), connectors.Class(class)
		out = append(out, a)
		return nil
	}, t.q.attempts, stored.ID(id.Flow), stored.ID(id.Key), limit)
	if err != nil {
		return nil, fmt.Errorf("read the attempts of %s: %w", id, err)
	}
	return out, nil
}

// PruneAttempts implements jobs.Tx.
func (t *tx) PruneAttempts(ctx context.Context, after int64, before time.Time, limit int) (int, int64, error) {
	last := after
	err := t.query(ctx, func(rows pgx.Rows) error { return rows.Scan(&last) }, t.q.attemptsOld, after, before, limit)
	var n int64
	if err == nil {
		n, err = t.exec(ctx, t.q.attemptsPrune, after, before, limit)
	}
	if err != nil {
		return 0, after, fmt.Errorf("remove the oldest %d attempts: %w", limit, err)
	}
	return int(n), last, nil
}

// DeleteAttempts implements jobs.Tx.
func (t *tx) DeleteAttempts(ctx context.Context, ids []jobs.RowID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, t.q.attemptsDelete, keyArgs(stored.RowIDs(ids))...); err != nil {
		return fmt.Errorf("remove the attempts of %d rows: %w", len(ids), err)
	}
	return nil
}

// AddRequests implements jobs.Tx.
func (t *tx) AddRequests(ctx context.Context, rs []jobs.Request) error {
	if len(rs) == 0 {
		return nil
	}
	for _, r := range rs {
		if err := stored.Fit(r.SourceID, r.Key); err != nil {
			return fmt.Errorf("store a request of flow %s: %w", r.Flow, err)
		}
	}
	// In one order in every transaction, so that two do not wait for each other.
	rs = slices.Clone(rs)
	slices.SortStableFunc(rs, func(a, b jobs.Request) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.SourceID, b.SourceID), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key))
	})
	_, err := t.exec(ctx, t.q.requestsAdd,
		column(rs, func(r *jobs.Request) string { return stored.ID(r.Client) }),
		column(rs, func(r *jobs.Request) string { return stored.ID(r.Flow) }),
		column(rs, func(r *jobs.Request) string { return stored.ID(r.SourceID) }),
		column(rs, func(r *jobs.Request) string { return string(r.Kind) }),
		column(rs, func(r *jobs.Request) string { return stored.ID(r.Key) }),
		column(rs, func(r *jobs.Request) pgtype.Timestamptz { return stamp(r.At) }),
		column(rs, func(r *jobs.Request) pgtype.Timestamptz { return due(r.DueAt) }))
	if err != nil {
		return fmt.Errorf("store %d requests: %w", len(rs), err)
	}
	return nil
}

// Requests implements jobs.Tx.
func (t *tx) Requests(ctx context.Context, client string, now time.Time, limit int) (out []jobs.Request, err error) {
	if out, err = t.readRequests(ctx, t.q.requests, stored.ID(client), now, limit); err != nil {
		return nil, fmt.Errorf("read the requests to client %s: %w", client, err)
	}
	return out, nil
}

// Asked implements jobs.Tx.
func (t *tx) Asked(ctx context.Context, clients []string, now time.Time) (out []string, err error) {
	if len(clients) == 0 {
		return nil, nil
	}
	err = t.query(ctx, func(rows pgx.Rows) error {
		var c string
		if err := rows.Scan(&c); err != nil {
			return err
		}
		var in stored.ReadIDs
		out = append(out, in.ID(c))
		return in.Err
	}, t.q.asked, stored.IDs(clients), now)
	if err != nil {
		return nil, fmt.Errorf("find out which of %d clients are asked for something: %w", len(clients), err)
	}
	return out, nil
}

func (t *tx) readRequests(ctx context.Context, sql string, args ...any) (out []jobs.Request, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var r jobs.Request
		var at, dueAt pgtype.Timestamptz
		var kind string
		if err := rows.Scan(&r.ID, &r.Client, &r.Flow, &r.SourceID, &kind, &r.Key, &at, &dueAt); err != nil {
			return err
		}
		var in stored.ReadIDs
		r.Client, r.Flow, r.SourceID, r.Key = in.ID(r.Client), in.ID(r.Flow), in.ID(r.SourceID), in.ID(r.Key)
		r.Kind, r.At, r.DueAt = jobs.RequestKind(kind), moment(at), moment(dueAt)
		out = append(out, r)
		return in.Err
	}, sql, args...)
	return out, err
}

// PostponeRequest implements jobs.Tx.
func (t *tx) PostponeRequest(ctx context.Context, id int64, at time.Time) error {
	if _, err := t.exec(ctx, t.q.requestPostpone, id, due(at)); err != nil {
		return fmt.Errorf("put off request %d: %w", id, err)
	}
	return nil
}

// DeleteRequests implements jobs.Tx.
func (t *tx) DeleteRequests(ctx context.Context, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := t.exec(ctx, t.q.requestsDelete, ids); err != nil {
		return fmt.Errorf("remove %d requests: %w", len(ids), err)
	}
	return nil
}

// Clients implements jobs.Tx.
func (t *tx) Clients(ctx context.Context) (out []jobs.ClientState, err error) {
	err = t.query(ctx, func(rows pgx.Rows) error {
		var c jobs.ClientState
		var paused, since, seen pgtype.Timestamptz
		var more string
		if err := rows.Scan(&c.Client, &paused, &c.Reason, &c.Evidence, &since, &c.Strikes, &c.Owner, &seen, &more); err != nil {
			return err
		}
		var in stored.ReadIDs
		c.Client, c.Owner = in.ID(c.Client), in.ID(c.Owner)
		c.PausedUntil, c.Since, c.SeenAt = moment(paused), moment(since), moment(seen)
		err := cmp.Or(in.Err, stored.ReadClientMore(more, &c))
		out = append(out, c)
		return err
	}, t.q.clients)
	if err != nil {
		return nil, fmt.Errorf("read the clients: %w", err)
	}
	return out, nil
}

// PutPause implements jobs.Tx.
func (t *tx) PutPause(ctx context.Context, c jobs.ClientState) error {
	_, err := t.exec(ctx, t.q.pausePut, stored.ID(c.Client), stamp(c.PausedUntil), stored.Message(c.Reason), stored.Message(c.Evidence),
		stamp(c.Since), int32(c.Strikes), stored.ID(c.Owner), stamp(c.SeenAt))
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
	if _, err := t.exec(ctx, t.q.expiryHoldPut, stored.ID(client), more); err != nil {
		return fmt.Errorf("store that expiry of client %s is held: %w", client, err)
	}
	return nil
}
