package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/field"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func TestDefaultsOfAMinimalConfiguration(t *testing.T) {
	c := mustLoad(t, minimal)
	retry := Retry{MaxAttempts: 10, InitialDelay: 2 * time.Second, MaxDelay: 30 * time.Minute, Multiplier: 2, Jitter: "full", Timeout: 5 * time.Minute, RetryFor: 2 * time.Hour}
	breaker := Breaker{Window: time.Minute, MinCalls: 10, Ratio: 0.6, InRow: 5, OpenFor: 30 * time.Second}
	want := &Config{
		Path: "syncd.yaml", Dir: ".",
		Journal: Journal{SQLite: SQLite{Path: "./syncd.db"}, Postgres: Postgres{Port: 5432, Schema: "syncd", Connections: 8}},
		Listen:  "127.0.0.1:9464", StateDir: ".", Log: Log{Level: "info", Format: "text"},
		Retention: Retention{Attempts: 90 * 24 * time.Hour, Bodies: 30 * 24 * time.Hour, Errands: 90 * 24 * time.Hour},
		Notify:    Notify{Coalesce: time.Minute, LongPause: 15 * time.Minute, Events: []string{"suspended", "paused", "held", "dead"}},
		Clients: map[string]*Client{
			"shop": {Name: "shop", Connector: "shop", Burst: 1, Concurrency: 4, Shards: 1, Timeout: 30 * time.Second, MaxPause: 24 * time.Hour, Breaker: breaker, Retry: retry,
				Settings: &shop{URL: "https://shop.test", Token: field.NewSecret("CANARY-token-1")}},
			"erp": {Name: "erp", Connector: "erp", Burst: 1, Concurrency: 4, Shards: 1, Timeout: 30 * time.Second, MaxPause: 24 * time.Hour, Breaker: breaker, Retry: retry,
				Settings: &erp{Database: "erp"}},
		},
		Flows: map[string]*Flow{"orders": {
			Name: "orders", Enabled: true, Retry: retry, Order: "latest", OnDead: "hold", OnExpire: "dead", MaxOpen: 1000000,
			From: From{Client: "shop", Stream: "orders", Every: 30 * time.Second, Start: Start{All: true}, Page: 50,
				Info: connectors.StreamInfo{Name: "orders", Doc: "Orders by their time of change.", CanFetch: true, Page: 50}},
			To: To{Client: "erp", Entity: "sale", Strategy: connectors.NaturalKey, OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone",
				OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", SettleTime: 2 * time.Minute, Info: (&erp{}).Entities()[1]},
			Key: field.Text{Value: ".name", Pos: field.Pos{File: "syncd.yaml", Line: 9, Col: 10}},
			Map: field.Text{Value: "{number: .name}", Pos: field.Pos{File: "syncd.yaml", Line: 10, Col: 11}},
		}},
	}
	opts := cmp.Options{
		cmpopts.IgnoreUnexported(Config{}, Client{}, Flow{}, To{}, Journal{}, Postgres{}, field.Text{}),
		cmp.Comparer(func(a, b field.Secret) bool { return a.Equal(b) }),
	}
	if d := cmp.Diff(want, c, opts); d != "" {
		t.Error(d)
	}
	if c.Journal.Engine() != "sqlite" {
		t.Errorf("engine %s", c.Journal.Engine())
	}
}

