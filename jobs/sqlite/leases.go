package sqlite

import (
	"context"
	"fmt"
	"time"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// There is one daemon, by the lock on its file. Leases are kept all the same, so
// that to a daemon all journals are alike.

// freeAll gives all leases back and forgets all daemons. It is for a daemon that has
// just begun: whoever had them has ended.
func (t *tx) freeAll(ctx context.Context) error {
	any := false
	err := t.query(ctx, `SELECT 1 FROM leases WHERE token <> '' UNION ALL SELECT 1 FROM daemons LIMIT 1`, nil, func(row) error { any = true; return nil })
	if err == nil && any {
		_, err = t.exec(ctx, `UPDATE leases SET owner = '', token = ''`)
		if err == nil {
			_, err = t.exec(ctx, `DELETE FROM daemons`)
		}
	}
	if err != nil {
		return fmt.Errorf("free what an ended daemon had: %w", err)
	}
	return nil
}

// Fence implements jobs.Tx. The one writer holds every lease.
func (t *tx) Fence(ctx context.Context, f jobs.Fence) error {
	token, _, err := t.token(ctx, f.LaneID)
	if err == nil && (token == "" || token != f.Token) {
		err = t.note(jobs.ErrFenced)
	}
	if err != nil {
		return fmt.Errorf("write as the daemon that runs client %s: %w", f.LaneID, err)
	}
	return nil
}

// token is that of a lane's lease; "" when nobody has it.
func (t *tx) token(ctx context.Context, lane jobs.LaneID) (token string, until time.Time, err error) {
	err = t.query(ctx, `SELECT token, until FROM leases WHERE client = ? AND shard = ?`, []any{id(lane.Client), int64(lane.Shard)}, func(v row) (err error) {
		token, err = stored.ParseID(v.text(0))
		until = v.time(1)
		return err
	})
	return token, until, err
}

// Leases implements jobs.Tx.
func (t *tx) Leases(ctx context.Context) (out []jobs.Lease, err error) {
	now := t.now()
	err = t.query(ctx, `SELECT client, shard, owner, token, since, until FROM leases ORDER BY client, shard`, nil, func(v row) error {
		var in stored.ReadIDs
		l := jobs.Lease{LaneID: jobs.LaneID{Client: in.ID(v.text(0)), Shard: int(v.int(1))}, Owner: in.ID(v.text(2)), Token: in.ID(v.text(3)),
			Since: v.time(4), Until: v.time(5)}
		l.Lapsed = !now.Before(l.Until)
		out = append(out, l)
		return in.Err
	})
	if err != nil {
		return nil, fmt.Errorf("read which daemons run which clients: %w", err)
	}
	return out, nil
}

// TakeLease implements jobs.Tx.
func (t *tx) TakeLease(ctx context.Context, l jobs.Lease, was string, d time.Duration) (bool, error) {
	held, until, err := t.token(ctx, l.LaneID)
	if err == nil && (held != was || !l.Until.IsZero() && !until.Equal(l.Until)) {
		return false, nil
	}
	if err == nil {
		now := t.now()
		_, err = t.exec(ctx, `INSERT INTO leases (client, shard, owner, token, since, until) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (client, shard) DO UPDATE SET owner = excluded.owner, token = excluded.token, since = excluded.since, until = excluded.until`,
			id(l.Client), int64(l.Shard), id(l.Owner), id(l.Token), stamp(now), stamp(now.Add(d)))
	}
	if err != nil {
		return false, fmt.Errorf("take client %s: %w", l.LaneID, err)
	}
	return true, nil
}

// RenewLeases implements jobs.Tx.
func (t *tx) RenewLeases(ctx context.Context, tokens []string, d time.Duration) (lost []string, err error) {
	until := t.now().Add(d)
	for _, token := range stored.Strings(tokens) {
		n, err := t.exec(ctx, `UPDATE leases SET until = ?2 WHERE token = ?1 AND token <> ''`, id(token), stamp(until))
		if err != nil {
			return nil, fmt.Errorf("go on running %d clients: %w", len(tokens), err)
		}
		if n == 0 {
			lost = append(lost, token)
		}
	}
	return lost, nil
}

// FreeLease implements jobs.Tx.
func (t *tx) FreeLease(ctx context.Context, f jobs.Fence) error {
	_, err := t.exec(ctx, `UPDATE leases SET owner = '', token = '' WHERE client = ? AND shard = ? AND token = ?`,
		id(f.Client), int64(f.Shard), id(f.Token))
	if err != nil {
		return fmt.Errorf("give client %s back: %w", f.LaneID, err)
	}
	return nil
}

// Daemons implements jobs.Tx.
func (t *tx) Daemons(ctx context.Context) (out []jobs.Daemon, err error) {
	now := t.now()
	err = t.query(ctx, `SELECT owner, process, since, until, lanes, leaving FROM daemons ORDER BY owner`, nil, func(v row) error {
		var in stored.ReadIDs
		m := jobs.Daemon{Owner: in.ID(v.text(0)), Since: v.time(2), Until: v.time(3), Leaving: v.bool(5)}
		m.Lapsed = !now.Before(m.Until)
		process, err := stored.ParseProcess(v.text(1))
		m.Process = process
		if err == nil {
			m.Lanes, err = stored.ParseLanes(v.text(4))
		}
		if err != nil {
			return fmt.Errorf("daemon %s: %w", m.Owner, err)
		}
		out = append(out, m)
		return in.Err
	})
	if err != nil {
		return nil, fmt.Errorf("read which daemons there are: %w", err)
	}
	return out, nil
}

// PutDaemon implements jobs.Tx.
func (t *tx) PutDaemon(ctx context.Context, m jobs.Daemon, d time.Duration) error {
	process, err := stored.Process(m.Process)
	if err != nil {
		return fmt.Errorf("store daemon %s: %w", m.Owner, err)
	}
	lanes, err := stored.Lanes(m.Lanes)
	if err == nil {
		_, err = t.exec(ctx, `INSERT INTO daemons (owner, process, since, until, lanes, leaving) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (owner) DO UPDATE SET process = excluded.process, since = excluded.since, until = excluded.until,
			lanes = excluded.lanes, leaving = excluded.leaving`,
			id(m.Owner), process, stamp(m.Since), stamp(t.now().Add(d)), lanes, m.Leaving)
	}
	if err != nil {
		return fmt.Errorf("store daemon %s: %w", m.Owner, err)
	}
	return nil
}

// DeleteDaemon implements jobs.Tx.
func (t *tx) DeleteDaemon(ctx context.Context, owner string) error {
	if _, err := t.exec(ctx, `DELETE FROM daemons WHERE owner = ?`, id(owner)); err != nil {
		return fmt.Errorf("remove daemon %s: %w", owner, err)
	}
	return nil
}
