package upsert

import (
	"context"
	"errors"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// Links commits what the target called a record, before anything more is done to it.
type Links interface {
	// PutLink has stored the link durably when it returns nil.
	PutLink(ctx context.Context, j *jobs.Job, link string) error
}

// Pins commits what is sent under an idempotency key, before it is sent.
type Pins interface {
	// PutPin has stored p durably when it returns nil.
	PutPin(ctx context.Context, client string, p jobs.Pin) error
	// Secret is what keys are made with; it never changes.
	Secret(ctx context.Context) ([]byte, error)
}

// Journal is what strategies commit while they are at work.
type Journal interface {
	Links
	Pins
}

// Strategy applies the jobs of one flow. It is safe for use by several
// goroutines at once, as long as no two of them have a job of the same record.
type Strategy struct {
	// Panicked, when set, is told of a panic in a connector, with the stack. It
	// must be set before the first Apply. The outcome of the job names the panic's
	// kind and nothing of its text, which may hold parts of a record.
	Panicked func(op string, j *jobs.Job, value any, stack []byte)

	flow    *jobs.Flow
	info    connectors.EntityInfo
	journal Journal
	now     func() time.Time
	settle  time.Duration

	// What the entity can do; nil where it cannot.
	upserter connectors.Upserter
	creator  connectors.Creator
	composer connectors.Composer
	finder   connectors.Finder
	updater  connectors.Updater
	remover  connectors.Remover
	advancer connectors.Advancer
}

// New returns the strategy of a flow over the entity that it writes. It fails
// when the entity cannot carry what the flow asks for, and names everything
// that is wrong. now is the journal's clock.
//
// The flow's SettleTime counts; where it is 0, the entity's.
func New(f *jobs.Flow, e connectors.Entity, j Journal, now func() time.Time) (*Strategy, error) {
	s := &Strategy{flow: f, info: e.Info(), journal: j, now: now, settle: f.SettleTime}
	if s.settle == 0 {
		s.settle = s.info.SettleTime
	}
	can := connectors.PrimitivesOf(e)
	s.upserter, s.creator, s.composer, s.finder = can.Upserter, can.Creator, can.Composer, can.Finder
	s.updater, s.remover, s.advancer = can.Updater, can.Remover, can.Advancer
	if problems := s.problems(); len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return s, nil
}

// upserts reports whether jobs are written by Upsert. A flow that never changes
// a record which is there cannot be: an upsert would change it.
func (s *Strategy) upserts() bool {
	return s.flow.Strategy == connectors.NaturalKey && !s.flow.CreateOnly
}

// Repeats reports that a write of which the answer was lost is simply sent again:
// to have more of them in doubt after a crash costs a call for each, and nobody a look.
func (s *Strategy) Repeats() bool { return s.upserts() }

// MaxBatch is how many jobs Apply sends to the target at once; at least 1. More
// may be given to it, and are sent one batch after the other.
func (s *Strategy) MaxBatch() int {
	if !s.upserts() {
		return 1
	}
	return max(s.info.MaxBatch, 1)
}

// Apply brings the record of each job to its desired state and returns one
// outcome per job, in order. The jobs are the flow's and of distinct keys. It
// returns Paused with CodeStopping for jobs of which nothing was sent because
// ctx was cancelled, Transient with CodeTimeout where its deadline was over, and
// never panics.
func (s *Strategy) Apply(ctx context.Context, js []*jobs.Job) []connectors.Outcome {
	out := make([]connectors.Outcome, len(js))
	var batch []*attempt
	var place []int
	for i, j := range js {
		a := s.attempt(j)
		if o, ended := a.begin(ctx); ended {
			out[i] = a.end(o)
			continue
		}
		batch, place = append(batch, a), append(place, i)
	}
	for n := s.MaxBatch(); len(batch) > 0; {
		n = min(n, len(batch))
		for i, o := range s.upsert(ctx, batch[:n]) {
			out[place[i]] = batch[i].end(o)
		}
		batch, place = batch[n:], place[n:]
	}
	return out
}

// begin does everything for a job but the upsert that it may share with others;
// ended is false when that is still to be sent.
func (a *attempt) begin(ctx context.Context) (o connectors.Outcome, ended bool) {
	switch {
	case ctx.Err() != nil:
		return stopping(ctx), true
	case a.flow.Strategy == connectors.AtMostOnce && a.j.Unresolved():
		return a.unresolvable(), true
	case a.j.Gone:
		return a.gone(ctx), true
	case len(a.j.Body) == 0:
		return connectors.Fail(connectors.Invalid, CodeNoBody, "the job has no record to write; replay it from its source"), true
	case a.upserts():
		return a.beforeUpsert(ctx)
	default:
		return a.reference(ctx), true
	}
}
