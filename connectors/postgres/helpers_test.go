package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/internal/gatetest"
	"syncd/internal/pgtest"
	"syncd/ratelimit"
)

var day = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// gate counts what asks for it, can be shut, and can do something before it lets a call out.
type gate struct {
	mu      sync.Mutex
	waits   int
	shut    error
	before  func(call int)
	signals []ratelimit.Signal
}

func (g *gate) Wait(ctx context.Context) error {
	g.mu.Lock()
	g.waits++
	n, before, shut := g.waits, g.before, g.shut
	g.mu.Unlock()
	if before != nil {
		before(n)
	}
	if shut != nil {
		return shut
	}
	return ctx.Err()
}

func (g *gate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (*gate) Longest() time.Duration { return 24 * time.Hour }

func (g *gate) Observe(_ context.Context, s ratelimit.Signal, _ time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.signals = append(g.signals, s)
	return s.Throttled
}

// base is a database of the test's own, and a client that is connected to it.
type base struct {
	t        testing.TB
	dsn      string
	sql      *pgxpool.Pool
	settings *Settings
	gate     *gate
	now      time.Time
	in       *instance
}

// newBase makes a database by running setup.
func newBase(t testing.TB, setup string) *base {
	t.Helper()
	b := &base{t: t, dsn: pgtest.DSN(t), gate: &gate{}, now: day, settings: &Settings{}}
	pool, err := pgxpool.New(t.Context(), b.dsn)
	if err != nil {
		t.Fatal(err)
	}
	b.sql = pool
	t.Cleanup(pool.Close)
	b.exec(setup)
	field.Declare(b.settings)
	b.settings.DSN = field.NewSecret(b.dsn)
	b.settings.Records, b.settings.Tables = map[string]*Entity{}, map[string]*Stream{}
	return b
}

func (b *base) exec(sql string, args ...any) {
	b.t.Helper()
	var err error
	if len(args) == 0 {
		_, err = b.sql.Exec(b.t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	} else {
		_, err = b.sql.Exec(b.t.Context(), sql, args...)
	}
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
}

// rows runs a query and gives its rows as texts, columns by blanks and rows by " | ".
func (b *base) rows(sql string) string {
	b.t.Helper()
	rows, err := b.sql.Query(b.t.Context(), sql, pgx.QueryExecModeSimpleProtocol)
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	all, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (string, error) {
		var parts []string
		for _, v := range r.RawValues() {
			if v == nil {
				parts = append(parts, "NULL")
				continue
			}
			parts = append(parts, string(v))
		}
		return strings.Join(parts, " "), nil
	})
	if err != nil {
		b.t.Fatalf("%s: %v", sql, err)
	}
	return strings.Join(all, " | ")
}

func (b *base) want(sql, want string) {
	b.t.Helper()
	if got := b.rows(sql); got != want {
		b.t.Errorf("%s\ngot  %s\nwant %s", sql, got, want)
	}
}

func (b *base) env() connectors.Env {
	return connectors.Env{Client: "erp", Gate: b.gate, Timeout: 30 * time.Second, Concurrency: 2, Log: slog.New(slog.DiscardHandler),
		Now: func() time.Time { return b.now }, UserAgent: "syncd/test"}
}

func (b *base) open() *instance {
	b.t.Helper()
	if b.in != nil {
		return b.in
	}
	i, err := b.settings.Open(b.t.Context(), b.env())
	if err != nil {
		b.t.Fatal(err)
	}
	b.in = i.(*instance)
	b.t.Cleanup(func() { _ = i.Close() })
	return b.in
}

// entity declares an entity "e" with defaults, changed by set, and opens it.
func (b *base) entity(set func(e *Entity)) *entity {
	b.t.Helper()
	e := &Entity{}
	field.Declare(e)
	set(e)
	b.settings.Records["e"] = e
	got, err := b.open().Entity("e")
	if err != nil {
		b.t.Fatal(err)
	}
	if l, ok := got.(lookedUp); ok {
		return l.rows.(*entity)
	}
	return got.(*entity)
}

// asRole has the client log in as another role.
func (b *base) asRole(role string) {
	b.t.Helper()
	u, err := url.Parse(b.dsn)
	if err != nil {
		b.t.Fatal(err)
	}
	u.User = url.User(role)
	b.settings.DSN = field.NewSecret(u.String())
}

func child(set func(c *Child)) *Child {
	c := &Child{}
	field.Declare(c)
	set(c)
	return c
}

func version(v int64, second int) connectors.Stamp {
	return connectors.Stamp{Version: v, Observed: day.Add(time.Duration(second) * time.Second)}
}

func write(key, body string, v int64) connectors.Write {
	return connectors.Write{Key: key, Body: json.RawMessage(body), Stamp: version(v, 0)}
}

// brief tells outcomes in short.
func brief(os ...connectors.Outcome) string {
	var s []string
	for _, o := range os {
		t := string(o.Class)
		if o.Code != "" {
			t += "/" + o.Code
		}
		if o.Link != "" {
			t += " " + o.Link
		}
		s = append(s, t)
	}
	return strings.Join(s, ", ")
}

func (b *base) same(got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// clear asks for all of some outcomes to be confirmed.
func (b *base) confirmed(os []connectors.Outcome) {
	b.t.Helper()
	for i, o := range os {
		if !o.Class.Confirmed() {
			b.t.Errorf("record %d: %s: %s", i, brief(o), o.Message)
		}
	}
}

func numbered(n int) string { return fmt.Sprintf("K-%04d", n) }
