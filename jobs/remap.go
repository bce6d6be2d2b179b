package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"syncd/internal/mutant"
)

// Remap has rows mapped again as their flow maps now: each one's source record is
// read again, and what it maps to is written whatever was written before. It works
// for dead and done rows, as Replay does. The others, and those whose source cannot
// be asked for one record, are left alone.
func (j *Journal) Remap(ctx context.Context, ids []RowID, flows map[string]*Flow) (Acted, error) {
	out, err := j.act(ctx, ids, func(tx Tx, rows []Row) (Acted, error) { return j.remap(ctx, tx, rows, flows) })
	return out, wrap(err, "have %d rows mapped again", len(ids))
}

func (j *Journal) remap(ctx context.Context, tx Tx, rows []Row, flows map[string]*Flow) (out Acted, err error) {
	var asks []Request
	var patches []Row
	for i := range rows {
		row := &rows[i]
		f := flows[row.Flow]
		why := replayable(row, f, j.Now())
		switch {
		case why != "":
		case row.SourceID == "":
			why = "no record of the source stands behind it"
		case row.State == Done && f.Every() && !row.Unmapped():
			why = "an event is written as it was when it was read; replay it without mapping it again"
		case !f.CanRefresh && !row.Unmapped():
			why = NoRemap(f)
		}
		if why != "" {
			out.Skipped = append(out.Skipped, Skip{row.RowID, why})
			continue
		}
		out.Asked++
		asks = append(asks, ask(row, f, Remap, j.Now()))
		if row.unmappedAgain(j.Now()) {
			patches = append(patches, *row)
		}
	}
	if err := tx.PatchRows(ctx, patches); err != nil {
		return out, err
	}
	return out, tx.AddRequests(ctx, asks)
}

// NoRemap says why a flow whose source cannot be asked for one record cannot be
// mapped again, and what can be done instead.
func NoRemap(f *Flow) string {
	return "its source cannot be asked for one record; syncd source-reset " + f.Name + " has the stream read anew"
}

// remapWindow is how many source records an errand asks for at a time: the client
// has its polls to do beside it.
const remapWindow = 100

// CountSources counts the source records that the journal knows of a flow.
func (j *Journal) CountSources(ctx context.Context, flow string) (n int64, err error) {
	for after, over := "", false; !over; {
		err = j.engine.View(ctx, func(tx Tx) error {
			srcs, err := tx.ListSources(ctx, flow, after, countStep)
			n += int64(len(srcs))
			if over = len(srcs) < countStep; !over {
				after = srcs[len(srcs)-1].ID
			}
			return err
		})
		if err != nil {
			return 0, wrap(err, "count the source records of flow %s", flow)
		}
	}
	return n, nil
}

// remapSettings are what an errand to map a flow again is bound to.
type remapSettings struct {
	// Mapping is Flow.Mapping of those who have taken its steps so far.
	Mapping string `json:"mapping"`
}

// remapStep asks for the next source records of a flow, each once whatever it maps
// to, as long as not too many are asked for and not answered. Run.After.Key is the
// last one that was asked for. It begins anew when the flow maps otherwise than at the step before.
func (j *Journal) remapStep(ctx context.Context, tx Tx, r *Run, f *Flow) (time.Duration, error) {
	if !f.CanRefresh {
		r.end(j.Now(), "nothing was read: %s", NoRemap(f))
		return 0, nil
	}
	var s remapSettings
	if len(r.Settings) > 0 {
		if err := json.Unmarshal(r.Settings, &s); err != nil {
			return 0, fmt.Errorf("errand %d: its settings: %w", r.ID, err)
		}
	}
	if s.Mapping != f.Mapping && !mutant.On("remap-goes-on") {
		// What was read so far was mapped otherwise than the flow maps now.
		r.After, r.Done, r.Failed = RowID{}, 0, 0
		var err error
		if r.Settings, err = json.Marshal(remapSettings{f.Mapping}); err != nil {
			return 0, err
		}
	}
	// One that could not be read is asked for later and holds up none behind it.
	rs, err := tx.Requests(ctx, f.SourceClient, j.Now().Add(time.Minute), 10*remapWindow)
	if err != nil {
		return 0, err
	}
	waiting := 0
	for i := range rs {
		if rs[i].Kind == Remap && rs[i].Flow == f.Name {
			waiting++
		}
	}
	room := remapWindow - waiting
	if room <= 0 {
		return time.Second, nil
	}
	srcs, err := tx.ListSources(ctx, f.Name, r.After.Key, room)
	if err != nil {
		return 0, err
	}
	var asks []Request
	for i := range srcs {
		r.After = RowID{f.Name, srcs[i].ID}
		r.Done++
		if !srcs[i].Gone {
			asks = append(asks, Request{Client: f.SourceClient, Flow: f.Name, SourceID: srcs[i].ID, Kind: Remap, At: j.Now(), DueAt: j.Now()})
		}
	}
	if len(srcs) < room && waiting == 0 && len(asks) == 0 {
		r.end(j.Now(), "%d source records were read again", r.Done)
		return 0, nil
	}
	return time.Second, tx.AddRequests(ctx, asks)
}
