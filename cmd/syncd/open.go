package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"sync"
	"time"

	"syncd/config"
	"syncd/daemon"
	"syncd/internal/field"
	"syncd/jobs"
	"syncd/jobs/postgres"
	"syncd/jobs/sqlite"
)

// load reads the configuration; its mistakes are exit code 3.
func (a *app) load() (*config.Config, error) {
	if _, err := os.Stat(a.config); errors.Is(err, fs.ErrNotExist) {
		return nil, exit(exitConfig, fmt.Errorf("there is no configuration at %s; name it with --config or in %s", a.config, configEnv))
	}
	c, err := config.Load(config.Options{Path: a.config, Env: a.env, OwnEnv: []string{configEnv}, Connectors: registry()})
	var es *config.Errors
	switch {
	case errors.As(err, &es) && len(es.Problems) == 1:
		return nil, exit(exitConfig, fmt.Errorf("a mistake in the configuration:\n%w", err))
	case errors.As(err, &es):
		return nil, exit(exitConfig, fmt.Errorf("%d mistakes in the configuration:\n%w", len(es.Problems), err))
	case err != nil:
		return nil, exit(exitConfig, err)
	}
	a.secrets.add(c)
	return c, nil
}

// look reads the configuration for a command that needs the journal alone: it
// works where the clients' secrets are not to be had, such as in an operator's
// shell beside a service.
func (a *app) look() (*config.Config, error) {
	c, err := a.load()
	if err == nil {
		return c, nil
	}
	lenient, lerr := config.Load(config.Options{Path: a.config, Env: a.env, Connectors: registry(), Lenient: true})
	if lerr != nil || lenient.Journal.Unresolved() {
		return nil, err
	}
	return lenient, nil
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
		return sqlite.Open(ctx, c.Journal.SQLite.Path, sqlite.Options{MinFree: c.Journal.SQLite.MinFree, Exclusive: how == owning, ReadOnly: how == reading, Log: log})
	}
	p := &c.Journal.Postgres
	return postgres.Open(ctx, p.URL().Reveal(), postgres.Options{Schema: p.Schema, Pooler: p.Pooler, MaxConns: p.Connections, Exclusive: how == owning, ReadOnly: how == reading, Log: log})
}

// journal opens the journal; what goes wrong is exit code 4.
func (a *app) journal(ctx context.Context, c *config.Config, how access, log *slog.Logger) (*jobs.Journal, jobs.Engine, error) {
	e, err := engine(ctx, c, how, log)
	if err != nil {
		return nil, nil, exit(exitJournal, err)
	}
	j := jobs.New(e, jobs.Options{Owner: rand.Text()})
	if how == acting {
		if err := unmoved(ctx, j); err != nil {
			return nil, nil, exit(exitJournal, errors.Join(err, j.Close()))
		}
	}
	return j, e, nil
}

// beside opens what a command needs that looks at the journal or acts on it beside the
// daemon.
func (a *app) beside(ctx context.Context, how access) (*config.Config, *jobs.Journal, error) {
	c, err := a.look()
	if err != nil {
		return nil, nil, err
	}
	j, _, err := a.journal(ctx, c, how, quiet())
	return c, j, err
}

// quiet is the log of commands that only look or act once.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

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

// allFlows are the journal's rules of all configured flows, also of those that rest: for
// what a person says about a job, which needs no daemon that runs its flow.
func allFlows(c *config.Config) map[string]*jobs.Flow {
	out := map[string]*jobs.Flow{}
	for name, f := range c.Flows {
		out[name] = daemon.JobFlow(f)
	}
	return out
}

// absence says why a flow is not among those that run.
func absence(c *config.Config, flow string) jobs.Absence {
	switch {
	case c.Flows[flow] != nil:
		return jobs.FlowDisabled
	case slices.Contains(c.Retired, flow):
		return jobs.FlowRetired
	default:
		return jobs.FlowUnknown
	}
}

// unrun makes a refusal for want of a flow say why the flow is not run, and what to do.
func unrun(c *config.Config, flow, refused string) string {
	if refused != jobs.NotConfigured(flow) {
		return refused
	}
	switch absence(c, flow) {
	case jobs.FlowDisabled:
		return fmt.Sprintf("flow %s is disabled (enabled: false); enable it first", flow)
	case jobs.FlowRetired:
		return fmt.Sprintf("flow %s is retired; take it out of retired and put it back into flows first", flow)
	}
	return refused + "; put it back first"
}

// logger writes what the configuration asks for, without secrets.
func logger(c *config.Config, out io.Writer, secrets *secrets) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Log.Level)) // checked by the configuration
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, at slog.Attr) slog.Attr {
		switch v := at.Value.Any().(type) {
		case time.Time:
			at.Value = slog.TimeValue(v.UTC().Truncate(time.Millisecond))
		case time.Duration:
			at.Value = slog.StringValue(v.String())
		case string:
			at.Value = slog.StringValue(secrets.cut(v))
		case error:
			at.Value = slog.StringValue(secrets.cut(v.Error()))
		}
		return at
	}}
	w := &redactor{w: out, secrets: secrets}
	if c.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}

// redactor cuts secrets out of whole lines. Texts and errors have none left by
// then, also where a line writes their characters in another way; this is for
// values of other kinds.
type redactor struct {
	w       io.Writer
	secrets *secrets
}

// Write implements io.Writer for a logger, which writes a line at a time.
func (r *redactor) Write(b []byte) (int, error) {
	if _, err := io.WriteString(r.w, r.secrets.cut(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// secrets are those of every configuration that was read.
type secrets struct {
	mu      sync.Mutex
	configs []*config.Config
	learned []string        // credentials that were fetched
	fetched *field.Resolver // knows those learned
}

// mostLearned bounds how many fetched credentials are remembered: of each client
// the present one, and some that it had before.
const mostLearned = 64

// learn has a fetched credential cut out of texts from now on.
func (s *secrets) learn(credential string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.learned, credential) {
		return
	}
	s.learned = append(s.learned[max(0, len(s.learned)-mostLearned+1):], credential)
	s.fetched = &field.Resolver{}
	for _, c := range s.learned {
		s.fetched.Conceal(c)
	}
}

// mostConfigs bounds how many configurations are remembered: after a reload the
// secrets of the old one may still turn up, those of an old old one hardly.
const mostConfigs = 4

func (s *secrets) add(c *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.configs = append(s.configs[max(0, len(s.configs)-mostConfigs+1):], c)
}

// authorization is what a server that repeats a request may show: credentials
// that are not in the configuration as they are sent, such as an access token
// that was fetched, or user and password in base64.
var authorization = regexp.MustCompile(`(?i)\b(basic|bearer) +[A-Za-z0-9._~+/=-]{8,}`)

// cut takes every secret out of a text.
func (s *secrets) cut(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.configs {
		text = c.Redact(text)
	}
	if s.fetched != nil {
		text = s.fetched.Redact(text)
	}
	// Last: it ends where a token should, and what it left of a stranger one would no
	// longer be known as a secret.
	return authorization.ReplaceAllString(text, "$1 [secret]")
}
