package jobs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// A journal that is put back from a backup knows nothing of what was written since.
// That it was put back shows by what stands outside it: a daemon keeps in its state
// directory which epoch of which journal it has seen last, and how far a mark had come
// that grows in the journal all the time.

// The journal's own facts about that. The epoch is there from the beginning; without a
// number it is the first, and without a name of the journal its id is that.
const (
	factEpoch    = "epoch"
	factNumber   = "epoch_number"
	factJournal  = "journal"
	factMark     = "mark"
	factMarkedAt = "marked_at"
	// factMarker is written first by whoever marks the journal, or needs to be alone
	// with it, so that the next one waits and then sees what was done.
	factMarker = "marked_by"
	// factFile tells the file of an embedded journal from a copy of it.
	factFile = "file"
)

// FirstFacts are the journal's own facts from the beginning, which an engine writes
// when it makes a journal: what must be the same in every backup of it.
func FirstFacts(now time.Time) map[string]string {
	return map[string]string{
		factEpoch:    rand.Text(),
		"created_at": now.Format(time.RFC3339Nano),
		factSecret:   newSecret(),
	}
}

// MarkEvery is how often a daemon moves the mark. What a restore loses of less than
// that may go unnoticed.
const MarkEvery = 10 * time.Second

// ErrRestored says that a journal is not as it was left: it was put back from a backup.
var ErrRestored = errors.New("the journal was restored from a backup")

// ErrUnfinished says that what a restore leaves in doubt is not marked yet.
var ErrUnfinished = errors.New("syncd restored was begun and has not ended; call it again, it goes on where it was")

// ErrCopied says that an embedded journal stands in another file than the one that it
// was left in.
var ErrCopied = errors.New("the journal's file is a copy")

// Epoch is where a journal stands in its history.
type Epoch struct {
	// Journal tells the journal from all others, for good.
	Journal string `json:"journal"`
	// ID is the epoch's own, random. Number grows with each epoch.
	ID     string `json:"epoch"`
	Number int64  `json:"number"`
	// Mark only grows within an epoch; it was moved last At.
	Mark int64     `json:"mark"`
	At   time.Time `json:"at"`
}

// Known reports whether there is one.
func (e Epoch) Known() bool { return e.Journal != "" }

// Meet compares a journal that was seen at e with what it is now. Its error wraps
// ErrRestored and says what tells. A later epoch is no reason to stop: a person has
// said what the journal is.
func (e Epoch) Meet(now Epoch) error {
	switch {
	case !e.Known() || e.Journal != now.Journal || now.Number > e.Number:
		return nil
	case now.Number < e.Number:
		return fmt.Errorf("%w: it is of epoch %d, and its epoch %d had begun already", ErrRestored, now.Number, e.Number)
	case now.ID != e.ID:
		return fmt.Errorf("%w: its epoch %d is another one than that which was seen here", ErrRestored, now.Number)
	case now.Mark < e.Mark:
		return fmt.Errorf("%w, or its database has lost its newest writes in a failover: it stands as of %s (mark %d), and stood as of %s (mark %d) already",
			ErrRestored, stampText(now.At), now.Mark, stampText(e.At), e.Mark)
	}
	return nil
}

// Epoch returns where the journal stands.
func (j *Journal) Epoch(ctx context.Context) (e Epoch, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		e, err = epochOf(ctx, tx)
		return err
	})
	return e, wrap(err, "read the journal's epoch")
}

func epochOf(ctx context.Context, tx Tx) (Epoch, error) {
	m, err := tx.Meta(ctx)
	if err != nil {
		return Epoch{}, err
	}
	e := Epoch{Journal: m[factJournal], ID: m[factEpoch], Number: 1}
	if e.Journal == "" {
		e.Journal = e.ID
	}
	for name, n := range map[string]*int64{factNumber: &e.Number, factMark: &e.Mark} {
		if m[name] == "" {
			continue
		}
		if *n, err = strconv.ParseInt(m[name], 10, 64); err != nil {
			return Epoch{}, fmt.Errorf("the fact %s is not what was written: %w", name, err)
		}
	}
	if m[factMarkedAt] != "" {
		if e.At, err = time.Parse(time.RFC3339Nano, m[factMarkedAt]); err != nil {
			return Epoch{}, fmt.Errorf("the fact %s is not what was written: %w", factMarkedAt, err)
		}
	}
	return e, nil
}

