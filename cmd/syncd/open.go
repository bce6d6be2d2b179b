package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"syncd/config"
	"syncd/daemon"
	"syncd/jobs"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// load reads the configuration; its mistakes are exit code 3.
func (a *app) load() (*config.Config, error) {
	c, err := config.Load(config.Options{Path: a.config, Env: a.env, Connectors: registry()})
	if err != nil {
		return nil, exit(exitConfig, err)
	}
	return c, nil
}

// access is what a command needs of the journal.
type access int

const (
	reading access = iota // a command that only looks
	acting                // a command that changes rows beside the daemon
	owning                // the daemon
)

// engine opens the journal's engine.
func engine(ctx context.Context, c *config.Config, how access, log *slog.Logger) (jobs.Engine, error) {
	if c.Journal.Engine() == "sqlite" {
		return sqlite.Open(ctx, c.Journal.SQLite.Path, sqlite.Options{Exclusive: how == owning, ReadOnly: how == reading, Log: log})
	}
	p := &c.Journal.Postgres
	return postgres.Open(ctx, p.URL().Reveal(), postgres.Options{Schema: p.Schema, Pooler: p.Pooler, Exclusive: how == owning, ReadOnly: how == reading, Log: log})
}

// journal opens the journal; what goes wrong is exit code 4.
func (a *app) journal(ctx context.Context, c *config.Config, how access) (*jobs.Journal, jobs.Engine, error) {
	log := slog.New(slog.DiscardHandler)
	if how == owning {
		log = slog.Default()
	}
	e, err := engine(ctx, c, how, log)
	if err != nil {
		if errors.Is(err, jobs.ErrAbsent) && how != owning {
			err = fmt.Errorf("%w (no daemon has run with this configuration yet: syncd run)", err)
		}
		return nil, nil, exit(exitJournal, redacted(c, err))
	}
	return jobs.New(e, jobs.Options{Owner: rand.Text()}), e, nil
}

// redacted cuts secrets of the configuration out of an error's text.
func redacted(c *config.Config, err error) error {
	if s := c.Redact(err.Error()); s != err.Error() {
		return errors.New(s)
	}
	return err
}

// flows are the journal's rules of the configured flows that run.
func flows(c *config.Config) map[string]*jobs.Flow {
	out := map[string]*jobs.Flow{}
	for name, f := range c.Flows {
		if f.Enabled {
			out[name] = daemon.JobFlow(f)
		}
	}
	return out
}

// logger writes what the configuration asks for, without its secrets.
func logger(c *config.Config, out io.Writer) (*slog.Logger, *redactor) {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // checked by the configuration
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		if at.Key == slog.TimeKey && at.Value.Kind() == slog.KindTime {
			at.Value = slog.TimeValue(at.Value.Time().UTC().Truncate(time.Millisecond))
		}
		return at
	}}
	w := &redactor{w: out, configs: []*config.Config{c}}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o)), w
	}
	return slog.New(slog.NewTextHandler(w, o)), w
}

// redactor cuts the configuration's secrets out of whole lines, wherever in a
// line they stand: in an attribute, in an error's text, in a nested value.
type redactor struct {
	w io.Writer

	mu      sync.Mutex
	configs []*config.Config
}

// add has the secrets of a further configuration cut out too: after a reload
// those of the old one may still turn up.
func (r *redactor) add(c *config.Config) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configs = append(r.configs[max(0, len(r.configs)-3):], c)
}

func (r *redactor) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	line := string(b)
	for _, c := range r.configs {
		line = c.Redact(line)
	}
	if _, err := io.WriteString(r.w, line); err != nil {
		return 0, err
	}
	return len(b), nil
}
