package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// A journal moves to another engine page by page, through the interface that both have.
// The one that it is copied from is marked first, so that no daemon works on it and no
// command changes it from then on. How far the copy has come stands in the copy, in the
// transaction that stores the page, so that it goes on exactly there. The copy is a
// journal for nobody before all is there: then the old one is marked as moved, and
// after that the new one begins its own epoch of the same journal.

const (
	// factMoving stands in a journal that is copied, or was: to where.
	factMoving = "moving"
	// factCopying stands in a copy that is not complete: from what, and how far.
	factCopying = "copying"
)

// ErrMoved says that the journal is another one by now, or is about to be.
var ErrMoved = errors.New("the journal was moved")

// ErrPartial says that a journal is a copy of which not all is there yet.
var ErrPartial = errors.New("the journal is a copy that is not complete")

// ErrNotEmpty says that a journal holds something already.
var ErrNotEmpty = errors.New("it is not empty")

// moving is the mark of a journal that is copied.
type moving struct {
	To    string    `json:"to"`
	Since time.Time `json:"since"`
	// Done: the copy is complete.
	Done bool `json:"done,omitempty"`
}

// copying is the mark of a copy, and how far it has come.
type copying struct {
	// Journal and Epoch are those of the journal that is copied.
	Journal string `json:"journal"`
	Epoch   string `json:"epoch"`
	From    string `json:"from"`
	// Stage is an index of stages. After names what was copied last in it: up to three
	// ids, or a number; ids are bytes.
	Stage int      `json:"stage"`
	After [][]byte `json:"after,omitempty"`
	N     int64    `json:"n,omitempty"`
	// Copied counts what was copied, by stage.
	Copied []int64 `json:"copied"`
}

// readFact reads a mark; ok is false where there is none.
func readFact(m map[string]string, name string, v any) (ok bool, err error) {
	if m[name] == "" {
		return false, nil
	}
	if err := json.Unmarshal([]byte(m[name]), v); err != nil {
		return false, fmt.Errorf("the fact %s is not what was written: %w", name, err)
	}
	return true, nil
}

func putFact(ctx context.Context, tx Tx, name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return tx.PutMeta(ctx, name, string(b))
}

// unmoved fails where a journal was moved, or is part of a move that has not ended.
func unmoved(m map[string]string) error {
	var to moving
	switch ok, err := readFact(m, factMoving, &to); {
	case err != nil:
		return err
	case ok && to.Done:
		return fmt.Errorf("%w to %s on %s; name that one in the configuration. If the old one is to be used after all, it is like a backup of that time: syncd restored --as-of %s",
			ErrMoved, to.To, stampText(to.Since), stampText(to.Since))
	case ok:
		return fmt.Errorf("%w: since %s it is being copied to %s; call syncd journal copy again, it goes on where it was, or end it with syncd journal copy --cancel", ErrMoved, stampText(to.Since), to.To)
	}
	var from copying
	ok, err := readFact(m, factCopying, &from)
	if ok {
		return fmt.Errorf("%w: it is copied from %s; call syncd journal copy again, it goes on where it was", ErrPartial, from.From)
	}
	return err
}

// Copy moves a journal into another engine.
type Copy struct {
	from, to *Journal
	at       copying
	mark     moving // of the journal that is copied
	// flows are those of the journal that is copied, nil before they are needed.
	flows []string
	// page is how many things are copied in one go, rowPage how many rows: fewer, where
	// their bodies are large.
	page, rowPage int
}

// stages are what is copied, in order; their names are for people.
var stages = []struct {
	name string
	copy func(c *Copy, ctx context.Context) (stored func(Tx) error, n int, err error)
}{
	{"jobs", (*Copy).rows},
	{"source records", (*Copy).sources},
	{"claims to keys of others", (*Copy).contenders},
	{"groups", (*Copy).groups},
	{"ids in targets", (*Copy).links},
	{"idempotency keys", (*Copy).pins},
	{"history entries", (*Copy).attempts},
	{"requests", (*Copy).requests},
	{"flows, clients and errands", (*Copy).rest},
}

const (
	copyPage = 500
	// copyBytes is how many bytes of bodies one page should have at most: after one
	// that had more, fewer rows are taken.
	copyBytes = 8 << 20
)

// BeginCopy marks a journal as being copied to another, which must be empty, or goes on
// with a copy that was begun. No daemon may be at work on either. page is how many
// things are copied in one go; 0 for 500.
func BeginCopy(ctx context.Context, from, to *Journal, page int) (*Copy, error) {
	if page <= 0 {
		page = copyPage
	}
	c := &Copy{from: from, to: to, page: page, rowPage: page}
	return c, wrap(c.begin(ctx), "begin to copy %s to %s", from.Describe(), to.Describe())
}

