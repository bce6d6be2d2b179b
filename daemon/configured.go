package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"syncd/breaker"
	"syncd/config"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/mapping"
	"syncd/ratelimit"
)

// PlanOf makes a plan of a checked configuration. now is where flows begin that
// start now.
func PlanOf(c *config.Config, now time.Time) (*Plan, error) {
	p := &Plan{Clients: map[string]*ClientPlan{}, Flows: map[string]*FlowPlan{}, Resting: slices.Clone(c.Retired), BaseDir: c.Dir,
		Keep: jobs.Retention{Attempts: c.Retention.Attempts, Bodies: c.Retention.Bodies, Dead: c.Retention.Dead, Errands: c.Retention.Errands}}
	for name, cc := range c.Clients {
		p.Clients[name] = clientPlan(cc)
	}
	for name, cf := range c.Flows {
		if !cf.Enabled {
			p.Resting = append(p.Resting, name)
			continue
		}
		f, err := flowPlan(cf, now)
		if err != nil {
			return nil, fmt.Errorf("flow %s: %w", name, err)
		}
		if cp := p.Clients[f.Client]; cp != nil {
			f.Shards = cp.Shards
		}
		p.Flows[name] = f
		// A probe may take as long as an attempt, which is several requests.
		for _, c := range []string{f.Client, f.SourceClient} {
			if cp := p.Clients[c]; cp != nil {
				cp.Breaker.ProbeTimeout = max(cp.Breaker.ProbeTimeout, f.Retry.Timeout)
			}
		}
	}
	return p, nil
}

func clientPlan(c *config.Client) *ClientPlan {
	g := ratelimit.Settings{Burst: c.Burst, Share: c.Share, MaxPause: c.MaxPause}
	if !c.Rate.IsZero() {
		g.Rate = c.Rate.PerSecond()
	}
	return &ClientPlan{
		Name: c.Name, Settings: c.Settings, Gate: g, Concurrency: c.Concurrency, Shards: c.Shards, Timeout: c.Timeout,
		Breaker: breaker.Settings{Window: c.Breaker.Window, MinCalls: c.Breaker.MinCalls, Ratio: c.Breaker.Ratio, ConsecutiveFailures: c.Breaker.InRow, SlowCall: c.Breaker.SlowCall, OpenFor: c.Breaker.OpenFor},
	}
}

func flowPlan(c *config.Flow, now time.Time) (*FlowPlan, error) {
	prog, err := mapping.Compile(mapping.Source{Map: c.Map.Value, Key: c.Key.Value, Group: c.Group.Value, Vars: c.Vars})
	if err != nil {
		return nil, err
	}
	f := &FlowPlan{Flow: *JobFlow(c), Source: c.From.Info, Every: c.From.Every, Page: c.From.Page, Program: prog}
	switch {
	case c.From.Start.All:
		f.Start = connectors.Start{All: true}
	case c.From.Start.Now:
		f.Start = connectors.Start{From: now}
	default:
		f.Start = connectors.Start{From: c.From.Start.From}
	}
	return f, nil
}

// JobFlow is a configured flow as the journal and the lanes take it.
func JobFlow(c *config.Flow) *jobs.Flow {
	f := &jobs.Flow{
		Name: c.Name, SourceClient: c.From.Client, Stream: c.From.Stream, SourceIDs: c.From.Info.IDs, Versions: c.From.Info.Versions,
		Client: c.To.Client, Entity: c.To.Entity, Strategy: c.To.Strategy, SettleTime: c.To.SettleTime,
		Retry: jobs.Retry{MaxAttempts: c.Retry.MaxAttempts, InitialDelay: c.Retry.InitialDelay, MaxDelay: c.Retry.MaxDelay,
			Multiplier: c.Retry.Multiplier, NoJitter: c.Retry.Jitter == "none", Timeout: c.Retry.Timeout, RetryFor: c.Retry.RetryFor},
		MaxAge: c.MaxAge, FreshWithin: c.FreshWithin, MaxOpen: c.MaxOpen, CanRefresh: c.From.Info.CanFetch, CanFind: c.To.Info.Finds, CanRename: c.To.Info.Renames && !c.To.CreateOnly,
		OnExisting: c.To.OnExisting, OnDelete: c.To.OnDelete, OnVanish: c.To.OnVanish, OnRename: c.To.OnRename,
		OnMissing: c.To.OnMissing, OnFrozen: c.To.OnFrozen, OnExpire: c.OnExpire, CreateOnly: c.To.CreateOnly,
		Order: c.Order, Group: c.Group.Value, OnDead: c.OnDead, Key: c.Key.Value, KeyConstants: c.KeyConstants(), AcceptChange: c.AcceptChange,
	}
	f.Mapping = fingerprint(c)
	for _, s := range c.To.Info.Strategies {
		if s.Strategy == f.Strategy {
			f.KeyField = s.KeyField
		}
	}
	// A target that refuses older states by itself needs no waiting: a late write
	// of ours can do no harm there.
	if f.Strategy == connectors.NaturalKey && c.To.Info.Guarded {
		f.SettleTime = 0
	}
	return f
}

// fingerprint tells the mappings of a flow apart.
func fingerprint(c *config.Flow) string {
	h := sha256.New()
	for _, text := range []string{c.Map.Value, c.Key.Value, c.Group.Value} {
		fmt.Fprintf(h, "%d %s", len(text), text)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Vars)) {
		fmt.Fprintf(h, "%q=%q ", name, c.Vars[name])
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
