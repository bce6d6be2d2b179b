package daemon

import (
	"context"
	"encoding/json"
	"time"

	"syncd/breaker"
	"syncd/jobs"
	"syncd/ratelimit"
)

// Shown is what a daemon shows of a client, or of a part of it: for people who ask the journal, and for the daemon that
// runs it next.
type Shown struct {
	// At is when it was so, UTC.
	At time.Time `json:"at"`
	// InFlight counts calls under way and Waiting those that wait for their turn; HeldBy is what keeps the first of
	// them back: "rate", "quota", "learned", "ramp" or "at once".
	InFlight int    `json:"in_flight,omitempty"`
	Waiting  int    `json:"waiting,omitempty"`
	HeldBy   string `json:"held_by,omitempty"`
	// Quotas are those that the server tells of.
	Quotas []ShownQuota `json:"quotas,omitempty"`
	// Shapes are the kinds of calls that wait by themselves, since they alone are refused.
	Shapes []ShownShape `json:"kinds,omitempty"`
	// Learned is what was learned from refusals.
	Learned *ratelimit.Learned `json:"learned,omitempty"`
	// Breaker is open or half-open, and BreakerLast the failure before; "" while it is closed.
	// Budget is what is left for retries, in hundredths of all there can be; nil for all.
	Budget      *int   `json:"retry_budget,omitempty"`
	Breaker     string `json:"breaker,omitempty"`
	BreakerLast string `json:"breaker_last,omitempty"`
}

// ShownQuota is a quota as of Shown.At, in calls or in the server's unit.
type ShownQuota struct {
	Scope   string    `json:"scope,omitempty"`
	Limit   float64   `json:"limit,omitempty"`
	Left    float64   `json:"left"`
	Resets  time.Time `json:"resets,omitzero"`
	Restore float64   `json:"restore,omitempty"`
	Others  float64   `json:"others,omitempty"`
	AtOnce  bool      `json:"at_once,omitempty"`
}

// ShownShape is a kind of calls that waits by itself.
type ShownShape struct {
	Shape    string    `json:"kind"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Evidence string    `json:"evidence,omitempty"`
	Strikes  int       `json:"strikes,omitempty"`
}

// shown is what is to be shown at a moment.
func (c ClientStatus) shown(now time.Time) Shown {
	g := c.Gate
	s := Shown{At: now.UTC().Truncate(time.Second), InFlight: g.InFlight, Waiting: g.Waiting, HeldBy: g.HeldBy}
	for _, q := range g.Quotas {
		s.Quotas = append(s.Quotas, ShownQuota{Scope: q.Scope, Limit: q.Limit, Left: float64(int(q.Left)), Resets: q.Resets.Truncate(time.Second),
			Restore: hundredths(q.Restore), Others: hundredths(q.Others), AtOnce: q.Concurrent})
	}
	for _, p := range g.Shapes {
		// Not a moment too soon: a second that has begun counts as a whole one.
		s.Shapes = append(s.Shapes, ShownShape{Shape: p.Shape, Since: p.Since.Truncate(time.Second), Until: p.Until.Add(time.Second - 1).Truncate(time.Second),
			Evidence: p.Evidence, Strikes: p.Strikes})
	}
	if g.Learned.Rate > 0 {
		l := g.Learned
		l.Rate = max(hundredths(l.Rate), l.Rate/2)
		s.Learned = &l
	}
	if left := int(c.Budget * 100); left < 100 {
		s.Budget = &left
	}
	if c.Breaker.State != breaker.Closed {
		s.Breaker, s.BreakerLast = c.Breaker.State.String(), c.Breaker.LastError
	}
	return s
}

// status is the state of the tenure's client.
func (t *tenure) status() ClientStatus {
	s := t.client.status(t.d.journal.Now())
	s.Lane = t.hold.LaneID
	return s
}

func hundredths(f float64) float64 { return float64(int(f*100)) / 100 }

// show has the journal store what is to be shown of a lane, when it next writes for it. What is only older is not
// written again.
func (d *Daemon) show(c ClientStatus) {
	s := c.shown(d.journal.Now())
	same := s
	same.At = time.Time{}
	text, err := json.Marshal(same)
	if err != nil {
		return // no number of it can be anything but a number
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shown[c.Lane] == string(text) {
		return
	}
	if d.shown == nil {
		d.shown = map[jobs.LaneID]string{}
	}
	d.shown[c.Lane] = string(text)
	if text, err = json.Marshal(s); err == nil {
		d.journal.Show(c.Lane, string(text))
	}
}

// recallFor is for how long what a gate has learned is taken for true.
const recallFor = 24 * time.Hour

// recall has a gate take over what the lane's last one has learned, and which calls wait by
// themselves.
func (d *Daemon) recall(ctx context.Context, gate *ratelimit.Gate, l jobs.LaneID, stored []jobs.ClientState) {
	var anew time.Time // when a person wished that it be learned anew
	for _, s := range stored {
		if s.Client == l.Client && s.Reason == ratelimit.ReasonAnew {
			anew = s.SeenAt
		}
	}
	text, err := d.journal.Shown(ctx, l)
	if err != nil || text == "" {
		return // it is learned anew
	}
	s, ok := ReadShown(text)
	if !ok || !s.At.After(anew) || d.journal.Now().Sub(s.At) >= recallFor {
		return
	}
	if s.Learned != nil {
		gate.Recall(*s.Learned)
	}
	var ps []ratelimit.ShapePause
	for _, p := range s.Shapes {
		ps = append(ps, ratelimit.ShapePause{Shape: p.Shape, Pause: ratelimit.Pause{Until: p.Until, Since: p.Since, Evidence: p.Evidence, Strikes: p.Strikes}})
	}
	gate.RecallShapes(ps)
}

// ReadShown reads what is stored of a lane; false for nothing that can be read.
func ReadShown(text string) (s Shown, ok bool) {
	return s, text != "" && json.Unmarshal([]byte(text), &s) == nil
}
