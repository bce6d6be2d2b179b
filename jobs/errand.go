package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// The kinds of errands.
const (
	// RunRemap has all records of a flow read again and mapped as the flow maps now.
	RunRemap = "remap"
	// RunRedeliver has the records of a flow written again that were written since a
	// time, because their target was restored from a backup of before it.
	RunRedeliver = "redeliver"
	// RunRestore has what may have been written unknown to the journal be in doubt,
	// because the journal was restored from a backup. It is of no flow, and no daemon
	// runs before it has ended.
	RunRestore = "restore"
)

// mostRuns bounds the errands that are looked at for one that is open.
const mostRuns = 1000

// Open reports whether an errand goes on.
func (r Run) Open() bool { return r.EndedAt.IsZero() }

// ErrNotCovered says that an errand goes on that does not do all of what another one of its
// kind is to do.
var ErrNotCovered = errors.New("it does less than what is asked for")

// covers fails unless an errand that goes on does what o is to do, too.
func (r *Run) covers(o *Run) error {
	if r.Kind != RunRedeliver {
		return nil
	}
	var mine, theirs redelivery
	if err := errors.Join(json.Unmarshal(r.Settings, &mine), json.Unmarshal(o.Settings, &theirs)); err != nil {
		return fmt.Errorf("read the settings of errand %d: %w", r.ID, err)
	}
	if theirs.Since.Before(mine.Since) {
		return fmt.Errorf("errand %d goes on and is about what was written since %s: %w; wait until it has ended, or end it with syncd runs --stop %d, and call this again",
			r.ID, stampText(mine.Since), ErrNotCovered, r.ID)
	}
	return nil
}

// StartRun begins an errand, unless one of its kind goes on for its flow already: then that
// one is returned, and fresh is false. Its error wraps ErrNotCovered when that one does less.
func (j *Journal) StartRun(ctx context.Context, r Run) (run Run, fresh bool, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		open, err := tx.Runs(ctx, true, mostRuns)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.Kind == r.Kind && o.Flow == r.Flow {
				run, fresh = o, false
				return o.covers(&r)
			}
		}
		run, fresh = r, true
		run.At = j.Now()
		run.ID, err = tx.AddRun(ctx, run)
		return err
	})
	return run, fresh, wrap(err, "begin to %s flow %s", r.Kind, r.Flow)
}

// StopRun ends an errand before its time. What is behind it stays done. ok is false
// when there is none of that number that goes on, or it must not be left half done.
func (j *Journal) StopRun(ctx context.Context, id int64, why string) (run Run, ok bool, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		ok = false
		open, err := tx.Runs(ctx, true, mostRuns)
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.ID == id && o.Kind != RunRestore {
				run, ok = o, true
				run.EndedAt, run.Message = j.Now(), clip(why)
				return tx.PutRun(ctx, run)
			}
		}
		return nil
	})
	return run, ok, wrap(err, "stop errand %d", id)
}

// Runs returns errands, newest first, at most limit; with open only those that go on.
func (j *Journal) Runs(ctx context.Context, open bool, limit int) (rs []Run, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		rs, err = tx.Runs(ctx, open, limit)
		return err
	})
	return rs, wrap(err, "read the errands")
}

// Stepped is what one step of an errand came to.
type Stepped struct {
	Run Run
	// Wait is how long the next step has to wait for; 0 when it can follow at once.
	Wait time.Duration
}

// StepRun does the next small part of an errand and stores how far it has come, in
// one transaction. Several daemons and commands may do so at the same time. An
// errand that has ended, or is of a flow that is not among flows, stays as it is.
func (j *Journal) StepRun(ctx context.Context, id int64, flows map[string]*Flow) (st Stepped, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		st = Stepped{Wait: time.Minute}
		open, err := tx.Runs(ctx, true, mostRuns) // held until the end, so steps follow one another
		if err != nil {
			return err
		}
		for _, o := range open {
			if o.ID == id {
				st.Run = o
			}
		}
		f := flows[st.Run.Flow]
		if st.Run.ID == 0 || f == nil && st.Run.Kind != RunRestore {
			return nil
		}
		switch st.Run.Kind {
		case RunRemap:
			st.Wait, err = j.remapStep(ctx, tx, &st.Run, f)
		case RunRedeliver:
			st.Wait, err = j.redeliverStep(ctx, tx, &st.Run, f)
		case RunRestore:
			st.Wait, err = 0, j.restoreStep(ctx, tx, &st.Run, flows)
		default:
			return fmt.Errorf("errand %d is of a kind that is not known here: %s", id, st.Run.Kind)
		}
		if err != nil {
			return err
		}
		// More may have come while it went on than there were when they were counted.
		st.Run.Total = max(st.Run.Total, st.Run.Done)
		return tx.PutRun(ctx, st.Run)
	})
	return st, wrap(err, "go on with errand %d", id)
}

// end ends an errand that has done its work.
func (r *Run) end(now time.Time, format string, args ...any) {
	r.EndedAt, r.Message = now, clip(fmt.Sprintf(format, args...))
}
