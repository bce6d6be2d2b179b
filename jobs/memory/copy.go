package memory

import (
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// Functions that end in In bring what a caller hands in to the form in which it is
// kept: a copy, with times in UTC and microseconds, and texts for people as durable
// engines can store them. A copy of that is what a caller gets.

// moment is a time as it is kept.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

// bytes is a copy; nil of nothing.
func blob[T ~[]byte](b T) T {
	if len(b) == 0 {
		return nil
	}
	return slices.Clone(b)
}

func texts(ss []string) []string {
	if len(ss) == 0 {
		return nil
	}
	return slices.Clone(ss)
}

func stampIn(s connectors.Stamp) connectors.Stamp {
	s.Observed = moment(s.Observed)
	return s
}

func standingIn(s jobs.Standing) jobs.Standing {
	s.Since, s.Until = moment(s.Since), moment(s.Until)
	s.Code, s.Message = stored.Message(s.Code), stored.Message(s.Message)
	return s
}

// rowIn leaves the body to be copied by whoever stores it.
func rowIn(r jobs.Row) *jobs.Row {
	r.Desired = stampIn(r.Desired)
	for _, at := range []*time.Time{&r.ChangedAt, &r.ReadAt, &r.FirstTryAt, &r.AppliedAt, &r.UnresolvedAt, &r.OpenSince, &r.DueAt, &r.LastAt} {
		*at = moment(*at)
	}
	r.Hash, r.AppliedHash = blob(r.Hash), blob(r.AppliedHash)
	r.MissCode, r.LastCode, r.LastMessage = stored.Message(r.MissCode), stored.Message(r.LastCode), stored.Message(r.LastMessage)
	return &r
}

func rowOut(r *jobs.Row, body bool) jobs.Row {
	out := *r
	out.Hash, out.AppliedHash = blob(r.Hash), blob(r.AppliedHash)
	if out.Body = nil; body {
		out.Body = blob(r.Body)
	}
	return out
}

func flowIn(s jobs.FlowState) jobs.FlowState {
	s.MovedAt, s.ReadAt, s.Failing.Since = moment(s.MovedAt), moment(s.ReadAt), moment(s.Failing.Since)
	s.Failing.Code, s.Failing.Message = stored.Message(s.Failing.Code), stored.Message(s.Failing.Message)
	s.Suspended, s.Full = standingIn(s.Suspended), standingIn(s.Full)
	s.Restored.At, s.Restored.AsOf, s.Restored.Caught = moment(s.Restored.At), moment(s.Restored.AsOf), moment(s.Restored.Caught)
	return flowOut(s)
}

func flowOut(s jobs.FlowState) jobs.FlowState {
	s.Cursor = slices.Clone(s.Cursor) // one that is empty is no cursor that was never set
	return s
}

func sourceIn(r jobs.SourceRecord) jobs.SourceRecord {
	r.Stamp = stampIn(r.Stamp)
	return sourceOut(r)
}

func sourceOut(r jobs.SourceRecord) jobs.SourceRecord {
	r.Keys = texts(r.Keys)
	return r
}

func contenderIn(c jobs.Contender) jobs.Contender {
	c.Stamp, c.ChangedAt, c.Since = stampIn(c.Stamp), moment(c.ChangedAt), moment(c.Since)
	return contenderOut(c)
}

func contenderOut(c jobs.Contender) jobs.Contender {
	c.Hash, c.Body = blob(c.Hash), blob(c.Body)
	return c
}

func groupIn(g jobs.Group) jobs.Group {
	g.Sent = stampIn(g.Sent)
	return g
}

func pinIn(p jobs.Pin) jobs.Pin {
	p.FirstSentAt = moment(p.FirstSentAt)
	return pinOut(p)
}

func pinOut(p jobs.Pin) jobs.Pin {
	p.Body, p.Hash = blob(p.Body), blob(p.Hash)
	return p
}

func claimIn(c jobs.Claim) jobs.Claim {
	c.At = moment(c.At)
	return claimOut(c)
}

func claimOut(c jobs.Claim) jobs.Claim {
	c.Jobs = slices.Clone(c.Jobs)
	for i := range c.Jobs {
		c.Jobs[i].Hash = blob(c.Jobs[i].Hash)
	}
	return c
}

func linkIn(l jobs.Link) jobs.Link {
	l.SeenAt = moment(l.SeenAt)
	return l
}

func attemptIn(a jobs.Attempt) jobs.Attempt {
	a.At, a.Code, a.Message = moment(a.At), stored.Message(a.Code), stored.Message(a.Message)
	return a
}

func requestIn(r jobs.Request) jobs.Request {
	r.At, r.DueAt = moment(r.At), moment(r.DueAt)
	return r
}

func clientIn(c jobs.ClientState) jobs.ClientState {
	c.PausedUntil, c.Since, c.SeenAt = moment(c.PausedUntil), moment(c.Since), moment(c.SeenAt)
	c.Reason, c.Evidence, c.ExpiryHeld = stored.Message(c.Reason), stored.Message(c.Evidence), standingIn(c.ExpiryHeld)
	return c
}

func daemonIn(m jobs.Daemon) jobs.Daemon {
	m.Since, m.Until = moment(m.Since), moment(m.Until)
	return daemonOut(m)
}

func daemonOut(m jobs.Daemon) jobs.Daemon {
	m.Lanes = slices.Clone(m.Lanes)
	return m
}

func runIn(r jobs.Run) jobs.Run {
	r.At, r.EndedAt = moment(r.At), moment(r.EndedAt)
	r.By, r.Why, r.Message = stored.Message(r.By), stored.Message(r.Why), stored.Message(r.Message)
	return runOut(r)
}

func runOut(r jobs.Run) jobs.Run {
	r.Settings = blob(r.Settings)
	return r
}

// same is for what shares no memory when it is copied.
func same[T any](v T) T { return v }
