package jobs

import (
	"context"
	"time"
)

// ReadingNoted is how often a good reading that brought nothing new is noted at
// most; noting costs a durable write, and most readings bring nothing.
const ReadingNoted = time.Minute

// ReadWell notes that the source of a flow was read well at a time, and that
// whatever was wrong with it is over.
func (j *Journal) ReadWell(ctx context.Context, flow string, at time.Time) error {
	return j.noteReading(ctx, flow, func(s *FlowState) {
		s.ReadAt, s.Failing = later(s.ReadAt, micro(at)), Failing{}
		s.readToTheEnd(at, j.Now())
	})
}

// ReadFailed notes why reading the source of a flow failed. Since is when it
// failed first: a failure that is noted already, perhaps by an earlier daemon,
// keeps its beginning.
func (j *Journal) ReadFailed(ctx context.Context, flow string, f Failing) error {
	return j.noteReading(ctx, flow, func(s *FlowState) {
		f.Since, f.Message = micro(f.Since), clip(f.Message)
		if !s.Failing.Since.IsZero() {
			f.Since = s.Failing.Since
		}
		s.Failing = f
	})
}

func (j *Journal) noteReading(ctx context.Context, flow string, change func(*FlowState)) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		s, err := tx.LockFlow(ctx, flow)
		if err != nil {
			return err
		}
		change(&s)
		return tx.SaveFlow(ctx, s)
	})
	return wrap(err, "note how reading of flow %s goes", flow)
}

// Probe makes a small durable write, to find out whether the journal can be
// written. A journal that is read well may be on a disk that is full.
func (j *Journal) Probe(ctx context.Context) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		return tx.PutMeta(ctx, "probed_at", j.Now().Format(time.RFC3339))
	})
	return wrap(err, "write a probe")
}
