package postgres

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/connectors"
	"syncd/internal/field"
)

// feed is a stream under test with its cursor.
type feed struct {
	*base
	stream *Stream
	cursor json.RawMessage
	start  connectors.Start
	limit  int
	notes  []string
	pages  int
}

func newFeed(t *testing.T, setup string, set func(s *Stream)) *feed {
	t.Helper()
	f := &feed{base: newBase(t, setup), stream: &Stream{}, start: connectors.Start{All: true}, limit: 100}
	field.Declare(f.stream)
	f.stream.Table, f.stream.ID, f.stream.Version, f.stream.Overlap = "s", "id", "updated_at", 0
	set(f.stream)
	f.settings.Tables["s"] = f.stream
	f.open()
	return f
}

func (f *feed) pull() connectors.Page {
	f.t.Helper()
	p, err := f.in.Pull(f.t.Context(), connectors.PullRequest{Stream: "s", Cursor: f.cursor, Start: f.start, Limit: f.limit})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(p.Next) > 64<<10 || !json.Valid(p.Next) {
		f.t.Fatalf("a cursor of %d bytes", len(p.Next))
	}
	f.cursor, f.notes = p.Next, append(f.notes, p.Notes...)
	f.pages++
	return p
}

// poll reads pages until there is no more, and tells the events in short.
func (f *feed) poll() string {
	f.t.Helper()
	var got []string
	for range 10_000 {
		p := f.pull()
		for _, e := range p.Events {
			s := e.SourceID
			if e.Gone {
				s += " gone"
			}
			if e.Problem != "" {
				s += "!" + e.Problem
			}
			got = append(got, s)
		}
		if !p.More {
			return strings.Join(got, " ")
		}
	}
	f.t.Fatal("there is always more")
	return ""
}

// begin opens a transaction and runs a statement in it.
func (f *feed) begin(sql string) pgx.Tx {
	f.t.Helper()
	tx, err := f.sql.Begin(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	f.within(tx, sql)
	return tx
}

func (f *feed) within(tx pgx.Tx, sql string) {
	f.t.Helper()
	if _, err := tx.Exec(f.t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		f.t.Fatalf("%s: %v", sql, err)
	}
}

func (f *feed) commit(tx pgx.Tx) {
	f.t.Helper()
	if err := tx.Commit(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

// later moves what the cursor remembers of the server's clock back, as if so much time had passed since.
func (f *feed) later(d time.Duration) {
	f.t.Helper()
	var p position
	if err := json.Unmarshal(f.cursor, &p); err != nil {
		f.t.Fatal(err)
	}
	p.Round.At -= d.Microseconds()
	for i := range p.Samples {
		p.Samples[i].At -= d.Microseconds()
	}
	p.NullsAt -= d.Microseconds()
	f.cursor = p.write()
}

const polled = `CREATE TABLE s (id int PRIMARY KEY, updated_at timestamptz, n int, x text); CREATE INDEX ON s (updated_at, id)`

// unstampedDue makes rows without stamp due.
func (f *feed) unstampedDue() {
	if f.cursor != nil {
		f.later(nullsEvery)
	}
}
