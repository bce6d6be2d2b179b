package jobs

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// A daemon may have a lane and not the flow of every job in it: a flow was added, and
// its configuration is an older one, or a flow rests. Such jobs are put off, so that
// claims need not read past them, and are due again as soon as the lane is run with
// their flow.

const (
	// noFlowWait is for how long a job is put off whose flow the lane is run without. It
	// is for what takeUp does not see, such as a job that passes to another lane meanwhile.
	noFlowWait = time.Minute
	// noFlowAgain is the same for one that was put off for that before: a flow may rest
	// for long, with many jobs.
	noFlowAgain = 10 * time.Minute
)

// lackingIn names the fact that names, as JSON, the flows of which jobs of a lane were put
// off because it was run without them.
func lackingIn(lane LaneID) string { return "no_flow/" + lane.String() }

func lacking(ctx context.Context, tx Tx, lane LaneID) (flows []string, err error) {
	meta, err := tx.Meta(ctx)
	if err != nil || meta[lackingIn(lane)] == "" {
		return nil, err
	}
	if err := json.Unmarshal([]byte(meta[lackingIn(lane)]), &flows); err != nil {
		return nil, fmt.Errorf("the fact %s is not what was written: %w", lackingIn(lane), err)
	}
	return flows, nil
}

func putLacking(ctx context.Context, tx Tx, lane LaneID, flows []string) error {
	text, err := json.Marshal(flows)
	if err != nil {
		return err
	}
	return tx.PutMeta(ctx, lackingIn(lane), string(text))
}

// lackFlow puts a row off whose flow the lane is run without. What the row waits for
// besides stays its reason: it may come meanwhile.
func (c *claiming) lackFlow(row *Row) {
	wait := noFlowWait
	switch row.Reason {
	case ReasonWaiting, ReasonRefresh:
	case ReasonNoFlow:
		wait = noFlowAgain
	default:
		row.Reason = ReasonNoFlow
	}
	row.DueAt = c.now.Add(wait)
	c.patches = append(c.patches, *row)
	if c.out.NoFlow == nil {
		c.out.NoFlow = map[string]int{}
	}
	c.out.NoFlow[row.Flow]++
}

// noteLacking stores of which flows jobs of the lane were put off.
func (c *claiming) noteLacking() error {
	if len(c.out.NoFlow) == 0 {
		return nil
	}
	lane := LaneID{c.req.Client, c.req.Shard}
	known, err := lacking(c.ctx, c.tx, lane)
	if err != nil {
		return err
	}
	all := slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(slices.Clone(known), maps.Keys(c.out.NoFlow)))))
	if len(all) == len(known) {
		return nil
	}
	return putLacking(c.ctx, c.tx, lane, all)
}

// forgetNoFlow takes from a row that its flow is wanting.
func (r *Row) forgetNoFlow() {
	r.Reason = ReasonNone
	if r.Unresolved() {
		r.Reason = ReasonUnresolved
	}
}

// takeUp makes those jobs of flows due that were put off because the lane was run
// without them. It looks for them only where that was so.
func (j *Journal) takeUp(ctx context.Context, lane LaneID, flows map[string]*Flow) error {
	var names []string
	err := j.engine.View(ctx, func(tx Tx) (err error) {
		names, err = lacking(ctx, tx, lane)
		return err
	})
	if err != nil {
		return err
	}
	has := func(name string) bool { return flows[name] != nil }
	if !slices.ContainsFunc(names, has) {
		return nil
	}
	for _, name := range names {
		if !has(name) {
			continue
		}
		if err := j.takeUpFlow(ctx, lane, name); err != nil {
			return fmt.Errorf("take up the jobs of flow %s: %w", name, err)
		}
	}
	return j.under(ctx, lane, func(tx Tx, _ string) error {
		left, err := lacking(ctx, tx, lane)
		if err != nil {
			return err
		}
		return putLacking(ctx, tx, lane, slices.DeleteFunc(left, has))
	})
}

func (j *Journal) takeUpFlow(ctx context.Context, lane LaneID, flow string) error {
	find := Filter{Flow: flow, State: Ready, Reason: ReasonNoFlow, Limit: hastenAtOnce}
	for more := true; more; {
		var ids []RowID
		err := j.engine.View(ctx, func(tx Tx) error {
			listed, err := tx.List(ctx, find)
			ids = nil
			for i := range listed {
				ids = append(ids, listed[i].RowID)
			}
			return err
		})
		if err != nil || len(ids) == 0 {
			return err
		}
		err = j.under(ctx, lane, func(tx Tx, _ string) error {
			rows, err := tx.Rows(ctx, ids, false)
			if err != nil {
				return err
			}
			rows = slices.DeleteFunc(rows, func(r Row) bool { return r.State != Ready || r.Reason != ReasonNoFlow })
			now := j.Now()
			for i := range rows {
				rows[i].forgetNoFlow()
				rows[i].DueAt = now
			}
			return tx.PatchRows(ctx, rows)
		})
		if err != nil {
			return err
		}
		more, find.After = len(ids) == hastenAtOnce, ids[len(ids)-1]
	}
	return nil
}
