package conformance_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"syncd/jobs"
	"syncd/jobs/memory"
)

// pair is a journal that is kept twice: in memory and by a durable engine. Whatever
// is asked of it is asked of both, and both must say the same; after each transaction
// that writes, all that they hold is compared. What the callers of a pair get are the
// answers of the one in memory, so that where an order is promised by nobody both go on
// in one.
type pair struct {
	model   *memory.Engine
	durable jobs.Engine
	// itsOwnClock says that leases of the durable engine go by a clock that no test can set.
	itsOwnClock bool
	// differs is the first difference. Nothing works after it.
	differs error
	closed  bool
	// seen are names that transactions have used.
	seen names
	// requests, runs and attempts are the durable engine's numbers, by the model's.
	requests, runs, attempts map[int64]int64
	// behind is the place among the attempts up to which they are compared in the end alone.
	behind int64
}

var _ jobs.Engine = (*pair)(nil)

// paired opens a pair of which both engines tell the time by now.
func paired(t *testing.T, durable jobs.Engine, now func() time.Time, itsOwnClock bool) *pair {
	t.Helper()
	p := &pair{model: memory.Open(memory.Options{Now: now}), durable: durable, itsOwnClock: itsOwnClock,
		requests: map[int64]int64{}, runs: map[int64]int64{}, attempts: map[int64]int64{0: 0}}
	t.Cleanup(func() {
		if p.differs != nil || p.closed {
			return
		}
		p.seen.all = true
		if err := p.compare(context.Background()); err != nil {
			t.Errorf("in the end: %v", err)
		}
	})
	return p
}

// errAgain undoes both transactions, of which one has to be run once more.
var errAgain = errors.New("the durable engine runs its transaction again")

func (p *pair) Update(ctx context.Context, fn func(jobs.Tx) error) error {
	if p.differs != nil {
		return p.differs
	}
	err := errAgain
	for errors.Is(err, errAgain) {
		err = p.update(ctx, fn)
	}
	if p.differs != nil {
		return p.differs
	}
	if e := p.compare(ctx); e != nil {
		return e
	}
	return err
}

func (p *pair) update(ctx context.Context, fn func(jobs.Tx) error) error {
	var x *both
	var durable error
	runs := 0
	err := p.model.Update(ctx, func(m jobs.Tx) error {
		durable = p.durable.Update(ctx, func(d jobs.Tx) error {
			if runs++; runs > 1 {
				return errAgain
			}
			x = &both{p: p, m: m, d: d, write: true}
			err := fn(x)
			if p.differs == nil && x.refused != nil {
				return nil // the durable engine may say so later, at its commit at the latest
			}
			return err
		})
		if durable != nil {
			return durable
		}
		if x.refused != nil {
			return x.refused
		}
		return nil
	})
	if (err == nil) != (durable == nil) {
		return p.differ("a transaction", fmt.Sprintf("in memory it came to: %v\nin the durable engine to: %v", err, durable))
	}
	return err
}

func (p *pair) View(ctx context.Context, fn func(jobs.Tx) error) error {
	if p.differs != nil {
		return p.differs
	}
	return p.model.View(ctx, func(m jobs.Tx) error {
		return p.durable.View(ctx, func(d jobs.Tx) error { return fn(&both{p: p, m: m, d: d}) })
	})
}

func (p *pair) Now() time.Time   { return p.model.Now() }
func (p *pair) Describe() string { return "a pair of memory and " + p.durable.Describe() }

func (p *pair) Close() error {
	p.closed = true
	return p.durable.Close()
}

// differ notes a difference.
func (p *pair) differ(what, how string) error {
	if p.differs == nil {
		p.differs = fmt.Errorf("%s differs between memory (-) and %s (+):\n%s", what, p.durable.Describe(), how)
	}
	return p.differs
}

// both is one transaction on both engines.
type both struct {
	p     *pair
	m, d  jobs.Tx
	write bool
	// refused is what the model has against the transaction.
	refused error
}

