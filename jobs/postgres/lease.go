package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/internal/crash"
	"syncd/jobs"
)

var (
	// leaseFor is how long the lease of a daemon lasts after its last renewal.
	leaseFor = crash.Shorten(30 * time.Second)
	// renewEvery is how often it is renewed.
	renewEvery = crash.Shorten(10 * time.Second)
	// renewAgain is how soon a renewal that failed is tried again.
	renewAgain = crash.Shorten(2 * time.Second)
	// leaseMargin is taken off the time for which this process trusts its lease, for
	// clocks that do not run alike.
	leaseMargin = crash.Shorten(2 * time.Second)
)

const (
	// leasePatience bounds one renewal.
	leasePatience = 5 * time.Second
	// lockPatience bounds the wait for the lease's row, behind a pooler too.
	lockPatience = `SET LOCAL lock_timeout = '5s'`
)

// lease is the journal's one row that says which daemon has it. Whoever holds the
// row's token may write; every writing transaction holds the row against being
// taken over until it ends.
type lease struct {
	pool  *pgxpool.Pool
	q     *queries
	log   *slog.Logger
	me    process
	token string // random per start

	trusted  atomic.Pointer[time.Time]
	lost     chan struct{}
	loseOnce sync.Once
}

func newLease(pool *pgxpool.Pool, q *queries, log *slog.Logger) *lease {
	l := &lease{pool: pool, q: q, log: log, me: thisProcess(), token: rand.Text(), lost: make(chan struct{})}
	l.trusted.Store(&time.Time{})
	return l
}

// holding is what the lease's row tells of the daemon that has it.
type holding struct {
	process
	token        string
	since, until time.Time
	lapsed       bool
}

func readHolding(row pgx.Row) (h holding, err error) {
	err = row.Scan(&h.host, &h.bootID, &h.pidSpace, &h.pid, &h.started, &h.token, &h.since, &h.until, &h.lapsed)
	if err != nil {
		err = fmt.Errorf("look at the daemon's lease: %w", err)
	}
	return h, err
}

// inUse is the error for a lease that another daemon has; nil if it is free, has lapsed, or its holder has ended for certain.
func (h *holding) inUse(me process) error {
	if h.token == "" || h.lapsed || h.gone(me) {
		return nil
	}
	return fmt.Errorf("%w: process %d on %s has it since %s, at least until %s; stop that daemon first, or wait until then if it is dead",
		jobs.ErrInUse, h.pid, h.host, h.since.UTC().Format(time.RFC3339), h.until.UTC().Format(time.RFC3339))
}

// take takes the lease if it is free, has lapsed, or its holder has ended for certain. It looks before it waits for the row: a holder that was stopped
// in the middle of a transaction keeps that locked.
func (l *lease) take(ctx context.Context) error {
	crash.At("lease.taking")
	start := time.Now()
	seen, err := readHolding(l.pool.QueryRow(ctx, l.q.leaseLook))
	if err == nil {
		err = seen.inUse(l.me)
	}
	if err != nil {
		return err
	}
	err = pgx.BeginFunc(ctx, l.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockPatience); err != nil {
			return fmt.Errorf("set how long to wait for the daemon's lease: %w", err)
		}
		h, err := readHolding(tx.QueryRow(ctx, l.q.leaseLook+" FOR UPDATE"))
		if err != nil {
			return err
		}
		if err := h.inUse(l.me); err != nil {
			return err
		}
		if h.token != "" && !h.lapsed {
			l.log.Info("took the journal over from a daemon that ended without giving it back", "pid", h.pid, "since", h.since.UTC())
		}
		_, err = tx.Exec(ctx, l.q.leaseTake, l.token, l.me.host, l.me.bootID, l.me.pidSpace, l.me.pid, l.me.started, leaseFor)
		return err
	})
	if sqlstate(err) == lockNotAvailable {
		return l.locked(ctx, seen)
	}
	if err == nil {
		crash.At("lease.taken")
		l.trust(start)
	}
	return err
}

