package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"syncd/connectors"
	"syncd/internal/crash"
	"syncd/jobs"
)

// poller reads one flow's stream: pull, map, admit.
type poller struct {
	d      *Daemon
	client *client
	flow   *FlowPlan
	repeat *repeat
	wake   func(target string)
	log    *slog.Logger

	failures int
	lastErr  string
	reading  reading
	backlog  *jobs.Backlog
	// begun is the page that was begun and is not admitted yet: it could not be, or it
	// was begun along with the admission of the one before it and is yet to come.
	begun *beginning
	// went: this process has admitted a page, so that the one at which the stream stood
	// when it began has not ended it.
	went bool
}

func newPoller(d *Daemon, c *client, f *FlowPlan, r *repeat, wake func(string)) *poller {
	log := d.log.With("flow", f.Name)
	return &poller{d: d, client: c, flow: f, repeat: r, wake: wake, log: log, reading: reading{d: d, flow: f.Name, log: log}, backlog: d.journal.Backlog(&f.Flow)}
}

// run polls until soft ends. A page under way is given up then: its cursor has
// not moved, so it will be pulled again.
func (p *poller) run(soft, hard context.Context) {
	defer p.leave(hard)
	for soft.Err() == nil {
		more, err := p.drain(soft)
		switch {
		case soft.Err() != nil:
			return
		case err != nil:
			p.failed(soft, err)
		default:
			p.recovered()
			if !more {
				sleep(soft, p.flow.Every)
			}
		}
	}
}

// leaveTime bounds the notes of a poller that ends.
const leaveTime = 2 * time.Second

// leave ends the poller. A page that is left half-way was not what ended the process.
func (p *poller) leave(hard context.Context) {
	p.d.journalServes(p.flow.Name, true)
	if p.begun == nil {
		return
	}
	ctx, cancel := context.WithTimeout(hard, leaveTime)
	defer cancel()
	if err := p.d.givenUp(ctx, p.flow, p.begun); err != nil {
		p.log.Debug("noting the end of a page failed", "error", err)
	}
}

// full reports whether the flow may be read no further now, and tells it once.
func (p *poller) full(ctx context.Context) (bool, error) {
	full, turned, err := p.backlog.Full(ctx)
	switch {
	case err != nil || !turned:
	case full.Is():
		p.log.Error("the flow is not read any more", "code", full.Code, "message", full.Message)
	default:
		p.log.Info("the flow is read again")
	}
	return full.Is(), err
}

// pulled is a page, or why there is none.
type pulled struct {
	page connectors.Page
	from json.RawMessage
	// items are what the first slice of it maps to, if it was mapped ahead.
	items []jobs.Item
	// end says that the source has no more behind it.
	end bool
	err error
}

