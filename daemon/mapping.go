package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/mapping"
)

// deaths is how often the mapping of one page may end the process before its
// events are under suspicion, and then how often that of one event alone may.
const deaths = 3

// pageMapper maps the events of a page, some at a time.
type pageMapper struct {
	d    *Daemon
	flow *FlowPlan
	page connectors.Page
	// begun says how often the mapping of which events was begun and never ended;
	// nil while the page is not under suspicion.
	begun map[string]int
}

// beginning is the mapping of a page that this process has begun, or is about to begin,
// and that was not admitted yet.
type beginning struct {
	from json.RawMessage // the cursor before the page
	// begun is that of its pageMapper. What this process knows of it is newer than
	// what the journal could be told.
	begun map[string]int
}

// beginPage begins the mapping of a page. That is counted durably first, so that an
// event whose mapping kills the process (it may eat all memory) is found: after
// three beginnings without an end the events are begun half by half, the half that
// never ended by halves again, and one that is begun alone three times and never
// ended becomes a dead letter.
//
// A page that is mapped again because it could not be admitted is not counted again:
// this process lives. Nor is one whose beginning was counted with the admission of the
// page before it. was is its earlier beginning, or nil; the one that counts by now is returned.
func (d *Daemon) beginPage(ctx context.Context, f *FlowPlan, page connectors.Page, from json.RawMessage, was *beginning) (*pageMapper, *beginning, error) {
	m := &pageMapper{d: d, flow: f, page: page}
	if len(page.Events) == 0 {
		return m, was, nil
	}
	if was != nil && string(was.from) == string(from) {
		m.begun = was.begun
		return m, was, nil
	}
	before, err := d.journal.BeginPage(ctx, f.Name, "")
	if err != nil {
		return m, was, err
	}
	b := &beginning{from: from}
	if before.PageStarts < deaths {
		return m, b, nil
	}
	d.log.Warn("mapping a page has ended the daemon before; its events are mapped part by part to find the one that does", "flow", f.Name, "starts", before.PageStarts)
	m.begun = readSuspects(before.Suspect)
	b.begun = m.begun
	return m, b, nil
}

// take maps some of the page's events.
func (m *pageMapper) take(ctx context.Context, events []connectors.Event) ([]jobs.Item, error) {
	d, f, page, begun := m.d, m.flow, m.page, m.begun
	items := make([]jobs.Item, len(events))
	if begun == nil {
		err := each(len(items), func(i int) { items[i] = d.mapEvent(ctx, f, page, events[i]) })
		return items, firstErr(err, ctx.Err())
	}
	for _, part := range suspicion(events, begun) {
		if part.n >= part.most {
			for _, i := range part.at {
				items[i] = d.rejected(f, page, events[i], "mapping this event has ended the daemon; see its log")
			}
			continue
		}
		note := func(n int) {
			for _, i := range part.at {
				begun[events[i].SourceID] = n
			}
		}
		note(part.n + 1)
		if err := d.suspect(ctx, f, begun); err != nil {
			note(part.n)
			return nil, err
		}
		for _, i := range part.at {
			items[i] = d.mapEvent(ctx, f, page, events[i])
		}
		note(part.n) // it has ended
		if ctx.Err() != nil {
			break
		}
	}
	return items, firstErr(d.suspect(context.WithoutCancel(ctx), f, begun), ctx.Err())
}

// suspects are events that are begun together, which was done n times before and never
// ended. After the most, the one event that is left of them is taken for the cause.
type suspects struct {
	at      []int
	n, most int
}

// suspicion parts the events of a page that is under suspicion, the less suspect
// first: in two, and those that were begun together when the process ended in two
// again, until one is alone. A daemon that is killed for another reason, again and
// again, is seldom killed over the same half, and never goes through a page event by
// event, each with a commit of its own.
func suspicion(events []connectors.Event, begun map[string]int) (out []suspects) {
	by := map[int][]int{}
	for i, ev := range events {
		n := begun[ev.SourceID]
		by[n] = append(by[n], i)
	}
	size := func(n int) int { return max(1, len(events)>>min(n+1, 62)) }
	most := deaths
	for n := 0; size(n) > 1; n++ {
		most++
	}
	for _, n := range slices.Sorted(maps.Keys(by)) {
		for at := range slices.Chunk(by[n], size(n)) {
			out = append(out, suspects{at, n, most})
		}
	}
	return out
}

