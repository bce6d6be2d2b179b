package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"syncd/daemon"
	"syncd/jobs"
	"syncd/mapping"
)

// rowJSON is one row as jobs list and jobs show print it; docs/cli.md describes it.
type rowJSON struct {
	Flow       string     `json:"flow"`
	Key        string     `json:"key"`
	Client     string     `json:"client"`
	Entity     string     `json:"entity"`
	SourceID   string     `json:"source_id,omitempty"`
	Group      string     `json:"group,omitempty"`
	State      string     `json:"state"`
	Reason     string     `json:"reason,omitempty"`
	Class      string     `json:"class,omitempty"`
	Code       string     `json:"code,omitempty"`
	Message    string     `json:"message,omitempty"`
	Generation int64      `json:"generation"`
	Applied    int64      `json:"applied_generation"`
	Attempt    int64      `json:"attempt"`
	Tries      int        `json:"tries"`
	Gone       bool       `json:"gone,omitempty"`
	Version    int64      `json:"version"`
	Observed   *time.Time `json:"observed,omitempty"`
	ChangedAt  *time.Time `json:"changed_at,omitempty"`
	OpenSince  *time.Time `json:"open_since,omitempty"`
	DueAt      *time.Time `json:"due_at,omitempty"`
	LastAt     *time.Time `json:"last_at,omitempty"`
	AppliedAt  *time.Time `json:"applied_at,omitempty"`
	Unresolved *time.Time `json:"unresolved_since,omitempty"`
	WaitsFor   string     `json:"waits_for,omitempty"`
	Claims     []string   `json:"claimed_also_by,omitempty"`
}

func (a *app) row(r *jobs.Row, running bool) rowJSON {
	o := rowJSON{Flow: r.Flow, Key: r.Key, Client: r.Client, Entity: r.Entity, SourceID: r.SourceID,
		State: string(r.State), Reason: string(r.Reason), Class: string(r.LastClass), Code: r.LastCode, Message: a.secrets.cut(r.LastMessage),
		Generation: r.Generation, Applied: r.AppliedGeneration, Attempt: r.Attempt, Tries: r.Tries, Gone: r.Gone,
		Version: r.Desired.Version, Observed: at(r.Desired.Observed), ChangedAt: at(r.ChangedAt), OpenSince: at(r.OpenSince),
		DueAt: at(r.DueAt), LastAt: at(r.LastAt), AppliedAt: at(r.AppliedAt), Unresolved: at(r.UnresolvedAt)}
	if r.State != jobs.Ready || r.Reason == jobs.ReasonBehind {
		o.DueAt = nil
	}
	if o.Group = r.Group; r.Reason == jobs.ReasonLate && r.Group == "" {
		o.Group = r.WaitKey
	}
	if r.WaitEntity != "" {
		o.WaitsFor = r.WaitEntity + " " + r.WaitKey
	}
	if running {
		o.State, o.Reason = "running", ""
	}
	return o
}

// name is how a row is named on the command line.
func (r *rowJSON) name() string { return r.Flow + "/" + r.Key }

func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func stamp(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func (a *app) jobsCmd() *cobra.Command {
	c := group(&cobra.Command{Use: "jobs", Short: "List and show jobs"})
	c.AddCommand(a.jobsListCmd(), a.jobsShowCmd(), a.jobsReplayCmd(), a.jobsDiscardCmd())
	return c
}

// rowID splits FLOW/KEY at the first slash: a flow's name has none, a key may.
func rowID(s string) (jobs.RowID, error) {
	flow, key, ok := strings.Cut(s, "/")
	if !ok || flow == "" || key == "" {
		return jobs.RowID{}, usage("%q does not name a job; write FLOW/KEY, for example orders/SO-1001", s)
	}
	// As it stands at the source, a key need not be in the form in which keys are kept. One
	// that cannot be is that of no record, such as of an event that could not be mapped.
	if normal, err := mapping.NormalizeKey(key); err == nil {
		key = normal
	}
	return jobs.RowID{Flow: flow, Key: key}, nil
}

// detail is one job and what decides over it.
type detail struct {
	jobs.Detail
	jobs.Surroundings
	now time.Time
	// refused says why the daemon would not start with its flow; "" when it would.
	refused string
	// pace is what was last shown of its client's gate; nil for nothing.
	pace *paceStatus
}

// detail reads one job; one that does not exist is a finding.
func (a *app) detail(ctx context.Context, name string) (d detail, err error) {
	id, err := rowID(name)
	if err != nil {
		return d, err
	}
	c, j, err := a.beside(ctx, reading)
	if err != nil {
		return d, err
	}
	defer j.Close()
	fs := flows(c)
	var ok bool
	if d.Detail, d.Surroundings, ok, err = j.Surround(ctx, id, fs); err != nil {
		return d, exit(exitJournal, err)
	}
	if !ok {
		hint := ""
		if _, known := c.Flows[id.Flow]; !known {
			hint = fmt.Sprintf("; there is no flow %q either", id.Flow)
		}
		return d, exit(exitFinding, fmt.Errorf("the journal has no job %s%s", name, hint))
	}
	d.Absent = absence(c, id.Flow)
	ps, err := changed(ctx, j, c)
	if err != nil {
		return d, exit(exitJournal, err)
	}
	for _, p := range ps {
		if p.Change.Flow == id.Flow {
			d.refused = p.Problem.String()
		}
	}
	text, err := j.Shown(ctx, jobs.LaneID{Client: d.Row.Client, Shard: d.Row.Shard})
	if err != nil {
		return d, exit(exitJournal, err)
	}
	if s, ok := daemon.ReadShown(text); ok {
		d.pace = &s
	}
	d.now = j.Now()
	return d, nil
}
