package jobs

import (
	"context"
	"fmt"
)

// mostShown bounds what a daemon shows of a lane, in bytes.
const mostShown = 8 << 10

// shownOf names the fact that keeps what was last shown of a lane.
func shownOf(l LaneID) string { return fmt.Sprintf("shown/%s/%d", l.Client, l.Shard) }

// Show has what this daemon shows of a lane – how its client may be called, for people and for the daemon that has
// the lane next – stored with the next renewal of its lease, or when the lane is given back. It is text of at most
// 8 KiB, without secrets and customer data; what is longer is not stored.
func (j *Journal) Show(l LaneID, text string) {
	if len(text) > mostShown {
		return
	}
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	if j.holds.shown == nil {
		j.holds.shown = map[LaneID]*shown{}
	}
	s := j.holds.shown[l]
	if s == nil {
		s = &shown{}
		j.holds.shown[l] = s
	}
	s.text = text
}

// shown is what is to be shown of a lane, and what is stored of it.
type shown struct{ text, stored string }

// Shown is what was last shown of a lane, by whatever daemon; "" for nothing.
func (j *Journal) Shown(ctx context.Context, l LaneID) (text string, err error) {
	j.holds.mu.Lock()
	s := j.holds.shown[l]
	j.holds.mu.Unlock()
	if s != nil {
		return s.text, nil
	}
	err = j.engine.View(ctx, func(tx Tx) error {
		m, err := tx.Meta(ctx)
		text = m[shownOf(l)]
		return err
	})
	return text, wrap(err, "read what was shown of client %s", l)
}

// ShownOf finds what was last shown of a lane among the journal's facts; "" for nothing.
func (o *Overview) ShownOf(l LaneID) string { return o.Meta[shownOf(l)] }

// news are lanes of which something else is to be shown than is stored.
func (j *Journal) news(of func(LaneID) bool) map[LaneID]string {
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	out := map[LaneID]string{}
	for l, s := range j.holds.shown {
		if s.text != s.stored && of(l) {
			out[l] = s.text
		}
	}
	return out
}

// putShown stores what is to be shown of lanes that this daemon has.
func putShown(ctx context.Context, tx Tx, news map[LaneID]string) error {
	for l, text := range news {
		if err := tx.PutMeta(ctx, shownOf(l), text); err != nil {
			return err
		}
	}
	return nil
}

// stored notes what is stored by now.
func (j *Journal) stored(news map[LaneID]string, given bool) {
	j.holds.mu.Lock()
	defer j.holds.mu.Unlock()
	for l, text := range news {
		if s := j.holds.shown[l]; s != nil {
			s.stored = text
		}
		if given {
			delete(j.holds.shown, l) // the next one is another daemon's to tell
		}
	}
}