// suspect notes how often the mapping of which events was begun and never ended,
// by source id.
func (d *Daemon) suspect(ctx context.Context, f *FlowPlan, begun map[string]int) error {
	b, err := suspected(begun)
	if err != nil {
		return err
	}
	_, err = d.journal.BeginPage(ctx, f.Name, b)
	return err
}

// suspected is begun as the journal keeps it.
func suspected(begun map[string]int) (string, error) {
	maps.DeleteFunc(begun, func(_ string, n int) bool { return n == 0 })
	b, err := json.Marshal(begun)
	return string(b), err
}

// givenUp takes back what the journal counts of a page that was begun and is left
// unadmitted by a process that lives.
func (d *Daemon) givenUp(ctx context.Context, f *FlowPlan, b *beginning) error {
	text := ""
	if b.begun != nil {
		var err error
		if text, err = suspected(b.begun); err != nil {
			return err
		}
	}
	return d.journal.PageGivenUp(ctx, f.Name, text)
}

// readSuspects reads what suspect noted.
func readSuspects(s string) map[string]int {
	begun := map[string]int{}
	if json.Unmarshal([]byte(s), &begun) != nil || begun == nil {
		return map[string]int{}
	}
	return begun
}

// mapEvent maps one event; what goes wrong with it stays with it.
func (d *Daemon) mapEvent(ctx context.Context, f *FlowPlan, page connectors.Page, ev connectors.Event) jobs.Item {
	problem := connectors.IDProblem(ev.SourceID)
	if problem != "" {
		problem = "the record's id " + problem
	}
	if connectors.BlankID(ev.SourceID) {
		ev.SourceID, problem = "", "the record has no id" // two records without one are not the same
	}
	if problem = cmp.Or(ev.Problem, problem); problem != "" {
		it := d.rejected(f, page, ev, problem)
		it.Unread = ev.Problem != ""
		return it
	}
	it := item(f, page, ev)
	if ev.Gone {
		return it
	}
	pairs, err := f.Program.Map(ctx, ev.Body, mapping.Meta{SourceID: ev.SourceID, Stream: f.Stream,
		Version: it.Version, ChangedAt: ev.ChangedAt, Observed: page.Observed})
	if err != nil {
		return d.rejected(f, page, ev, err.Error())
	}
	it.Pairs = make([]jobs.Pair, len(pairs))
	for i, p := range pairs {
		it.Pairs[i] = jobs.Pair{Key: p.Key, Group: p.Group, Body: p.Body}
	}
	return it
}

// clockSlack is how far a version may lie beyond the source's own clock.
const clockSlack = 5 * time.Minute

func item(f *FlowPlan, page connectors.Page, ev connectors.Event) jobs.Item {
	it := jobs.Item{SourceID: ev.SourceID, Version: ev.Version, Versioned: ev.Versioned, Observed: page.Observed, ChangedAt: ev.ChangedAt,
		Gone: ev.Gone, Log: f.Source.Log}
	// A version far in the future would make every later state look old.
	if f.Source.VersionIsTime && !page.ServerTime.IsZero() && it.Version > page.ServerTime.Add(clockSlack).UnixMicro() {
		it.Version = page.ServerTime.UnixMicro()
	}
	if !page.ServerTime.IsZero() && it.ChangedAt.After(page.ServerTime.Add(clockSlack)) {
		it.ChangedAt = page.ServerTime
	}
	return it
}

func (d *Daemon) rejected(f *FlowPlan, page connectors.Page, ev connectors.Event, problem string) jobs.Item {
	it := item(f, page, ev)
	it.Problem, it.Raw, it.Gone = d.opts.Redact(problem), ev.Body, false
	return it
}

// each runs fn for 0 to n-1 on as many goroutines as there are processors.
func each(n int, fn func(i int)) (err error) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			fn(i)
		}
		return nil
	}
	var wg sync.WaitGroup
	var once sync.Once
	for w := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			defer func() {
				if r := recover(); r != nil {
					once.Do(func() { err = fmt.Errorf("mapping panicked: %v", r) })
				}
			}()
			for i := w; i < n; i += workers {
				fn(i)
			}
		}()
	}
	wg.Wait()
	return err
}

func firstErr(errs ...error) error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}