// look asks both and compares what they answer. tidy brings an answer to a form in
// which equal answers are equal; it must leave its argument as it is.
func look[T any](x *both, what string, tidy func(T) T, ask func(tx jobs.Tx) (T, error)) (T, error) {
	return compared(x, what, func(m, d T) string { return difference(tidy(m), tidy(d)) }, ask, ask)
}

// compared is look with a comparison of its own, which says what differs, and with a
// question for each.
func compared[T any](x *both, what string, unlike func(m, d T) string, model, durable func(tx jobs.Tx) (T, error)) (T, error) {
	if x.p.differs != nil {
		var none T
		return none, x.p.differs
	}
	m, me := model(x.m)
	d, de := durable(x.d)
	switch {
	case me == nil && de != nil:
		return m, x.p.differ(what, fmt.Sprintf("- %v\n+ failed: %v", m, de))
	case me != nil:
		x.refused = cmp.Or(x.refused, me)
		return m, me
	}
	if how := unlike(m, d); how != "" {
		return m, x.p.differ(what, how)
	}
	return m, nil
}

// change asks both for what has no answer.
func (x *both) change(what string, do func(tx jobs.Tx) error) error {
	_, err := look(x, what, as, func(tx jobs.Tx) (struct{}, error) { return struct{}{}, do(tx) })
	return err
}

// difference says how two values differ; "" if they do not. Of slices an empty one is
// as good as none.
func difference(m, d any) string {
	if reflect.DeepEqual(m, d) {
		return ""
	}
	return gocmp.Diff(m, d, cmpopts.EquateEmpty())
}

// as leaves an answer as it is: its order is promised.
func as[T any](v T) T { return v }

// by sorts an answer whose order is promised by nobody.
func by[T any](key func(T) string) func([]T) []T {
	return func(vs []T) []T {
		vs = slices.Clone(vs)
		slices.SortStableFunc(vs, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
		return vs
	}
}

func rowName(r jobs.Row) string { return r.Flow + "\x00" + r.Key }

// ranked compares the first of things by rank: of those of the last rank a limit may
// have let others in. limit is 0 for none.
func ranked[T any](limit int, rank func(T) time.Time, name func(T) string) func(m, d []T) string {
	return func(m, d []T) string {
		ranks := func(vs []T) (out []time.Time) {
			for _, v := range vs {
				out = append(out, rank(v))
			}
			return out
		}
		if how := difference(ranks(m), ranks(d)); how != "" {
			return how
		}
		sure := func(vs []T) (out []T) {
			for _, v := range vs {
				if len(vs) < limit || limit == 0 || rank(v).Before(rank(vs[len(vs)-1])) {
					out = append(out, v)
				}
			}
			return by(name)(out)
		}
		return difference(sure(m), sure(d))
	}
}

// names are what parts of the journal go by.
type names struct {
	// all compares the parts of all names that were ever used, and not of the latest alone.
	all                    bool
	flows, clients, groups []string
}

// latest is how many names of a kind are looked at after each transaction.
const latest = 4

func note(names *[]string, name string) {
	if i := slices.Index(*names, name); i >= 0 {
		*names = slices.Delete(*names, i, i+1)
	}
	*names = append(*names, name)
}

func (n *names) last(of []string) []string {
	if n.all || len(of) < latest {
		return slices.Clone(of)
	}
	return slices.Clone(of[len(of)-latest:])
}

func (x *both) flow(name string)   { note(&x.p.seen.flows, name) }
func (x *both) client(name string) { note(&x.p.seen.clients, name) }

func (x *both) noteRows(rows []jobs.Row) {
	for i := range rows {
		x.flow(rows[i].Flow)
		x.client(rows[i].Client)
		if g := rows[i].Group; g != "" {
			note(&x.p.seen.groups, g)
		}
	}
}
