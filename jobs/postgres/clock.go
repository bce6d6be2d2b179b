package postgres

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// clock carries the database's time on by this process's monotonic clock, so that
// the time costs no round trip and all processes of a journal have one time.
type clock struct {
	now   func() time.Time // instead of it all, in tests
	known atomic.Pointer[reading]
}

// reading is the database's time at a moment of this process.
type reading struct {
	at       time.Time // with its monotonic part
	database time.Time
}

func (r *reading) on(at time.Time) time.Time { return r.database.Add(at.Sub(r.at)) }

const (
	// clockEvery is how often the clock is measured anew. Clocks drift some 50 µs a second at worst.
	clockEvery = 30 * time.Second
	// clockPatience bounds one measurement.
	clockPatience = 5 * time.Second
	clockSamples  = 3
)

func (c *clock) read() time.Time {
	if c.now != nil {
		return c.now().UTC().Truncate(time.Microsecond)
	}
	return c.known.Load().on(time.Now()).UTC().Truncate(time.Microsecond)
}

// acquire returns a connection and what gives it back.
type acquire func(context.Context) (*pgxpool.Conn, func(), error)

// measure takes the median of a few readings. A reading is taken half-way through
// its round trip; one that differs from what is known by less than that much
// says nothing new and is dropped, so that the time does not tremble.
func (c *clock) measure(ctx context.Context, acquire acquire) error {
	type sample struct {
		reading
		doubt time.Duration
	}
	conn, release, err := acquire(ctx)
	if err != nil {
		return fmt.Errorf("read the database's clock: %w", err)
	}
	defer release()
	samples := make([]sample, 0, clockSamples)
	for range clockSamples {
		var database time.Time
		start := time.Now()
		if err := conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&database); err != nil {
			return fmt.Errorf("read the database's clock: %w", err)
		}
		half := time.Since(start) / 2
		samples = append(samples, sample{reading{start.Add(half), database}, half})
	}
	offset := func(s sample) time.Duration { return s.database.Sub(s.at) }
	slices.SortFunc(samples, func(a, b sample) int { return int(offset(a) - offset(b)) })
	s := samples[len(samples)/2]
	if old := c.known.Load(); old != nil && s.database.Sub(old.on(s.at)).Abs() <= s.doubt {
		return nil
	}
	c.known.Store(&s.reading)
	return nil
}

// keep measures again and again until ctx ends. A database that does not answer
// leaves the clock as it is.
func (c *clock) keep(ctx context.Context, acquire acquire) {
	tick := time.NewTicker(clockEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			once, cancel := context.WithTimeout(ctx, clockPatience)
			_ = c.measure(once, acquire)
			cancel()
		}
	}
}
