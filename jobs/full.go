package jobs

import (
	"context"
	"fmt"
	"time"
)

// A source is read no further while so much of its flow is open, or so little space is
// left on the journal's disk, that reading on would end badly. Writing goes on. The
// stop and the end of it stand in FlowState.Full.

const (
	codeBacklog = "backlog"
	codeDisk    = "disk"
	// fullSlack is the part of max_open, one in so many, after which open jobs are counted
	// again at the earliest while the bound is near: a count goes through them all, and must
	// not be made for each page.
	fullSlack = 20
	// fullAgain is after how long they are counted again at the latest, because not only
	// reading opens jobs.
	fullAgain = 10 * time.Minute
)

// Backlog watches whether a flow may be read. It is for one goroutine.
type Backlog struct {
	j    *Journal
	flow *Flow

	known bool // full is as it is stored
	full  Standing
	// open is the last count, made at, and since how many jobs may have been opened by
	// reading after it.
	open, since int
	at          time.Time
}

// Backlog returns a watch over a flow that has counted nothing yet.
func (j *Journal) Backlog(f *Flow) *Backlog { return &Backlog{j: j, flow: f} }

// Admitted takes account of what was read.
func (b *Backlog) Admitted(a Admitted) { b.since += a.New + a.Changed + a.Gone }

// Full says why the flow may not be read now, zero if it may, and whether that is new.
func (b *Backlog) Full(ctx context.Context) (full Standing, turned bool, err error) {
	if !b.known {
		fs, err := b.j.Cursor(ctx, b.flow.Name)
		if err != nil {
			return full, false, err
		}
		b.full, b.known = fs.Full, true
	}
	if full, err = b.look(ctx); err != nil {
		return full, false, err
	}
	if full.Is() && full.Code == b.full.Code {
		full.Since = b.full.Since
	}
	turned = full.Is() != b.full.Is() || full.Code != b.full.Code
	if !turned {
		return b.full, false, nil
	}
	err = b.j.noteReading(ctx, b.flow.Name, func(s *FlowState) { s.Full = full })
	if err == nil {
		b.full = full
	}
	return full, turned, err
}

// look decides by what is there now. What was a reason to stop has to be better by a
// tenth than what is one, so that reading does not start and stop all the time.
func (b *Backlog) look(ctx context.Context) (Standing, error) {
	now := b.j.Now()
	if d, ok := b.j.engine.(interface{ LowDisk(more bool) string }); ok {
		if why := d.LowDisk(b.full.Code == codeDisk); why != "" {
			return Standing{Since: now, Code: codeDisk, Message: clip(why + "; nothing more is read until there is space, and writing goes on")}, nil
		}
	}
	most := b.flow.MaxOpen
	if most == 0 {
		return Standing{}, nil
	}
	near := b.open+b.since >= most && b.since >= max(1, most/fullSlack)
	if b.full.Code == codeBacklog || b.at.IsZero() || near || now.Sub(b.at) >= fullAgain || now.Before(b.at) {
		err := b.j.engine.View(ctx, func(tx Tx) (err error) {
			b.open, err = tx.CountReady(ctx, b.flow.Name, most)
			return err
		})
		if err != nil {
			return Standing{}, wrap(err, "count the open jobs of flow %s", b.flow.Name)
		}
		b.since, b.at = 0, now
	}
	bound := most
	if b.full.Code == codeBacklog {
		bound = most - most/10
	}
	if b.open < bound {
		return Standing{}, nil
	}
	return Standing{Since: now, Code: codeBacklog, Message: fmt.Sprintf("max_open: %d of its jobs or more are open; nothing more is read until less than nine tenths of that are, and writing goes on", most)}, nil
}