func TestEveryFieldIsRead(t *testing.T) {
	c := mustLoad(t, `
journal: {postgres: {host: db, port: 6432, database: d, user: u, password: "${env:TOKEN}", sslmode: require, schema: s, pooler: true}}
listen: "off"
state_dir: /var/lib/x
log: {level: debug, format: json}
clients:
  shop.example.com:
    connector: shop
    url: https://shop.test
    token: ${env:TOKEN}
    rate: 0.5/s
    burst: 7
    concurrency: 256
    timeout: 6m
    max_pause: 2h
    breaker: {window: 2m, min_calls: 3, ratio: 1, failures_in_row: 7, open_for: 1m}
  erp:
    connector: erp
    database: erp
    timeout: 6m
    retry: {max_attempts: 3, multiplier: 1.5, retry_for: 0}
flows:
  orders:
    enabled: false
    from: {client: shop.example.com, stream: products, start: 2026-01-31T08:00:00+01:00, every: 100ms, page: 7}
    to: {client: erp, entity: party, strategy: lookup, on_existing: refuse, on_delete: archive, on_vanish: keep, on_rename: recreate,
      on_missing: leave, on_frozen: ignore, settle_time: 0}
    identity: name
    key: .name
    map: .
    vars: {account: 0042, country: NO}
    retry: {max_attempts: 100, initial_delay: 0, jitter: none}
    max_age: 30d
    on_expire: drop
`)
	f, k := c.Flows["orders"], c.Clients["shop.example.com"]
	for name, ok := range map[string]bool{
		"journal":     c.Journal.Engine() == "postgres" && c.Journal.Postgres.Schema == "s" && c.Journal.Postgres.Pooler,
		"listen":      c.Listen == "",
		"state_dir":   c.StateDir == "/var/lib/x",
		"log":         c.Log == Log{Level: "debug", Format: "json"},
		"rate":        k.Rate == Rate{Events: 0.5, Per: time.Second} && k.Burst == 7 && k.Concurrency == 256,
		"timeouts":    k.Timeout == 6*time.Minute && k.MaxPause == 2*time.Hour,
		"breaker":     k.Breaker == Breaker{Window: 2 * time.Minute, MinCalls: 3, Ratio: 1, InRow: 7, OpenFor: time.Minute},
		"enabled":     !f.Enabled,
		"from":        f.From.Stream == "products" && f.From.Page == 7 && f.From.Every == 100*time.Millisecond,
		"start":       f.From.Start.From.Equal(time.Date(2026, 1, 31, 7, 0, 0, 0, time.UTC)),
		"to":          f.To.OnExisting == "refuse" && f.To.OnDelete == "archive" && f.To.OnVanish == "keep" && f.To.OnRename == "recreate" && f.To.OnMissing == "leave" && f.To.OnFrozen == "ignore",
		"settle_time": f.To.SettleTime == 0,
		"vars":        f.Vars["account"] == "0042" && f.Vars["country"] == "NO",
		"age":         f.MaxAge == 720*time.Hour && f.OnExpire == "drop",
		"retry": f.Retry == Retry{MaxAttempts: 100, InitialDelay: 0, MaxDelay: 30 * time.Minute, Multiplier: 1.5, Jitter: "none",
			Timeout: 6 * time.Minute, RetryFor: 0},
	} {
		if !ok {
			t.Errorf("%s was not read right", name)
		}
	}
}

// TestAllMistakesAtOnce compares everything Load says of a file full of mistakes with what is written beside it.
func TestAllMistakesAtOnce(t *testing.T) {
	for _, name := range []string{"mistakes", "traps", "programs"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = Load(Options{Path: name + ".yaml", Data: data, Connectors: registry(), Now: noon,
				Env: []string{token, "SYNCD_LISTN=:1", "SYNCD_LOG__LEVEL=CANARY-loud", "SYNCD_CLIENTS__ERP__TIMEOUT=30", "SYNCD_VIA_FILE=x",
					"SYNCD_SERVICE_HOST=10.0.0.1", "SYNCD_PORT_9464_TCP_ADDR=10.0.0.1", "SYNCD_PORT=tcp://10.0.0.1:9464"}})
			if err == nil {
				t.Fatal("no mistake was found")
			}
			got := err.Error() + "\n"
			if strings.Contains(got, "CANARY") {
				t.Errorf("a secret shows:\n%s", got)
			}
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	dir := t.TempDir()
	huge := filepath.Join(dir, "huge.yaml")
	if err := os.WriteFile(huge, []byte(strings.Repeat("# x\n", maxFile/4+1)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"missing", filepath.Join(dir, "nope.yaml"), "DIR/nope.yaml: cannot read the file: open DIR/nope.yaml: no such file or directory"},
		{"folder", dir, "DIR: not a regular file"},
		{"too large", huge, "DIR/huge.yaml: larger than 1 MiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(Options{Path: c.path})
			if err == nil {
				t.Fatal("no error")
			}
			if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestAConfigurationIsReadFromItsFile(t *testing.T) {
	dir := t.TempDir()
	text := strings.Replace(minimal, `map: "{number: .name}"`, "map_file: maps/orders.jq", 1)
	if err := os.Mkdir(filepath.Join(dir, "maps"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"syncd.yaml": text, "maps/orders.jq": "{number: .name}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(Options{Path: filepath.Join(dir, "syncd.yaml"), Connectors: registry(), Env: []string{token, "STATE_DIRECTORY=/var/lib/a:/var/lib/b"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Flows["orders"].Map.Value; got != "{number: .name}\n" {
		t.Errorf("map is %q", got)
	}
	if c.Dir != dir || c.StateDir != "/var/lib/a" {
		t.Errorf("dir %s, state dir %s", c.Dir, c.StateDir)
	}
}

func TestTooManyMistakesAreCounted(t *testing.T) {
	_, err := load(t, strings.Repeat("- x\n", 3)+"a: [")
	if err == nil {
		t.Fatal("no mistake found")
	}
	var b strings.Builder
	for i := range 150 {
		b.WriteString("key" + strings.Repeat("x", i) + ": 1\n")
	}
	lines := strings.Split(problems(t, b.String()), "\n")
	if len(lines) != maxProblems+1 || lines[maxProblems] != "and 50 more" {
		t.Errorf("%d lines, the last: %s", len(lines), lines[len(lines)-1])
	}
}
