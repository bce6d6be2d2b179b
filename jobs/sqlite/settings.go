package sqlite

import (
	"context"
	"fmt"

	"syncd/internal/mutant"
	"syncd/jobs"
)

// applicationID marks the file as a journal of syncd: "sYnc" in the header's
// field for it (https://www.sqlite.org/fileformat2.html#application_id).
const applicationID = 0x73596e63

const (
	// busyMillis is how long a statement waits for another process.
	busyMillis = 5000
	// checkpointPages is how many pages the write-ahead log takes before they are
	// copied into the file: 16 MiB, so that a batch of some hundred jobs seldom pays for it.
	checkpointPages = 4000
	// walLimit is the size, in bytes, to which the log's file is cut back.
	walLimit = 64 << 20
	// writerCacheKiB and readerCacheKiB are the page cache of a connection.
	writerCacheKiB = 32 << 10
	readerCacheKiB = 8 << 10
)

// settings gives a connection its settings and reads them back.
func settings(ctx context.Context, c *conn, queryOnly bool) error {
	only, cache := int64(0), int64(writerCacheKiB)
	if queryOnly {
		only, cache = 1, readerCacheKiB
	}
	flush, level := "FULL", int64(2)
	if mutant.On("synchronous-normal") {
		flush, level = "NORMAL", 1
	}
	for _, s := range []struct {
		name   string
		set    string
		want   int64
		unsafe bool // whether the journal would not be durable without it
	}{
		{"busy_timeout", fmt.Sprint(busyMillis), busyMillis, false},
		{"synchronous", flush, level, true},
		{"wal_autocheckpoint", fmt.Sprint(checkpointPages), checkpointPages, false},
		{"journal_size_limit", fmt.Sprint(walLimit), walLimit, false},
		{"cache_size", fmt.Sprint(-cache), -cache, false},
		{"temp_store", "MEMORY", 2, false},
		{"query_only", fmt.Sprint(only), only, false},
	} {
		if _, err := c.execWaiting(ctx, "PRAGMA "+s.name+" = "+s.set); err != nil {
			return fmt.Errorf("set %s: %w", s.name, err)
		}
		got, err := c.one(ctx, "PRAGMA "+s.name)
		if err != nil {
			return fmt.Errorf("read %s back: %w", s.name, err)
		}
		if got == s.want {
			continue
		}
		err = fmt.Errorf("SQLite has %s = %v after it was set to %s", s.name, got, s.set)
		if s.unsafe {
			err = fmt.Errorf("%w: %w", jobs.ErrUnsafe, err)
		}
		return err
	}
	return nil
}

// useWAL turns the write-ahead log on; the setting stays with the file.
func useWAL(ctx context.Context, c *conn) error {
	if _, err := c.one(ctx, "PRAGMA journal_mode = WAL"); err != nil {
		return fmt.Errorf("turn the write-ahead log on: %w", err)
	}
	return nil
}

func checkWAL(ctx context.Context, c *conn) error {
	mode, err := c.one(ctx, "PRAGMA journal_mode")
	if err != nil {
		return fmt.Errorf("read journal_mode back: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("%w: SQLite keeps journal_mode = %v, not wal; stop what else has the file open and run `PRAGMA journal_mode = WAL` on it, "+
			"or put the journal on a local disk whose file system supports shared memory", jobs.ErrUnsafe, mode)
	}
	return nil
}
