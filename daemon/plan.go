package daemon

import (
	"fmt"
	"slices"
	"time"

	"syncd/breaker"
	"syncd/connectors"
	"syncd/jobs"
	"syncd/mapping"
	"syncd/ratelimit"
)

// Plan is what a daemon runs: the configuration, checked and compiled.
type Plan struct {
	Clients map[string]*ClientPlan
	Flows   map[string]*FlowPlan
	// Resting names the flows of which it is known that they are not run: disabled and
	// retired ones.
	Resting []string
	// BaseDir is the folder of the configuration file.
	BaseDir string
	// Keep is how long what the journal does not need for ever is kept.
	Keep jobs.Retention
}

// ClientPlan is one client.
type ClientPlan struct {
	Name        string
	Settings    connectors.Settings
	Gate        ratelimit.Settings
	Breaker     breaker.Settings
	Concurrency int
	Timeout     time.Duration
	// Shards is in how many lanes the client is written to; 0 and 1 mean one.
	Shards int
}

// FlowPlan is one flow: the journal's rules for it, and how its stream is read.
type FlowPlan struct {
	jobs.Flow
	Source  connectors.StreamInfo
	Every   time.Duration
	Start   connectors.Start
	Page    int
	Program *mapping.Program
}

// targets returns the flows that write to a client, by name.
func (p *Plan) targets(client string) map[string]*jobs.Flow {
	out := map[string]*jobs.Flow{}
	for _, f := range p.Flows {
		if f.Client == client {
			out[f.Name] = &f.Flow
		}
	}
	return out
}

// sources returns the flows that read from a client, in order of their names.
func (p *Plan) sources(client string) []*FlowPlan {
	var out []*FlowPlan
	for _, f := range p.Flows {
		if f.SourceClient == client {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b *FlowPlan) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// Lanes names the lanes of the plan, in their order.
func (p *Plan) Lanes() []jobs.LaneID {
	var out []jobs.LaneID
	for name, c := range p.Clients {
		out = append(out, jobs.LaneID{Client: name})
		if len(p.targets(name)) == 0 {
			continue
		}
		for n := 1; n < c.Shards; n++ {
			out = append(out, jobs.LaneID{Client: name, Shard: n})
		}
	}
	slices.SortFunc(out, compareLanes)
	return out
}

// JobFlows returns the journal's rules of every flow.
func (p *Plan) JobFlows() map[string]*jobs.Flow {
	out := make(map[string]*jobs.Flow, len(p.Flows))
	for n, f := range p.Flows {
		out[n] = &f.Flow
	}
	return out
}

// Entity returns what a client's connector says of an entity.
func (c *ClientPlan) Entity(name string) (connectors.EntityInfo, error) {
	for _, e := range c.Settings.Entities() {
		if e.Name == name {
			return e, nil
		}
	}
	return connectors.EntityInfo{}, fmt.Errorf("client %s has no entity %q", c.Name, name)
}
