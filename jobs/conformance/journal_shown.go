package conformance

import (
	"context"
	"strings"

	"syncd/jobs"
)

// shownRules are of what a daemon shows of its lanes.
var shownRules = []rule{
	{"what a daemon shows of a lane is stored with its lease, and outlives the daemon", func(b *bench) {
		lane := jobs.LaneID{Client: "erp"}
		read := func(j *jobs.Journal) string {
			b.Helper()
			s, err := j.Shown(context.Background(), lane)
			if err != nil {
				b.Fatal(err)
			}
			return s
		}
		b.daemon("a", 1)
		a := b
		other := jobs.New(b.engine, jobs.Options{Owner: "other"})
		is(b, "nothing yet", read(a.journal), "")
		a.journal.Show(lane, "one")
		is(b, "to itself at once", read(a.journal), "one")
		is(b, "to others before it is stored", read(other), "")
		if err := a.journal.Renew(context.Background()); err != nil {
			b.Fatal(err)
		}
		is(b, "to others", read(other), "one")
		a.journal.Show(lane, strings.Repeat("x", 9<<10))
		is(b, "too long", read(a.journal), "one")
		a.journal.Show(lane, "two")
		for _, h := range a.journal.Holds() {
			if err := a.journal.Release(context.Background(), h); err != nil {
				b.Fatal(err)
			}
		}
		is(b, "with the lane given back", read(other), "two")
		o, err := other.Overview(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		is(b, "at a glance", o.ShownOf(lane), "two")
	}},
}
