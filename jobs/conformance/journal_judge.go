package conformance

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"syncd/jobs"
)

// look holds the promises that hold at any moment.
func (h *history) look() {
	if h.target.wrong != "" {
		h.Fatalf("the target: %s", h.target.wrong)
	}
	for _, r := range h.rows() {
		if r.Attempt < h.attempts[r.RowID] {
			h.Fatalf("%s: attempt %d after %d", r.RowID, r.Attempt, h.attempts[r.RowID])
		}
		if !h.renames() && r.Unresolved() != h.doubts[r.RowID] {
			h.Fatalf("%s: in doubt %v, and should be %v", r.RowID, r.Unresolved(), h.doubts[r.RowID])
		}
		switch r.State {
		case jobs.Ready:
			if r.DueAt.IsZero() || r.OpenSince.IsZero() || r.DueAt.After(h.s.at.Add(3*time.Hour)) {
				h.Fatalf("%s is ready, due %s, open since %s", r.RowID, r.DueAt, r.OpenSince)
			}
		case jobs.Dead:
			if r.Reason == jobs.ReasonNone || r.LastClass == "" {
				h.Fatalf("%s is dead without a reason", r.RowID)
			}
			if r.Reason == jobs.ReasonRenamed && r.SourceID == "" {
				h.Fatalf("%s is refused to a source record that has let it go", r.RowID)
			}
		case jobs.Done:
			if r.Reason == jobs.ReasonNone && !r.Gone && !r.Unmapped() && r.AppliedGeneration != r.Generation && !h.running(r.RowID) {
				h.Fatalf("%s is done at generation %d, and %d was confirmed", r.RowID, r.Generation, r.AppliedGeneration)
			}
		}
	}
}

func (h *history) running(id jobs.RowID) bool {
	return slices.ContainsFunc(h.under, func(s *sent) bool { return s.job.RowID == id })
}

// rest ends all failures and lets everything come to rest.
func (h *history) rest() {
	h.calm, h.readings = true, nil
	if f := h.sources[0].flow; f.OnRename == "refuse" && rapid.IntRange(0, 2).Draw(h.T, "refused to the end") > 0 {
		values := slices.DeleteFunc(h.choices("on_rename"), func(s string) bool { return s == "refuse" })
		h.set(f, "on_rename", rapid.SampledFrom(values).Draw(h.T, "allowed in the end"))
	}
	if h.touched {
		for _, src := range h.sources {
			if src.version > 0 {
				src.version++
				src.content++
			}
		}
	}
	h.pass(time.Second)
	h.poll()
	for range 100 {
		h.sendSome()
		h.settleSome()
		h.zombie()
		h.answer()
		h.replay()
		if h.renames() && !h.sources[0].flow.CanRefresh {
			h.poll() // a record that is between two keys is read again only so
		}
		h.look()
		if h.claim() == 0 && !h.open() {
			return
		}
		h.pass(5 * time.Minute)
	}
	for _, r := range h.rows() {
		h.Logf("%s %s %s due %s, last %s %s %s, waits %s, from %s", r.RowID, r.State, r.Reason, r.DueAt.Sub(h.s.at), r.LastClass, r.LastCode, r.LastMessage, r.WaitKey, r.RenamedFrom)
	}
	h.Fatalf("nothing fails any more, and there is still something to do")
}

// open reports whether there is anything to do.
func (h *history) open() bool {
	if len(h.under) > 0 || len(h.target.late) > 0 {
		return true
	}
	return slices.ContainsFunc(h.rows(), func(r jobs.Row) bool {
		if h.heldByRefused(r) {
			return false // what it was before its record's new key was refused is never sent
		}
		return r.State == jobs.Ready || r.State == jobs.Dead && !h.refusal(&r) && !h.missed(&r) && r.SourceID != ""
	})
}

// judge holds what the target has against what the sources have.
func (h *history) judge() {
	want := map[jobs.RowID][]string{}
	for _, src := range h.sources {
		if !src.there {
			continue
		}
		for _, k := range src.keys {
			id := jobs.RowID{Flow: src.flow.Name, Key: k}
			want[id] = append(want[id], string(src.body(k)))
		}
	}
	rows := map[jobs.RowID]jobs.Row{}
	for _, r := range h.rows() {
		rows[r.RowID] = r
	}
	for id, bodies := range want {
		row, ok := rows[id]
		if ok && (h.refusal(&row) || h.missed(&row)) {
			continue // refused or missing, and visible as such
		}
		if h.heldByRefused(row) {
			continue
		}
		rec := h.target.byKey(id.Key)
		switch {
		case !ok:
			h.Fatalf("%s is lost: there is no row", id)
		case row.State != jobs.Done:
			h.Fatalf("%s is %s %s", id, row.State, row.Reason)
		case rec == nil:
			h.Fatalf("%s is done, and not in the target", id)
		case !slices.Contains(bodies, rec.body[id.Flow]):
			h.Fatalf("%s: the target holds %s, the source %v", id, rec.body[id.Flow], bodies)
		}
	}
	h.noneTooMany(want, rows)
}

// heldByRefused reports whether a key still belongs to a source record whose new
// key was refused.
func (h *history) heldByRefused(row jobs.Row) bool {
	if h.sources[0].flow.OnRename != "refuse" {
		return false
	}
	for _, src := range h.sources {
		if src.flow.Name == row.Flow && src.id == row.SourceID {
			return !slices.Contains(src.keys, row.Key)
		}
	}
	return false
}

// noneTooMany checks that the target holds no record that nobody wants, as far
// as the flow removes records.
func (h *history) noneTooMany(want map[jobs.RowID][]string, rows map[jobs.RowID]jobs.Row) {
	f := h.sources[0].flow
	if f.OnDelete != "delete" {
		return
	}
	for _, r := range h.target.alive() {
		id := jobs.RowID{Flow: f.Name, Key: r.key}
		row := rows[id]
		if len(want[id]) == 0 && !h.heldByRefused(row) && !h.leftOver(&row) && row.Reason != jobs.ReasonDiscarded {
			h.Fatalf("record %d of key %s is in the target, and no source has it: row %s %s", r.id, r.key, rows[id].State, rows[id].Reason)
		}
	}
}
