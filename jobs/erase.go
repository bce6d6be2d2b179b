package jobs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// RunErase is the kind of errand that stands for an erasure that was done.
const RunErase = "erase"

// codeErased is an erasure in a row's history.
const codeErased = "erased"

// mostErased bounds the rows that one erasure is about.
const mostErased = 100_000

// Erasure says who has content erased and why, which is kept.
type Erasure struct {
	By, Why string
	// Discard gives open jobs up first. Without it they are left alone: they would have
	// nothing to send.
	Discard bool
}

// Erased counts what an erasure did.
type Erased struct {
	// Rows lost their content, of them Bodies that of their record; Entries of histories
	// lost their texts, Claims of other source records to a key were dropped.
	Rows, Bodies, Entries, Claims int
	Skipped                       []Skip
}

// Traces are the rows that may hold content of the same records as those that are
// named: the rows themselves, those of other flows that write the record, and those that
// stand for events of it that could not be mapped or came again. With source also
// what else its source record maps to. They come in the order of flow and key, without
// bodies; missing are those named that are not there.
func (j *Journal) Traces(ctx context.Context, ids []RowID, source bool) (rows []Row, missing []RowID, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		rows, missing, err = traces(ctx, tx, ids, source)
		return err
	})
	return rows, missing, wrap(err, "find what the journal has of %d records", len(ids))
}

func traces(ctx context.Context, tx Tx, ids []RowID, source bool) (out []Row, missing []RowID, err error) {
	named, err := tx.Rows(ctx, ids, false)
	if err != nil {
		return nil, nil, err
	}
	have := map[RowID]bool{}
	for i := range named {
		have[named[i].RowID] = true
	}
	for _, id := range ids {
		if !have[id] {
			missing = append(missing, id)
		}
	}
	flows, err := flowNames(ctx, tx)
	if err != nil {
		return nil, nil, err
	}
	record := map[EntityKey]string{} // the client
	look := map[RowID]bool{}
	for i := range named {
		r := &named[i]
		if !r.Unmapped() {
			record[r.EntityKey()] = r.Client
			look[RowID{r.Flow, "@" + r.Key + ":changed"}] = true
			for _, f := range flows {
				look[RowID{f, r.Key}] = true
			}
		}
		if r.SourceID == "" {
			continue
		}
		look[RowID{r.Flow, UnmappedKey(r.SourceID, nil)}] = true
		if !source {
			continue
		}
		srcs, err := tx.Sources(ctx, r.Flow, []string{r.SourceID})
		if err != nil {
			return nil, nil, err
		}
		for _, s := range srcs {
			for _, k := range s.Keys {
				look[RowID{r.Flow, k}] = true
			}
		}
		mine, err := tx.List(ctx, Filter{Flow: r.Flow, SourceID: r.SourceID, Limit: countStep})
		if err != nil {
			return nil, nil, err
		}
		for i := range mine {
			look[mine[i].RowID] = true
		}
	}
	var more []RowID
	for id := range look {
		if !have[id] {
			more = append(more, id)
		}
	}
	found, err := tx.Rows(ctx, more, false)
	if err != nil {
		return nil, nil, err
	}
	out = named
	for i := range found {
		r := &found[i]
		// The same key in another entity is another record.
		if client, same := record[r.EntityKey()]; same && client == r.Client || r.Unmapped() || source && ownedBy(r, named) {
			out = append(out, *r)
		}
	}
	slices.SortFunc(out, func(a, b Row) int { return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Key, b.Key)) })
	return out, missing, nil
}

// ownedBy reports whether a row is of the source record of one of others.
func ownedBy(r *Row, of []Row) bool {
	return slices.ContainsFunc(of, func(o Row) bool { return o.Flow == r.Flow && o.SourceID != "" && o.SourceID == r.SourceID })
}

// errMany refuses an erasure of more rows than a person can have meant.
var errMany = fmt.Errorf("more than %d records are meant; choose fewer", mostErased)