func (c *Copy) begin(ctx context.Context) error {
	if c.from.Describe() == c.to.Describe() {
		return errors.New("they are one and the same journal")
	}
	// The one that is copied is marked only when nothing stands against it at the other
	// place, and nothing is written there before it is marked.
	e, err := c.source(ctx, false)
	if err != nil {
		return err
	}
	if err := c.to.engine.View(ctx, func(tx Tx) error { return c.target(ctx, tx, e) }); err != nil {
		return err
	}
	if e, err = c.source(ctx, true); err != nil {
		return err
	}
	return c.to.engine.Update(ctx, func(tx Tx) error {
		if err := c.to.alone(ctx, tx); err != nil {
			return fmt.Errorf("the journal that is copied to: %w", err)
		}
		if err := c.target(ctx, tx, e); err != nil {
			return err
		}
		return putFact(ctx, tx, factCopying, c.at)
	})
}

// source looks at the journal that is copied, and marks it when it is asked to and it
// is not marked yet.
func (c *Copy) source(ctx context.Context, mark bool) (e Epoch, err error) {
	look := func(tx Tx) error {
		if mark {
			if err := c.from.alone(ctx, tx); err != nil {
				return err
			}
		}
		if e, err = epochOf(ctx, tx); err != nil {
			return err
		}
		m, err := tx.Meta(ctx)
		if err != nil {
			return err
		}
		c.mark = moving{}
		if marked, err := readFact(m, factMoving, &c.mark); err != nil || marked {
			if err == nil && c.mark.To != c.to.Describe() {
				err = unmoved(m)
			}
			return err
		}
		if err := runnable(ctx, tx); err != nil || !mark {
			return err
		}
		return putFact(ctx, tx, factMoving, moving{To: c.to.Describe(), Since: c.from.Now()})
	}
	if mark {
		return e, c.from.engine.Update(ctx, look)
	}
	return e, c.from.engine.View(ctx, look)
}

// target looks at the journal that is copied to: it has to be empty, or a part of this
// copy, with which it is gone on then.
func (c *Copy) target(ctx context.Context, tx Tx, e Epoch) error {
	m, err := tx.Meta(ctx)
	if err != nil {
		return err
	}
	c.at = copying{}
	begun, err := readFact(m, factCopying, &c.at)
	switch {
	case err != nil || begun && c.at.Journal == e.Journal && c.at.Epoch == e.ID:
		return err
	case begun:
		return fmt.Errorf("%w: %s holds a part of another journal, or of an older state of this one; empty it", ErrNotEmpty, c.to.Describe())
	case c.mark.Done:
		return unmovedFrom(c.mark)
	}
	c.at = copying{Journal: e.Journal, Epoch: e.ID, From: c.from.Describe(), Copied: make([]int64, len(stages))}
	if err := empty(ctx, tx, m); err != nil {
		return fmt.Errorf("%s: %w", c.to.Describe(), err)
	}
	return nil
}

// unmovedFrom is why a journal that bears a mark is not copied.
func unmovedFrom(mark moving) error {
	b, err := json.Marshal(mark)
	if err != nil {
		return err
	}
	return unmoved(map[string]string{factMoving: string(b)})
}

// empty fails where a journal holds something.
func empty(ctx context.Context, tx Tx, m map[string]string) error {
	something := func(what string, n int, err error) error {
		if err == nil && n > 0 {
			err = fmt.Errorf("%w: it has %s; name a place where no journal is", ErrNotEmpty, what)
		}
		return err
	}
	return firstOf(
		func() error {
			fs, err := tx.Flows(ctx)
			return something("flows", len(fs), err)
		},
		func() error {
			rows, err := tx.List(ctx, Filter{Limit: 1})
			return something("jobs", len(rows), err)
		},
		func() error {
			as, _, err := tx.ListAttempts(ctx, 0, 1)
			return something("a history", len(as), err)
		},
		func() error {
			cs, err := tx.LinkClients(ctx)
			return something("ids in targets", len(cs), err)
		},
		func() error {
			cs, err := tx.Clients(ctx)
			return something("clients", len(cs), err)
		},
		func() error {
			rs, err := tx.Runs(ctx, false, 1)
			return something("errands", len(rs), err)
		},
	)
}