// drain pulls page after page until the stream has no more. The next page is
// pulled and mapped while one is admitted; it counts for nothing until that
// one's cursor is stored. Until a process has admitted a page it maps none ahead: if one has
// ended the process before, it has to be known which it was.
func (p *poller) drain(ctx context.Context) (more bool, err error) {
	if err := p.client.open(ctx); err != nil {
		return false, err
	}
	fs, err := p.d.journal.Cursor(ctx, p.flow.Name)
	if err != nil {
		return false, err
	}
	if full, err := p.full(ctx); err != nil || full {
		return false, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	next := p.pull(ctx, fs.Cursor, false)
	for {
		var got pulled
		select {
		case got = <-next:
		case <-ctx.Done():
			return false, ctx.Err()
		}
		if got.err != nil {
			return false, got.err
		}
		got.end = !got.page.More
		if got.page.More && string(got.page.Next) == string(got.from) {
			p.log.Warn("the source says that there is more, and stays where it is; asked again later", "client", p.client.name)
			got.page.More = false
		}
		if got.page.More {
			full, err := p.full(ctx)
			if err != nil {
				return false, err
			}
			got.page.More = !full // what is pulled already is still taken
		}
		if got.page.More {
			next = p.pull(ctx, got.page.Next, p.went)
		}
		err := p.take(ctx, fs, got)
		if errors.Is(err, jobs.ErrCursorMoved) {
			p.begun = nil    // somebody else has admitted it
			return true, nil // read the cursor again and go on from there
		}
		if err != nil || !got.page.More {
			return false, err
		}
		fs = jobs.FlowState{Flow: fs.Flow, Cursor: got.page.Next, Epoch: fs.Epoch}
	}
}

// pull asks the source for the page after cursor, and with ahead maps its first slice.
func (p *poller) pull(ctx context.Context, cursor json.RawMessage, ahead bool) <-chan pulled {
	out := make(chan pulled, 1)
	go func() {
		observed := p.d.journal.Now()
		begun := time.Now()
		var page connectors.Page
		err := p.client.read(ctx, func(ctx context.Context) (err error) {
			page, err = p.client.source.Pull(ctx, connectors.PullRequest{Stream: p.flow.Stream, Cursor: cursor,
				Start: p.flow.Start, Limit: p.flow.Page})
			return err
		})
		page.Observed = observed
		p.d.heard(observed, page.ServerTime)
		p.d.opts.Observer.Pulled(&p.flow.Flow, len(page.Events), time.Since(begun), err)
		got := pulled{page: page, from: cursor, err: err}
		if ahead && err == nil && len(page.Events) > 0 && string(page.Next) != string(cursor) {
			m := &pageMapper{d: p.d, flow: p.flow, page: page}
			got.items, _ = m.take(ctx, page.Events[:min(len(page.Events), p.d.slice)]) // what failed is mapped in its turn
		}
		out <- got
	}()
	return out
}

// take maps a page and admits it.
func (p *poller) take(ctx context.Context, fs jobs.FlowState, got pulled) error {
	for _, n := range got.page.Notes {
		p.log.Warn("remark of the source", "client", p.client.name, "note", n)
	}
	stays := string(got.page.Next) == string(got.from)
	if len(got.page.Events) == 0 && stays {
		p.reading.well(ctx, got.page.Observed)
		return nil
	}
	var digest [sha256.Size]byte
	if stays {
		digest = digestOf(fs.Epoch, got.page)
		if p.repeat.again(digest, got.page.Observed, p.flow.MaxAge) {
			p.reading.well(ctx, got.page.Observed)
			return nil
		}
	}
	err := p.admitPage(ctx, fs.Epoch, got)
	if err == nil && stays {
		p.repeat.admitted(digest, got.page.Observed)
	}
	return err
}

// slice is how many events are mapped and admitted at once. A source that gives
// all it has in one answer must not have it all in memory as records and rows too.
const slice = 1000

// admitPage maps a page and admits it, slice by slice. The cursor moves with the
// last one: whatever ends the daemon before, the page is read once more, and what
// it had admitted changes nothing.
func (p *poller) admitPage(ctx context.Context, epoch int64, got pulled) error {
	crash.At("page.read")
	m, begun, err := p.d.beginPage(ctx, p.flow, got.page, got.from, p.begun)
	p.begun = begun
	if err != nil {
		return err
	}
	told := 0 // dead letters
	for rest := got.page.Events; ; {
		if len(rest) < len(got.page.Events) {
			waited, err := p.room(ctx)
			if err != nil {
				return err
			}
			if waited {
				m, begun, err = p.d.beginPage(ctx, p.flow, got.page, got.from, nil)
				p.begun = begun
				if err != nil {
					return err
				}
			}
		}
		part := rest[:min(len(rest), p.d.slice)]
		rest = rest[len(part):]
		last := len(rest) == 0
		ad := jobs.Admission{Flow: &p.flow.Flow, Part: !last, Move: last, From: got.from, Next: got.page.Next, Epoch: epoch, End: last && got.end,
			Begin: last && got.page.More && string(got.page.Next) != string(got.from)}
		if ad.Items = got.items; len(ad.Items) != len(part) || m.begun != nil {
			if ad.Items, err = m.take(ctx, part); err != nil {
				return err
			}
		}
		got.items = nil
		crash.At("page.mapped")
		if err := p.admit(ctx, ad); err != nil {
			return err
		}
		told = p.d.deadLetters(p.flow, ad.Items, told)
		if ad.Move {
			p.begun, p.went = nil, true
			if ad.Begin {
				p.begun = &beginning{from: got.page.Next}
			}
			return nil
		}
	}
}

// fullWait is how often is looked whether the rest of a page can be admitted.
const fullWait = 5 * time.Second

// room waits, in the midst of a page, until the flow may be read on; a source may give
// more in one answer than may be open at once. The page is given up meanwhile, so that an
// end of the process is not taken for its doing; waited says that it has to be begun again.
func (p *poller) room(ctx context.Context) (waited bool, err error) {
	for {
		full, err := p.full(ctx)
		if err != nil || !full {
			return waited, err
		}
		if !waited && p.begun != nil {
			if err := p.d.givenUp(ctx, p.flow, p.begun); err != nil {
				return false, err
			}
			p.begun = nil
		}
		waited = true
		sleep(ctx, fullWait)
		if err := ctx.Err(); err != nil {
			return true, err
		}
	}
}

func (p *poller) admit(ctx context.Context, ad jobs.Admission) error {
	sum, err := p.d.journal.Admit(ctx, ad)
	if err != nil {
		return err
	}
	p.reading.admitted(p.d.journal.Now())
	p.backlog.Admitted(sum)
	p.d.admitted(p.flow, sum)
	if sum.New+sum.Changed+sum.Gone > 0 {
		p.wake(p.flow.Client)
	}
	return nil
}

// mostDeadLetters bounds the dead letters of a page that are logged one by one; the
// page's own line counts them all.
const mostDeadLetters = 10

// deadLetters logs the events that became dead letters in an admission, after told
// others of their page, and returns how many are told by then.
func (d *Daemon) deadLetters(f *FlowPlan, items []jobs.Item, told int) int {
	for i := range items {
		it := &items[i]
		if !it.Rejected {
			continue
		}
		if told++; told > mostDeadLetters {
			continue
		}
		letters := it.DeadLetters
		if len(letters) == 0 {
			letters = []jobs.DeadLetter{{Key: jobs.UnmappedKey(it.SourceID, it.Raw), Code: it.Code(), Message: it.Problem}}
		}
		for _, l := range letters[:min(len(letters), mostDeadLetters)] {
			d.log.Error("dead letter", "flow", f.Name, "key", l.Key, "class", connectors.Invalid, "state", jobs.Dead, "code", l.Code, "message", l.Message)
		}
	}
	return told
}

// admitted tells of an admission.
func (d *Daemon) admitted(f *FlowPlan, sum jobs.Admitted) {
	d.opts.Observer.Admitted(&f.Flow, sum)
	if sum.Events == 0 {
		return
	}
	level := slog.LevelDebug
	switch {
	case sum.Rejected+sum.Collided > 0:
		level = slog.LevelWarn
	case sum.New+sum.Changed+sum.Gone > 0:
		level = slog.LevelInfo
	}
	args := []any{"flow", f.Name, "events", sum.Events, "records", sum.Pairs}
	for _, c := range []struct {
		name string
		n    int
	}{{"new", sum.New}, {"changed", sum.Changed}, {"unchanged", sum.Unchanged}, {"older", sum.Older},
		{"gone", sum.Gone}, {"rejected", sum.Rejected}, {"collided", sum.Collided}} {
		if c.n > 0 {
			args = append(args, c.name, c.n)
		}
	}
	d.log.Log(context.Background(), level, "read", args...)
}

// journalRetry is the wait for a journal that cannot be used: the source is well,
// and its changes have waited long enough when the journal is back.
var journalRetry = jobs.Retry{InitialDelay: time.Second, Multiplier: 2, MaxDelay: 5 * time.Second}

// failed waits after a poll that failed: for the gate if that is why, for the
// journal, else with full jitter up to a minute, or as long as the server asked.
func (p *poller) failed(ctx context.Context, err error) {
	var je *jobs.Error
	if errors.As(err, &je) {
		p.told(err, "the journal cannot be used; reading goes on when it can")
		p.d.journalServes(p.flow.Name, false)
		p.reading.failed(ctx, err)
		sleep(ctx, journalRetry.Delay(p.failures, 500*time.Millisecond, rand.Float64))
		p.failures++
		return
	}
	var e *connectors.Error
	floor := time.Duration(0)
	if errors.As(err, &e) {
		floor = min(e.RetryAfter, jobs.MaxWait)
		if e.Class == connectors.Auth {
			p.client.suspend(ctx, e.Code)
		}
		if e.Class == connectors.Throttled {
			p.client.throttled(ctx, e.Outcome)
		}
		// A pause is told by the gate, for all who meet it.
		closed := !p.client.gate.State(p.client.now()).Open
		if e.Class == connectors.Paused || e.Class == connectors.Throttled && closed {
			p.client.open(ctx) //nolint:errcheck // ends with the context, which run looks at
			return
		}
	}
	if errors.Is(err, errClosed) {
		sleep(ctx, time.Second)
		return
	}
	p.reading.failed(ctx, err)
	retry := jobs.Retry{InitialDelay: time.Second, Multiplier: 2, MaxDelay: time.Minute}
	d := max(retry.Delay(p.failures, floor, rand.Float64), 100*time.Millisecond)
	p.told(err, "reading failed; the cursor stays where it is")
	p.failures++
	sleep(ctx, d)
}

// told logs a failure when it is another than the last one, and now and then.
func (p *poller) told(err error, msg string) {
	if n := p.failures + 1; err.Error() != p.lastErr || n%20 == 0 {
		p.log.Warn(msg, "client", p.client.name, "stream", p.flow.Stream, "error", err, "failures", n)
		p.lastErr = err.Error()
	}
}

func (p *poller) recovered() {
	p.d.journalServes(p.flow.Name, true)
	if p.failures > 0 {
		p.log.Info("reading works again", "client", p.client.name, "stream", p.flow.Stream, "failures", p.failures)
	}
	p.failures, p.lastErr = 0, ""
}

// sleep waits for d or for ctx to end.
func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
