package sqlite_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// TestAJournalSetBackToAnEarlierStateTakesEveryEvent restores a copy in the place of a
// journal that went on. Its numbers begin again where the copy has them, and nothing
// may be taken for known because of one.
func TestAJournalSetBackToAnEarlierStateTakesEveryEvent(t *testing.T) {
	t.Parallel()
	path := place(t)
	at := time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	flow := &jobs.Flow{Name: "orders", SourceClient: "shop", Stream: "orders", Client: "erp", Entity: "order", Strategy: connectors.ExternalRef,
		Retry: jobs.DefaultRetry(), OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone", OnRename: "refuse", OnMissing: "recreate",
		OnFrozen: "dead", OnExpire: "dead", CanRefresh: true}
	flows := map[string]*jobs.Flow{"orders": flow}
	// session runs a daemon's life on the journal: pages are read, and all that is due is written.
	session := func(from, next string, events ...string) (admitted jobs.Admitted, wrote []string) {
		t.Helper()
		e, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true, Now: func() time.Time { return at }})
		if err != nil {
			t.Fatal(err)
		}
		j := jobs.New(e, jobs.Options{Owner: "d"})
		page := jobs.Admission{Flow: flow, Move: true, Next: json.RawMessage(next)}
		if from != "" {
			page.From = json.RawMessage(from)
		}
		for i, ev := range events {
			at = at.Add(time.Second)
			page.Items = append(page.Items, jobs.Item{SourceID: ev, Version: int64(i) + 10, Observed: at,
				Pairs: []jobs.Pair{{Key: "K-" + ev, Body: json.RawMessage(`{"at":"` + at.String() + `"}`)}}})
		}
		if admitted, err = j.Admit(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		c, err := j.Claim(t.Context(), jobs.ClaimRequest{Client: "erp", Limit: 100, Flows: flows})
		if err != nil {
			t.Fatal(err)
		}
		for _, jb := range c.Jobs {
			wrote = append(wrote, jb.Key)
			if _, err := j.Settle(t.Context(), "erp", []jobs.Settlement{{Job: jb, Flow: flow, SentAt: at, Outcome: connectors.Outcome{Class: connectors.Applied, Link: "1"}}}); err != nil {
				t.Fatal(err)
			}
		}
		if n, err := j.Replay(t.Context(), []jobs.RowID{{Flow: "orders", Key: "K-1"}}, flows); err != nil || n.Done+n.Asked == 0 {
			t.Fatalf("%+v replayed, %v", n, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(wrote)
		return admitted, wrote
	}
	session("", "1", "1", "2")
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	session("1", "2", "3", "4")
	session("2", "3", "5")
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	// The source gives once more what came after the backup, and what is new.
	admitted, wrote := session("1", "4", "3", "4", "5", "6", "2")
	if admitted.New != 4 || admitted.Changed != 1 || admitted.Events != 5 {
		t.Errorf("admitted %+v, want four new and one changed", admitted)
	}
	if got, want := strings.Join(wrote, " "), "K-1 K-2 K-3 K-4 K-5 K-6"; got != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
}