// GroupRows are the rows of one group of a flow with order: every, late ones too.
func (j *Journal) GroupRows(ctx context.Context, flow, group string) (ids []RowID, err error) {
	err = j.each(ctx, Filter{Flow: flow, Limit: countStep}, func(_ Tx, rows []Row) error {
		for i := range rows {
			r := &rows[i]
			if r.Group == group || r.Reason == ReasonLate && r.WaitKey == group {
				ids = append(ids, r.RowID)
			}
		}
		return nil
	}, &ids)
	return ids, wrap(err, "find the events of group %s of flow %s", group, flow)
}

// each looks at all rows of a filter, a page at a time.
func (j *Journal) each(ctx context.Context, f Filter, do func(tx Tx, rows []Row) error, found *[]RowID) error {
	for over := false; !over; {
		err := j.engine.View(ctx, func(tx Tx) error {
			rows, err := tx.List(ctx, f)
			if err != nil {
				return err
			}
			over = len(rows) < f.Limit
			if len(rows) > 0 {
				f.After = rows[len(rows)-1].RowID
			}
			return do(tx, rows)
		})
		if err == nil && len(*found) > mostErased {
			err = errMany
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Mentions are the rows in whose content, messages, history, pinned bytes or claims a
// text occurs, in whatever case, as a part of a JSON string or of a name in it.
func (j *Journal) Mentions(ctx context.Context, text string) ([]RowID, error) {
	m := &mentions{text: strings.ToLower(text), found: map[RowID]bool{}}
	var ids []RowID
	err := j.each(ctx, Filter{Limit: 100}, func(tx Tx, rows []Row) error {
		list := make([]RowID, len(rows))
		for i := range rows {
			list[i] = rows[i].RowID
		}
		rows, err := tx.Rows(ctx, list, true)
		for i := range rows {
			m.see(rows[i].RowID, rows[i].Body, rows[i].LastMessage)
		}
		return err
	}, &ids)
	if err == nil {
		err = m.beside(ctx, j)
	}
	for id := range m.found {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b RowID) int { return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.Key, b.Key)) })
	if err == nil && len(ids) > mostErased {
		err = errMany
	}
	return ids, wrap(err, "find who is mentioned")
}

type mentions struct {
	text  string
	found map[RowID]bool
}

func (m *mentions) see(id RowID, body []byte, message string) {
	if strings.Contains(strings.ToLower(message), m.text) || m.in(body) {
		m.found[id] = true
	}
}

// in reports whether the text occurs in a string of a body.
func (m *mentions) in(body []byte) bool {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	for {
		t, err := d.Token()
		if err != nil {
			// What cannot be read to its end is looked at as it is.
			return !errors.Is(err, io.EOF) && strings.Contains(strings.ToLower(string(body)), m.text)
		}
		switch v := t.(type) {
		case string:
			if strings.Contains(strings.ToLower(v), m.text) {
				return true
			}
		case json.Number:
			if strings.Contains(string(v), m.text) {
				return true
			}
		}
	}
}

