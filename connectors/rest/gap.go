package rest

import (
	"context"
	"errors"
	"fmt"

	"syncd/connectors"
)

// A keyset reading rests on one promise of the server's: asked for what changed
// since a stamp, it gives the records that bear the stamp, too. This file holds it
// to that, and reads on where the promise is not enough because the records of one
// stamp cannot all be reached.

// topOf is the greatest stamp of a page.
func topOf(l listing) (top int64) {
	for _, r := range l.recs {
		top = max(top, r.stamp)
	}
	return top
}

// passedOver tells whether a page that was asked for from the last stamp on holds
// no record that bears it. Either all of them have changed since, or the filter
// leaves them out, and with them others that have not been read.
func (p *plan) passedOver(s *scan, l listing) bool {
	if p.kind != pageKeyset || s.Before == nil || s.Sub > 0 || s.Pass > 0 {
		return false
	}
	for _, r := range l.recs {
		if r.stamp == s.Top {
			return false
		}
	}
	// Bounds are coarser than stamps: what comes before it may fill the page.
	top := topOf(l)
	return top == 0 || top > s.Top
}

// provePassing asks once more for the page that held the records now missing. If
// they still bear their stamp there, the filter has left them out: an error, since
// the others of the stamp would never be read. If they do not, they have changed.
func (s *source) provePassing(ctx context.Context, st *stream, pos *position, l listing) error {
	sc := pos.Scan
	before := *sc
	before.At, before.Sub = sc.Before.At, sc.Before.Sub
	again, err := s.list(ctx, st, &position{V: pos.V, Scan: &before})
	if err != nil {
		return err
	}
	for _, r := range again.recs {
		if r.stamp == sc.Top {
			return st.plan.leftOut(sc.Top, len(l.recs))
		}
	}
	return nil
}

func (p *plan) leftOut(top int64, n int) error {
	what := "since.inclusive is true, and the API leaves out the records that bear the very stamp: set inclusive: false in since"
	if !p.inclusive {
		what = "look at the format and the zone of since"
	}
	return connectors.Errorf(connectors.Invalid, "keyset_left_out",
		"asked for what changed since %s, the server gave %d records and none of those that bear this stamp, which it gives when asked for earlier ones; others that share it would be lost. %s",
		p.sinceFmt.format(top), n, what)
}

// isStuck tells of the error of a reading that cannot reach all records of one stamp.
func isStuck(err error) bool {
	var e *connectors.Error
	return errors.As(err, &e) && e.Code == "keyset_stuck"
}

// stuck hands out what has been read of a stamp whose records cannot all be
// reached, and then what comes after them, so that nothing that can be read waits
// for a person. The reading itself stays where it is. When there is nothing that
// was not handed out before, all that is left is the complaint.
func (s *source) stuck(ctx context.Context, st *stream, pos position, l listing, complaint error) (connectors.Page, error) {
	sc := pos.Scan
	if d := statesDigest(l.recs); d != sc.Stuck {
		sc.Stuck, sc.Past, sc.Last = d, 0, ""
		return st.plan.stays(pos, l)
	}
	past := *sc
	past.Sub = 0
	past.At = max(sc.Past, st.plan.after(sc.At))
	beyond, err := s.list(ctx, st, &position{V: pos.V, Scan: &past})
	if err != nil {
		return connectors.Page{}, err
	}
	if _, err := st.plan.checkOrder(&past, beyond); err != nil {
		return connectors.Page{}, complaint // the cause of which comes first
	}
	d := statesDigest(beyond.recs)
	if len(beyond.recs) == 0 || d == sc.Last {
		return connectors.Page{}, complaint
	}
	sc.Last = d
	sc.Past = max(sc.Past, floor(topOf(beyond), st.plan.sinceFmt.unit()))
	// A page that holds more shows that the one before was not cut.
	pos.Most = max(pos.Most, len(beyond.recs))
	return st.plan.stays(pos, beyond)
}

// stays is a page after which the reading stands where it stood.
func (p *plan) stays(pos position, l listing) (page connectors.Page, err error) {
	page = connectors.Page{Observed: l.observed, ServerTime: l.date, More: true, Events: p.wanted(pos, l.recs)}
	page.Next, err = pos.encode()
	return page, err
}

// after is the lowest bound whose answer leaves out the records at a stamp, if the
// filter is as the settings say.
func (p *plan) after(at int64) int64 {
	u := p.sinceFmt.unit()
	if p.sinceFmt.isDate() {
		return at + 2*u // bounds in days are sent a day lower
	}
	return at + u
}

// statesDigest tells one page from another by its records and their stamps.
func statesDigest(recs []record) string {
	return fmt.Sprintf("%d-%s", len(recs), addSum("", recs))
}
