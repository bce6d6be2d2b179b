package file

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

var day = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// gate counts calls, and lets none out once it is shut.
type gate struct {
	waits int
	shut  error
}

func (g *gate) Wait(ctx context.Context) error {
	g.waits++
	if g.shut != nil {
		return g.shut
	}
	return ctx.Err()
}

func (g *gate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (*gate) Longest() time.Duration { return 24 * time.Hour }

func (g *gate) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

// desk is a folder with a stream that reads from it.
type desk struct {
	t      *testing.T
	dir    string
	now    time.Time
	gate   *gate
	in     *instance
	cursor json.RawMessage
	start  connectors.Start
	limit  int
	notes  []string
}

// newDesk makes a stream "s" with defaults, changed by set.
func newDesk(t *testing.T, set func(s *Stream)) *desk {
	t.Helper()
	st := &Stream{}
	field.Declare(st)
	st.Path, st.Format, st.ID = "orders.jsonl", formatJSONL, "id"
	set(st)
	d := &desk{t: t, dir: t.TempDir(), now: day, gate: &gate{}, start: connectors.Start{All: true}, limit: 100}
	d.restart(st)
	t.Cleanup(func() { _ = d.in.Close() })
	return d
}

// restart opens the client anew, as a daemon that was started again does.
func (d *desk) restart(st *Stream) {
	d.t.Helper()
	if d.in != nil {
		if st == nil {
			st = d.in.settings.Files["s"]
		}
		if err := d.in.Close(); err != nil {
			d.t.Fatal(err)
		}
	}
	s := &Settings{Dir: d.dir, Files: map[string]*Stream{"s": st}}
	i, err := s.Open(d.t.Context(), connectors.Env{Client: "c", Gate: d.gate, Now: func() time.Time { return d.now }, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		d.t.Fatal(err)
	}
	d.in = i.(*instance)
}

// write makes a file that changed at the desk's time, which then goes on by a second.
func (d *desk) write(name, content string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		d.t.Fatal(err)
	}
	d.touch(name)
}

func (d *desk) add(name, content string) {
	d.t.Helper()
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := f.WriteString(content); err != nil {
		d.t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		d.t.Fatal(err)
	}
	d.touch(name)
}

// replace puts a new file in the place of another, as an exporter that moves its finished file does.
func (d *desk) replace(name, content string) {
	d.t.Helper()
	d.write(name+".new", content)
	if err := os.Rename(filepath.Join(d.dir, name+".new"), filepath.Join(d.dir, name)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) touch(name string) {
	d.t.Helper()
	if err := os.Chtimes(filepath.Join(d.dir, name), d.now, d.now); err != nil {
		d.t.Fatal(err)
	}
	d.now = d.now.Add(time.Second)
}

// pull reads one page and goes on from it.
func (d *desk) pull() connectors.Page {
	d.t.Helper()
	p, err := d.tryPull()
	if err != nil {
		d.t.Fatal(err)
	}
	return p
}

func (d *desk) tryPull() (connectors.Page, error) {
	d.t.Helper()
	p, err := d.in.Pull(d.t.Context(), connectors.PullRequest{Stream: "s", Cursor: d.cursor, Start: d.start, Limit: d.limit})
	if err != nil {
		return p, err
	}
	if len(p.Next) > 64<<10 || !json.Valid(p.Next) {
		d.t.Fatalf("a cursor of %d bytes", len(p.Next))
	}
	d.cursor = p.Next
	d.notes = append(d.notes, p.Notes...)
	return p, nil
}

// round reads pages until there is no more, and tells the events in short: id, or ! and the problem. If the reading fails because of a file, ? and why come last.
func (d *desk) round() string {
	d.t.Helper()
	var got []string
	for range 10_000 {
		p, err := d.tryPull()
		var e *connectors.Error
		if errors.As(err, &e) && e.Class == connectors.Invalid {
			return strings.Join(append(got, "?"+e.Code+": "+e.Message), " | ")
		}
		if err != nil {
			d.t.Fatal(err)
		}
		for _, e := range p.Events {
			got = append(got, brief(e))
		}
		if !p.More {
			return strings.Join(got, " | ")
		}
	}
	d.t.Fatal("there is always more")
	return ""
}

func brief(e connectors.Event) string {
	s := e.SourceID
	if e.Gone {
		s += " gone"
	}
	if e.Problem != "" {
		s += "!" + e.Problem
	}
	return s
}

func (d *desk) want(got, want string) {
	d.t.Helper()
	if got != want {
		d.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// ids is the brief of events with those ids.
func ids(from, to int) string {
	var s []string
	for i := from; i <= to; i++ {
		s = append(s, fmt.Sprint(i))
	}
	return strings.Join(s, " | ")
}

// lines are JSON lines with those ids.
func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "{\"id\":%d}\n", i)
	}
	return b.String()
}

func csvStream(path string) func(*Stream) {
	return func(s *Stream) { s.Path, s.Format, s.ID = path, formatCSV, "id" }
}
