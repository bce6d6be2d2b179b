package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/internal/process"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// A daemon of a version before leases has the whole journal, by one row; daemons
// since then are in a table. Neither may be at work while the schema changes.

// holding is what that row tells of the daemon that has it.
type holding struct {
	process.ID
	token        string
	since, until time.Time
	lapsed       bool
}

func (e *Engine) readHolding(ctx context.Context, lock pgx.Tx, how string) (h holding, err error) {
	err = lock.QueryRow(ctx, e.q.leaseLook+how).Scan(&h.Host, &h.BootID, &h.PIDSpace, &h.PID, &h.Started, &h.token, &h.since, &h.until, &h.lapsed)
	if err != nil {
		err = fmt.Errorf("look at the daemon's lease: %w", err)
	}
	return h, err
}

// inUse is the error for a journal that a daemon has; nil if none does, its lease
// has lapsed, or it has ended for certain.
func (h *holding) inUse(me process.ID) error {
	if h.token == "" || h.lapsed || h.Ended(me) {
		return nil
	}
	return inUse(h.ID, h.since, h.until)
}

func inUse(p process.ID, since, until time.Time) error {
	return fmt.Errorf("%w: process %d on %s has it since %s, at least until %s; the journal has to be brought up to date, "+
		"so stop that daemon first, or wait until then if it is dead", jobs.ErrInUse, p.PID, p.Host, since.UTC().Format(time.RFC3339), until.UTC().Format(time.RFC3339))
}

// keepOut refuses while another daemon is at work, and holds the row that an older
// one needs until the transaction lock ends. It looks before it waits for the row: a
// daemon that was stopped in the middle of a transaction keeps that locked.
func (e *Engine) keepOut(ctx context.Context, lock pgx.Tx) error {
	me := process.This()
	if err := e.living(ctx, lock, me); err != nil {
		return err
	}
	seen, err := e.readHolding(ctx, lock, "")
	if err == nil {
		err = seen.inUse(me)
	}
	if err != nil {
		return err
	}
	if _, err := lock.Exec(ctx, `SET LOCAL lock_timeout = '5s'`); err != nil {
		return fmt.Errorf("set how long to wait for the daemon's lease: %w", err)
	}
	h, err := e.readHolding(ctx, lock, " FOR UPDATE")
	switch {
	case sqlstate(err) == lockNotAvailable && seen.token == "":
		return fmt.Errorf("%w: a transaction of another session holds its lease; try again when that has ended", jobs.ErrInUse)
	case sqlstate(err) == lockNotAvailable:
		return fmt.Errorf("%w: process %d on %s has it since %s; its lease lapsed at %s, but a transaction of it is still open, as when a process was stopped; "+
			"stop that daemon, or wait: the server ends such a transaction after a minute", jobs.ErrInUse, seen.PID, seen.Host,
			seen.since.UTC().Format(time.RFC3339), seen.until.UTC().Format(time.RFC3339))
	case err != nil:
		return err
	}
	return h.inUse(me)
}

// living refuses while a daemon of a version with leases is at work.
func (e *Engine) living(ctx context.Context, lock pgx.Tx, me process.ID) error {
	var there bool
	if err := lock.QueryRow(ctx, `SELECT to_regclass($1) IS NOT NULL`, e.o.Schema+".members").Scan(&there); err != nil || !there {
		return err
	}
	rows, err := lock.Query(ctx, `SELECT process, since, expires_at FROM `+e.o.Schema+`.members WHERE expires_at > clock_timestamp()`)
	if err != nil {
		return fmt.Errorf("read which daemons are at work: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		var since *time.Time
		var until time.Time
		if err := rows.Scan(&text, &since, &until); err != nil {
			return fmt.Errorf("read which daemons are at work: %w", err)
		}
		p, err := stored.ParseProcess(text)
		if err != nil {
			return err
		}
		if since == nil {
			since = &time.Time{}
		}
		if !p.Ended(me) {
			return inUse(p, *since, until)
		}
	}
	return rows.Err()
}
