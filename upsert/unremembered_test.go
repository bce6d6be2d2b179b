package upsert_test

import (
	"context"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// A create that may have been sent and is not remembered, because the journal was
// restored from a backup, is sent under the key that it had: it is there once,
// and holds what is wanted now. Where that cannot be, a person is asked.
func TestACreateThatIsNotRememberedIsFoundOutAboutUnderItsKey(t *testing.T) {
	for name, c := range map[string]struct {
		keys string
		// since is how long before the attempt the backup was taken.
		since       time.Duration
		first, then connectors.Class
		code        string
		stands      string
	}{
		"the same content":    {"ignores the body", 10 * time.Minute, connectors.Applied, "", "", v2},
		"refused":             {"keeps success", 10 * time.Minute, connectors.Transient, "", jobs.CodeUnresolvable, v1},
		"created once more":   {"heeds the body", 10 * time.Minute, connectors.Transient, "", jobs.CodeUnresolvable, v1},
		"past the retention":  {"ignores the body", time.Hour, connectors.Transient, "", jobs.CodeUnresolvable, v1},
		"not known to retain": {"says nothing", time.Minute, connectors.Transient, "", jobs.CodeUnresolvable, v1},
	} {
		t.Run(name, func(t *testing.T) {
			var s seen
			w := keyedWorld(t, c.keys, watchBlind(&s))
			w.want("a", v1)
			w.one(t)
			// The journal as it was before, and what is read since.
			at := w.now.Add(c.since)
			w.now = at
			row := w.rows["a"]
			row.AppliedGeneration, row.AppliedHash, row.AppliedAt, row.KeyEpoch, row.Attempt = 0, nil, time.Time{}, 0, 0
			row.LastClass, row.LastAt = "", time.Time{}
			delete(w.links, "a")
			delete(w.pins, "a")
			w.want("a", v2)
			row.UnresolvedAt = at
			w.wait(3 * time.Minute)
			j := &jobs.Job{Row: *row, ClaimID: "c", Number: 1, ClaimedAt: w.now, DoubtSince: at.Add(-c.since)}
			if o := w.s.Apply(context.Background(), []*jobs.Job{j})[0]; o.Class != c.first || o.Code != c.code {
				t.Errorf("the outcome is %+v", o)
			}
			standsOnce(t, w, c.stands)
		})
	}
}
