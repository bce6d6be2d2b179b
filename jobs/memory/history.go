package memory

import (
	"context"
	"math"
	"time"

	"syncd/internal/mutant"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// AddAttempts implements jobs.Tx.
func (t *tx) AddAttempts(_ context.Context, as []jobs.Attempt) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, a := range as {
		t.s.lastAttempt++
		n, a := t.s.lastAttempt, attemptIn(a)
		t.s.attempts.put(t.edit, n, a)
		t.s.attemptsOf.put(t.edit, entryKey{rowKey(a.RowID), n}, struct{}{})
	}
	return nil
}

// entries are the numbers of a row's attempts, the newest first, at most limit.
func (t *tx) entries(r jobs.RowID, limit int) (out []number) {
	first := entryKey{rowKey(r), math.MaxInt64}
	for k := range t.s.attemptsOf.from(first) {
		if k.row != first.row || len(out) >= limit {
			break
		}
		out = append(out, k.n)
	}
	return out
}

// Attempts implements jobs.Tx.
func (t *tx) Attempts(_ context.Context, r jobs.RowID, limit int) ([]jobs.Attempt, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	var out []jobs.Attempt
	for _, n := range t.entries(r, limit) {
		a, _ := t.s.attempts.get(n)
		out = append(out, a)
	}
	return out, nil
}

// PruneAttempts implements jobs.Tx.
func (t *tx) PruneAttempts(_ context.Context, after int64, before time.Time, limit int) (int, int64, error) {
	if err := t.writes(); err != nil {
		return 0, after, err
	}
	last := after
	var old []number
	for n, a := range t.s.attempts.from(number(after) + 1) {
		if limit--; limit < 0 {
			break
		}
		if !a.At.Before(moment(before)) {
			continue
		}
		last = int64(n)
		if r, ok := t.s.rows.get(rowKey(a.RowID)); !ok || (!r.Unresolved() || mutant.On("doubt-pruned")) && r.RenamedFrom == "" {
			old = append(old, n)
		}
	}
	t.forget(old)
	return len(old), last, nil
}

// DeleteAttempts implements jobs.Tx.
func (t *tx) DeleteAttempts(_ context.Context, ids []jobs.RowID) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, r := range ids {
		t.forget(t.entries(r, math.MaxInt))
	}
	return nil
}

func (t *tx) forget(entries []number) {
	for _, n := range entries {
		a, _ := t.s.attempts.get(n)
		t.s.attempts.remove(t.edit, n)
		t.s.attemptsOf.remove(t.edit, entryKey{rowKey(a.RowID), n})
	}
}

// AddRequests implements jobs.Tx.
func (t *tx) AddRequests(_ context.Context, rs []jobs.Request) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, r := range rs {
		if err := stored.Fit(r.SourceID, r.Key); err != nil {
			return t.fail(err, "store a request to %s source record %s of flow %s", r.Kind, r.SourceID, r.Flow)
		}
		if _, there := t.s.asked.get(what(&r)); there {
			continue
		}
		t.s.lastRequest++
		r = requestIn(r)
		r.ID = int64(t.s.lastRequest)
		t.s.requests.put(t.edit, t.s.lastRequest, r)
		t.s.asked.put(t.edit, what(&r), t.s.lastRequest)
		t.s.requestsTo.put(t.edit, asking(&r), struct{}{})
	}
	return nil
}

// what is asked by a request.
func what(r *jobs.Request) quad { return quad{id(r.Flow), id(r.SourceID), string(r.Kind), id(r.Key)} }

// asking is a request's place among those to its client.
func asking(r *jobs.Request) askedKey { return askedKey{id(r.Client), r.At.UnixMicro(), number(r.ID)} }

// Requests implements jobs.Tx.
func (t *tx) Requests(_ context.Context, client string, now time.Time, limit int) ([]jobs.Request, error) {
	if err := t.reads(); err != nil {
		return nil, err
	}
	first := askedKey{client: id(client), at: math.MinInt64}
	var out []jobs.Request
	for k := range t.s.requestsTo.from(first) {
		if k.client != first.client || len(out) >= limit {
			break
		}
		if r, _ := t.s.requests.get(k.n); r.DueAt.UnixMicro() <= now.UnixMicro() {
			out = append(out, r)
		}
	}
	return out, nil
}

// Asked implements jobs.Tx.
func (t *tx) Asked(ctx context.Context, clients []string, now time.Time) (out []string, err error) {
	for _, c := range clients {
		rs, err := t.Requests(ctx, c, now, 1)
		if err != nil {
			return nil, err
		}
		if len(rs) > 0 {
			out = append(out, c)
		}
	}
	return out, nil
}

// PostponeRequest implements jobs.Tx.
func (t *tx) PostponeRequest(_ context.Context, request int64, due time.Time) error {
	if err := t.writes(); err != nil {
		return err
	}
	if r, ok := t.s.requests.get(number(request)); ok {
		r.DueAt = moment(due)
		t.s.requests.put(t.edit, number(request), r)
	}
	return nil
}

// DeleteRequests implements jobs.Tx.
func (t *tx) DeleteRequests(_ context.Context, ids []int64) error {
	if err := t.writes(); err != nil {
		return err
	}
	for _, n := range ids {
		if r, ok := t.s.requests.get(number(n)); ok {
			t.s.requests.remove(t.edit, number(n))
			t.s.asked.remove(t.edit, what(&r))
			t.s.requestsTo.remove(t.edit, asking(&r))
		}
	}
	return nil
}
