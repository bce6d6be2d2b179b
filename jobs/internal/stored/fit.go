package stored

import (
	"fmt"

	"syncd/jobs"
)

// Fit refuses ids and keys that are longer than an engine stores.
func Fit(ids ...string) error {
	for _, id := range ids {
		// An escaped byte is three; most ids are far from the limit either way.
		if len(id) <= jobs.MaxID/3 {
			continue
		}
		if n := len(ID(id)); n > jobs.MaxID {
			return fmt.Errorf("the id or key that begins with %q has %d bytes; at most %d can be stored", id[:40], n, jobs.MaxID)
		}
	}
	return nil
}

// FitRow refuses a row with an id that is too long.
func FitRow(r *jobs.Row) error { return Fit(r.Key, r.SourceID, r.Group, r.WaitKey, r.RenamedFrom) }
