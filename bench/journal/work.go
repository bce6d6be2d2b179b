package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// batch is how many jobs an admission, a claim and a settlement have.
const batch = 1000

// work is a flow of records of which new states keep coming.
type work struct {
	*place
	flow *jobs.Flow
	// length is that of a body, in bytes.
	length int
	// keys is how many records there are; 0 means that each job is a new one.
	keys int
	// links has the target name each record, so that its link is stored.
	links bool

	sent   int // events admitted
	cursor json.RawMessage
}

func newWork(p *place, flow string, size int) *work {
	return &work{place: p, length: size, flow: flowOf(flow, "shop", "erp")}
}

// flowOf is a flow as a table with a guard by version has it.
func flowOf(name, from, to string) *jobs.Flow {
	return &jobs.Flow{Name: name, SourceClient: from, Stream: "orders", Client: to, Entity: "order", KeyField: "key", Key: ".key",
		Strategy: connectors.NaturalKey, Retry: jobs.DefaultRetry(), OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone",
		OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead"}
}

// admit admits the next n events.
func (w *work) admit(ctx context.Context, n int) error {
	now := w.Now()
	ad := jobs.Admission{Flow: w.flow, Move: true, From: w.cursor, Next: json.RawMessage(strconv.Itoa(w.sent + n)), Items: make([]jobs.Item, n)}
	for i := range ad.Items {
		at := w.sent + i
		record := at
		if w.keys > 0 {
			record = at % w.keys
		}
		ad.Items[i] = jobs.Item{SourceID: fmt.Sprint("gid://shop/Order/55012345", record), Version: int64(at + 1), Observed: now, ChangedAt: now,
			Pairs: []jobs.Pair{{Key: fmt.Sprintf("SHOP-%08d", record), Body: body(at, w.length)}}}
	}
	if _, err := w.Admit(ctx, ad); err != nil {
		return err
	}
	w.sent, w.cursor = w.sent+n, ad.Next
	return nil
}

// finish claims what is due, at most most, and settles it as applied. It returns how many jobs that were.
func (w *work) finish(ctx context.Context, most int) (int, error) {
	got, err := w.claim(ctx, most)
	if err != nil {
		return 0, err
	}
	return len(got), w.settle(ctx, got)
}

func (w *work) claim(ctx context.Context, most int) ([]*jobs.Job, error) {
	got, err := w.Claim(ctx, jobs.ClaimRequest{Client: w.flow.Client, Limit: most, Flows: map[string]*jobs.Flow{w.flow.Name: w.flow}})
	return got.Jobs, err
}

func (w *work) settle(ctx context.Context, js []*jobs.Job) error {
	now := w.Now()
	ss := make([]jobs.Settlement, len(js))
	for i, jb := range js {
		ss[i] = jobs.Settlement{Job: jb, Flow: w.flow, Outcome: connectors.Outcome{Class: connectors.Applied}, SentAt: now, Batch: true, Served: now}
		if w.links {
			ss[i].Outcome.Link = strconv.Itoa(i)
		}
	}
	_, err := w.Settle(ctx, w.flow.Client, ss)
	return err
}

// inTurn takes n jobs through their lives, one batch after the other.
func (w *work) inTurn(ctx context.Context, n int) (int, error) {
	done := 0
	for done < n {
		if err := w.admit(ctx, min(batch, n-done)); err != nil {
			return done, err
		}
		k, err := w.finish(ctx, batch)
		if err != nil {
			return done, err
		}
		if k == 0 {
			return done, fmt.Errorf("%d jobs are done and none is due", done)
		}
		done += k
	}
	return done, nil
}

// together admits n jobs while it claims and settles them, as a daemon does.
func (w *work) together(ctx context.Context, n int) (int, error) {
	admitted, failed := make(chan struct{}, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		var err error
		for left := n; left > 0 && err == nil; left -= batch {
			err = w.admit(ctx, min(batch, left))
			select {
			case admitted <- struct{}{}:
			default:
			}
		}
		failed <- err
	}()
	done := 0
	var err error
	for done < n && err == nil {
		var k int
		k, err = w.finish(ctx, batch)
		done += k
		if k == 0 && err == nil {
			select {
			case <-admitted:
			case <-time.After(10 * time.Second):
				err = errors.New("nothing is due for ten seconds")
			case err = <-failed:
				failed <- err
			}
		}
	}
	if err != nil {
		cancel()
	}
	return done, errors.Join(err, <-failed)
}

// body is a record of some size in bytes, different for each state.
func body(n, size int) json.RawMessage {
	b := fmt.Appendf(nil, `{"key":"SHOP-%08d","number":%d,"email":"customer%d@example.com","city":"Lübeck","zip":"%05d","currency":"EUR","total":"%d.%02d","lines":[`,
		n, n, n*13, n%99999, n%900, n%100)
	for i := 0; len(b) < size-80; i++ {
		if i > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `{"sku":"SKU-%06d","title":"Article %d","qty":%d,"price":"%d.%02d"}`, n*31+i*977, n*17+i, i%4+1, (n+i)%900, n%100)
	}
	return append(b, "]}"...)
}