// Mark moves the journal's mark, unless the journal is not what it was when it was seen
// last: then its error wraps ErrRestored. It returns where the journal stands from
// then on, which is to be kept outside it.
func (j *Journal) Mark(ctx context.Context, seen Epoch) (now Epoch, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		if err := tx.PutMeta(ctx, factMarker, j.owner); err != nil {
			return err
		}
		if now, err = epochOf(ctx, tx); err != nil {
			return err
		}
		if err := seen.Meet(now); err != nil {
			return err
		}
		if err := runnable(ctx, tx); err != nil {
			return err // begun in spite of this daemon, which was not seen
		}
		now.Mark++
		now.At = j.Now()
		return putMark(ctx, tx, now)
	})
	return now, wrap(err, "mark how far the journal has come")
}

func putMark(ctx context.Context, tx Tx, e Epoch) error {
	if err := tx.PutMeta(ctx, factMark, strconv.FormatInt(e.Mark, 10)); err != nil {
		return err
	}
	return tx.PutMeta(ctx, factMarkedAt, e.At.Format(time.RFC3339Nano))
}

// SameFile notes in which file an embedded journal stands, by what tells that file from
// a copy. Its error wraps ErrCopied when it is another one than was noted.
func (j *Journal) SameFile(ctx context.Context, file string) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		m, err := tx.Meta(ctx)
		switch {
		case err != nil:
			return err
		case m[factFile] == "":
			return tx.PutMeta(ctx, factFile, file)
		case m[factFile] != file:
			return ErrCopied
		}
		return nil
	})
	return wrap(err, "see in which file the journal stands")
}

// SeeFile compares the file of an embedded journal as SameFile does, and changes nothing.
func (j *Journal) SeeFile(ctx context.Context, file string) error {
	err := j.engine.View(ctx, func(tx Tx) error {
		m, err := tx.Meta(ctx)
		if err == nil && m[factFile] != "" && m[factFile] != file {
			return ErrCopied
		}
		return err
	})
	return wrap(err, "see in which file the journal stands")
}

// Moved takes the file in which an embedded journal stands for the one to stay with,
// because a person says that it was moved as it stood.
func (j *Journal) Moved(ctx context.Context, file string) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		if err := j.alone(ctx, tx); err != nil {
			return err
		}
		return tx.PutMeta(ctx, factFile, file)
	})
	return wrap(err, "take another file for the journal's own")
}

// alone fails with ErrInUse unless no daemon is at work on the journal. None joins
// before the transaction has ended, and whoever joins then sees what it did.
func (j *Journal) alone(ctx context.Context, tx Tx) error {
	if err := tx.PutMeta(ctx, factMarker, j.owner); err != nil {
		return err
	}
	ms, err := tx.Daemons(ctx)
	if err != nil {
		return err
	}
	s := Survey{Daemons: ms}
	if living := s.Living(j.Me().Process); len(living) > 0 {
		p := living[0].Process
		return fmt.Errorf("%w: process %d on %s; stop it first", ErrInUse, p.PID, p.Host)
	}
	return nil
}

// mayRun fails unless daemons may work on the journal as it stands.
func (j *Journal) mayRun(ctx context.Context) error {
	err := j.engine.Update(ctx, func(tx Tx) error {
		if err := tx.PutMeta(ctx, factMarker, j.owner); err != nil {
			return err
		}
		return runnable(ctx, tx)
	})
	return wrap(err, "see whether the journal may be worked on")
}

// Runnable fails unless daemons may work on the journal as it stands; its error says
// what is to be done.
func (j *Journal) Runnable(ctx context.Context) error {
	err := j.engine.View(ctx, func(tx Tx) error { return runnable(ctx, tx) })
	return wrap(err, "see whether the journal may be worked on")
}

func runnable(ctx context.Context, tx Tx) error {
	m, err := tx.Meta(ctx)
	if err != nil {
		return err
	}
	if err := unmoved(m); err != nil {
		return err
	}
	open, err := tx.Runs(ctx, true, mostRuns)
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Kind == RunRestore {
			return ErrUnfinished
		}
	}
	return nil
}

// nextEpoch begins an epoch. Its number is the time, in seconds, so that it is later than
// every one before, also than those that the journal does not know any more.
func nextEpoch(ctx context.Context, tx Tx, now time.Time) (Epoch, error) {
	e, err := epochOf(ctx, tx)
	if err != nil {
		return e, err
	}
	e.ID = rand.Text()
	e.Number = max(e.Number+1, now.Unix())
	for name, value := range map[string]string{factJournal: e.Journal, factEpoch: e.ID, factNumber: strconv.FormatInt(e.Number, 10)} {
		if err := tx.PutMeta(ctx, name, value); err != nil {
			return e, err
		}
	}
	return e, nil
}