// beside looks through what stands beside the rows.
func (m *mentions) beside(ctx context.Context, j *Journal) error {
	page := func(do func(tx Tx) (n int, err error)) error {
		for {
			n := 0
			err := j.engine.View(ctx, func(tx Tx) (err error) { n, err = do(tx); return err })
			if err != nil || n == 0 {
				return err
			}
		}
	}
	var last int64
	err := page(func(tx Tx) (int, error) {
		as, at, err := tx.ListAttempts(ctx, last, countStep)
		last = at
		for i := range as {
			m.see(as[i].RowID, nil, as[i].Message)
		}
		return len(as), err
	})
	if err != nil {
		return err
	}
	var pin Pin
	err = page(func(tx Tx) (int, error) {
		ps, err := tx.ListPins(ctx, pin, 100)
		for _, p := range ps {
			m.see(p.RowID, p.Body, "")
			pin = p
		}
		return len(ps), err
	})
	if err != nil {
		return err
	}
	var flows []string
	if err := j.engine.View(ctx, func(tx Tx) (err error) { flows, err = flowNames(ctx, tx); return err }); err != nil {
		return err
	}
	for _, f := range flows {
		var c Contender
		err := page(func(tx Tx) (int, error) {
			cs, err := tx.ListContenders(ctx, f, c, 100)
			for _, x := range cs {
				m.see(x.RowID, x.Body, "")
				c = x
			}
			return len(cs), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// EraseStep is how many rows Erase takes at most.
const EraseStep = 200

// Erase removes the content of rows from the journal: bodies, texts of errors and of the
// history, bytes pinned under idempotency keys, and claims that other source records
// lay to their keys. Rows that were dead or held are given up. What makes a late,
// repeated or replayed event harmless stays: keys, ids, versions, hashes, links, marks of
// writes in doubt. Nothing is sent of them any more unless the source has something
// else. Who did it and why stands in each row's history and among the errands.
func (j *Journal) Erase(ctx context.Context, ids []RowID, x Erasure) (out Erased, err error) {
	if len(ids) > EraseStep {
		return out, wrap(fmt.Errorf("%d rows are too many for one step", len(ids)), "erase content")
	}
	err = j.engine.Update(ctx, func(tx Tx) error {
		rows, err := tx.Rows(ctx, ids, false)
		if err != nil {
			return err
		}
		e := &erasing{ctx: ctx, tx: tx, j: j, x: x, out: &Erased{}}
		if err := e.all(rows); err != nil {
			return err
		}
		out = *e.out
		return nil
	})
	return out, wrap(err, "erase the content of %d rows", len(ids))
}

type erasing struct {
	ctx context.Context
	tx  Tx
	j   *Journal
	x   Erasure
	out *Erased
}

func (e *erasing) all(rows []Row) error {
	running, err := claimed(e.ctx, e.tx, rows)
	if err != nil {
		return err
	}
	rows = slices.DeleteFunc(rows, func(r Row) bool {
		why := ""
		switch {
		case running[r.RowID]:
			why = "it is being written; wait for its outcome"
		case r.State == Ready && !e.x.Discard:
			why = "it is open and has to be written yet; have it given up first"
		}
		if why != "" {
			e.out.Skipped = append(e.out.Skipped, Skip{r.RowID, why})
		}
		return why != ""
	})
	if len(rows) == 0 {
		return nil
	}
	ids := make([]RowID, len(rows))
	for i := range rows {
		ids[i] = rows[i].RowID
	}
	if err := errors.Join(e.asked(rows), e.standings(rows)); err != nil {
		return err
	}
	if err := e.keys(rows, ids); err != nil {
		return err
	}
	if err := e.claims(rows); err != nil {
		return err
	}
	over := ended{}
	for i := range rows {
		row := &rows[i]
		if row.State != Done {
			why := ReasonDiscarded
			if row.State == Dead && row.Reason == ReasonRenamed {
				why = ReasonRenamed // it stays a key that was refused, and owns nothing
			}
			row.close(why)
			over.add(row)
		}
		row.LastMessage = ""
	}
	if err := e.history(rows, ids); err != nil {
		return err
	}
	if err := e.tx.PatchRows(e.ctx, rows); err != nil {
		return err
	}
	if e.out.Bodies, err = e.tx.DropBodies(e.ctx, ids); err != nil {
		return err
	}
	if err := over.moveUp(e.ctx, e.tx, e.j.Now(), evenDead); err != nil {
		return err
	}
	e.out.Rows = len(rows)
	flow := rows[0].Flow
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Flow != flow }) {
		flow = ""
	}
	_, err = e.tx.AddRun(e.ctx, Run{Kind: RunErase, Flow: flow, Total: int64(len(rows)), Done: int64(len(rows)), At: e.j.Now(), EndedAt: e.j.Now(),
		By: e.x.By, Why: clip(e.x.Why), Message: fmt.Sprintf("the content of %d records was erased", len(rows))})
	return err
}

// asked takes back what is asked of the source for the rows: the answer would be written.
func (e *erasing) asked(rows []Row) error {
	of := map[[2]string]bool{}
	for i := range rows {
		if rows[i].SourceID != "" {
			of[[2]string{rows[i].Flow, rows[i].SourceID}] = true
		}
	}
	var drop []int64
	for last := int64(0); ; {
		rs, err := e.tx.ListRequests(e.ctx, last, countStep)
		if err != nil {
			return err
		}
		for _, r := range rs {
			last = r.ID
			if of[[2]string{r.Flow, r.SourceID}] {
				drop = append(drop, r.ID)
			}
		}
		if len(rs) < countStep {
			return e.tx.DeleteRequests(e.ctx, drop)
		}
	}
}

// standings takes the rows' messages out of why their flows are suspended.
func (e *erasing) standings(rows []Row) error {
	said := map[string][]string{}
	for i := range rows {
		if m := rows[i].LastMessage; m != "" {
			said[rows[i].Flow] = append(said[rows[i].Flow], m)
		}
	}
	for flow, ms := range said {
		s, err := e.tx.LockFlow(e.ctx, flow)
		if err != nil {
			return err
		}
		if !s.Suspended.Is() || !slices.ContainsFunc(ms, func(m string) bool {
			return strings.Contains(s.Suspended.Message, m) || strings.Contains(m, s.Suspended.Message)
		}) {
			continue
		}
		s.Suspended.Message = "what the target said was erased"
		if err := e.tx.SaveFlow(e.ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// keys removes what is pinned. What was sent is not known any more, so nothing else may
// be sent under the same key.
func (e *erasing) keys(rows []Row, ids []RowID) error {
	ps, err := e.tx.Pins(e.ctx, ids)
	if err != nil || len(ps) == 0 {
		return err
	}
	next := map[RowID]int64{}
	for _, p := range ps {
		next[p.RowID] = max(next[p.RowID], p.Epoch+1)
	}
	for i := range rows {
		rows[i].KeyEpoch = max(rows[i].KeyEpoch, next[rows[i].RowID])
	}
	return e.tx.DeletePins(e.ctx, ids)
}

// claims drops what other source records would put under the rows' keys, and what the
// rows' source records would put under others.
func (e *erasing) claims(rows []Row) error {
	for i := range rows {
		row := &rows[i]
		ids, err := dropClaims(e.ctx, e.tx, row.RowID)
		if err != nil {
			return err
		}
		e.out.Claims += len(ids)
		if row.SourceID == "" {
			continue
		}
		srcs, err := e.tx.Sources(e.ctx, row.Flow, []string{row.SourceID})
		if err != nil {
			return err
		}
		for _, s := range srcs {
			cs, err := e.tx.Contenders(e.ctx, row.Flow, s.Keys)
			if err != nil {
				return err
			}
			for _, c := range cs {
				if c.SourceID != row.SourceID {
					continue
				}
				e.out.Claims++
				if err := e.tx.DeleteContender(e.ctx, c.RowID, c.SourceID); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// mostHistory bounds the entries of one row's history that stay, without their texts.
const mostHistory = 1000

// history takes the texts out of the rows' histories, and adds who did it.
func (e *erasing) history(rows []Row, ids []RowID) error {
	var all []Attempt
	for i := range rows {
		row := &rows[i]
		as, err := e.tx.Attempts(e.ctx, row.RowID, mostHistory)
		if err != nil {
			return err
		}
		slices.Reverse(as)
		for i := range as {
			if as[i].Code != codeErased && as[i].Message != "" {
				as[i].Message = ""
				e.out.Entries++
			}
		}
		all = append(append(all, as...), Attempt{RowID: row.RowID, Number: row.Attempt, Generation: row.Generation, At: e.j.Now(),
			Class: row.LastClass, Code: codeErased, Message: clip("content erased by " + e.x.By + ": " + e.x.Why)})
	}
	if err := e.tx.DeleteAttempts(e.ctx, ids); err != nil {
		return err
	}
	return e.tx.AddAttempts(e.ctx, all)
}