// locked is the error for a lease that may be taken and whose row a transaction still holds.
func (l *lease) locked(ctx context.Context, h holding) error {
	if now, err := readHolding(l.pool.QueryRow(ctx, l.q.leaseLook)); err == nil {
		h = now
		if err := h.inUse(l.me); err != nil {
			return err
		}
	}
	if h.token == "" {
		return fmt.Errorf("%w: a transaction of another session holds its lease; try again when that has ended", jobs.ErrInUse)
	}
	return fmt.Errorf("%w: process %d on %s has it since %s; its lease lapsed at %s, but a transaction of it is still open, as when a process was stopped; "+
		"stop that daemon, or wait: the server ends such a transaction after a minute", jobs.ErrInUse, h.pid, h.host, h.since.UTC().Format(time.RFC3339), h.until.UTC().Format(time.RFC3339))
}

// trust counts from before the query that renewed the lease, by this process's
// monotonic clock.
func (l *lease) trust(start time.Time) {
	until := start.Add(leaseFor - leaseMargin)
	l.trusted.Store(&until)
}

// keep renews the lease until ctx ends or another daemon has it. While the
// database cannot be reached the lease may lapse; it is renewed all the same
// afterwards if nobody took it meanwhile.
func (l *lease) keep(ctx context.Context) {
	next := time.NewTimer(renewEvery)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lost:
			return
		case <-next.C:
		}
		err := l.renew(ctx)
		switch {
		case err == nil:
			next.Reset(renewEvery)
		case errors.Is(err, jobs.ErrInUse):
			l.log.Error("another daemon has taken the journal over")
			return
		default:
			if ctx.Err() == nil {
				l.log.Warn("could not renew the lease on the journal", "error", err)
			}
			next.Reset(renewAgain)
		}
	}
}

func (l *lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, leasePatience)
	defer cancel()
	crash.At("lease.renewing")
	start := time.Now()
	touched, err := l.exec(ctx, l.q.leaseRenew, l.token, leaseFor)
	if err != nil {
		return fmt.Errorf("renew the lease on the journal: %w", err)
	}
	if touched == 0 {
		return l.lose()
	}
	crash.At("lease.renewed")
	l.trust(start)
	return nil
}

// lose notes that another daemon has the journal.
func (l *lease) lose() error {
	l.loseOnce.Do(func() {
		l.trusted.Store(&time.Time{})
		close(l.lost)
	})
	return fmt.Errorf("%w: it took over when this one did not renew its lease in time", jobs.ErrInUse)
}

func (l *lease) isLost() bool {
	select {
	case <-l.lost:
		return true
	default:
		return false
	}
}

// release gives the lease back, so that the next daemon need not wait.
func (l *lease) release() error {
	defer l.pool.Close()
	if l.isLost() || l.trusted.Load().IsZero() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), leasePatience)
	defer cancel()
	if _, err := l.exec(ctx, l.q.leaseRelease, l.token); err != nil {
		return fmt.Errorf("give the lease on the journal back (it lapses within %s): %w", leaseFor, err)
	}
	return nil
}

// exec runs a statement over the lease. Doing it twice does no harm, so one that
// met a connection which had ended is done again on a new one.
func (l *lease) exec(ctx context.Context, sql string, args ...any) (int64, error) {
	tag, err := l.pool.Exec(ctx, sql, args...)
	if err != nil && again(err) {
		l.pool.Reset()
		tag, err = l.pool.Exec(ctx, sql, args...)
	}
	return tag.RowsAffected(), err
}

// Lost is closed when another daemon has taken the journal over. Nothing can be
// written by this engine any more.
func (e *Engine) Lost() <-chan struct{} {
	if e.lease == nil {
		return nil
	}
	return e.lease.lost
}

// LostWhy says, once Lost is closed, what happened and what to do.
func (e *Engine) LostWhy() error {
	return fmt.Errorf("%w: it took over when this one did not renew its lease in time", jobs.ErrInUse)
}

// TrustedUntil is the moment, with a monotonic reading, until which no other
// daemon can have the journal. A request to a target must not be started after
// it, and one that still runs then must be cancelled. It moves on with each
// renewal; it is in the past once the lease has lapsed or is lost.
func (e *Engine) TrustedUntil() time.Time {
	if e.lease == nil {
		return time.Now().Add(time.Hour)
	}
	return *e.lease.trusted.Load()
}