func firstOf(fs ...func() error) error {
	for _, f := range fs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Copied is how much of what was copied.
type Copied struct {
	What string
	N    int64
}

// Copied tells what was copied so far, by earlier calls too.
func (c *Copy) Copied() []Copied {
	out := make([]Copied, len(stages))
	for i := range stages {
		out[i] = Copied{stages[i].name, c.at.Copied[i]}
	}
	return out
}

// Step copies the next page; over says that the copy is complete, and the journal from
// then on.
func (c *Copy) Step(ctx context.Context) (over bool, err error) {
	if c.at.Stage < len(stages) {
		what := stages[c.at.Stage].name
		return false, wrap(c.step(ctx), "copy the %s", what)
	}
	return true, wrap(c.finish(ctx), "end the copy")
}

func (c *Copy) step(ctx context.Context) error {
	was := c.at
	stage := stages[was.Stage]
	store, n, err := stage.copy(c, ctx)
	if err != nil {
		c.at = was
		return err
	}
	if n == 0 {
		c.at = copying{Journal: was.Journal, Epoch: was.Epoch, From: was.From, Stage: was.Stage + 1}
	}
	c.at.Copied = slices.Clone(was.Copied)
	c.at.Copied[was.Stage] += int64(n)
	err = c.to.engine.Update(ctx, func(tx Tx) error {
		if n > 0 {
			if err := store(tx); err != nil {
				return err
			}
		}
		return putFact(ctx, tx, factCopying, c.at)
	})
	if err != nil {
		c.at = was
	}
	return err
}

// view reads a page of the journal that is copied.
func (c *Copy) view(ctx context.Context, fn func(tx Tx) error) error {
	return c.from.engine.View(ctx, fn)
}

// after returns the i-th id behind which the stage goes on.
func (c *Copy) after(i int) string {
	if i >= len(c.at.After) {
		return ""
	}
	return string(c.at.After[i])
}

func (c *Copy) behind(ids ...string) {
	c.at.After = nil
	for _, id := range ids {
		c.at.After = append(c.at.After, []byte(id))
	}
}

// ownFacts are those of which each engine has its own.
var ownFacts = []string{"schema", factEpoch, factNumber, factJournal, factMarker, factFile, factMoving, factCopying}

// addRunAs adds an errand under the number that it has, for which those before it are
// used up; or under a later one, where a try that failed has used up that too.
func addRunAs(ctx context.Context, tx Tx, r Run) error {
	for {
		id, err := tx.AddRun(ctx, r)
		if err != nil || id >= r.ID {
			return err
		}
		if err := tx.DeleteRuns(ctx, []int64{id}); err != nil {
			return err
		}
	}
}

// finish has the old journal be the moved one first, and then the new one the journal.
func (c *Copy) finish(ctx context.Context) error {
	var e Epoch
	err := c.from.engine.Update(ctx, func(tx Tx) error {
		if err := c.from.alone(ctx, tx); err != nil {
			return err
		}
		m, err := tx.Meta(ctx)
		if err != nil {
			return err
		}
		var mark moving
		if ok, err := readFact(m, factMoving, &mark); err != nil || !ok {
			return errors.Join(err, errors.New("the mark of the journal that is copied was taken away meanwhile; begin anew, with another place to copy to"))
		}
		mark.Done = true
		if e, err = epochOf(ctx, tx); err != nil {
			return err
		}
		return putFact(ctx, tx, factMoving, mark)
	})
	if err != nil {
		return err
	}
	return c.to.engine.Update(ctx, func(tx Tx) error {
		if err := tx.PutMeta(ctx, factJournal, e.Journal); err != nil {
			return err
		}
		if err := tx.PutMeta(ctx, factNumber, strconv.FormatInt(e.Number, 10)); err != nil {
			return err
		}
		if _, err := nextEpoch(ctx, tx, c.to.Now()); err != nil {
			return err
		}
		return tx.PutMeta(ctx, factCopying, "")
	})
}

// restorable fails for a journal that is half of a move that has not ended. The mark of
// one that was moved is taken off: a person wants to have it as it was then.
func restorable(ctx context.Context, tx Tx) error {
	m, err := tx.Meta(ctx)
	if err != nil {
		return err
	}
	var mark moving
	ok, err := readFact(m, factMoving, &mark)
	if err != nil {
		return err
	}
	if !ok || !mark.Done {
		return unmoved(m)
	}
	return tx.PutMeta(ctx, factMoving, "")
}

// CancelCopy takes the mark off a journal of which a copy was begun, and begins its next
// epoch: what was copied is of no use any more. ok is false when there was none. A
// copy that is complete is the journal, and is not taken back.
func (j *Journal) CancelCopy(ctx context.Context) (ok bool, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		if err := j.alone(ctx, tx); err != nil {
			return err
		}
		m, err := tx.Meta(ctx)
		if err != nil {
			return err
		}
		var mark moving
		if ok, err = readFact(m, factMoving, &mark); err != nil || !ok {
			return err
		}
		if mark.Done {
			return unmovedFrom(mark)
		}
		if _, err := nextEpoch(ctx, tx, j.Now()); err != nil {
			return err
		}
		return tx.PutMeta(ctx, factMoving, "")
	})
	return ok, wrap(err, "end the copying of the journal")
}
