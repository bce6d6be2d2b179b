package daemon

import (
	"context"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// blind is a target that cannot be asked for a record.
type blind struct {
	connectors.Entity
	connectors.Creator
	connectors.Composer
	connectors.Updater
}

// target makes the world's orders another target.
func (w *world) target(s connectors.Strategy, o faketarget.Options) {
	o.Name, o.SettleTime = "order", time.Minute
	w.orders = faketarget.New(o, func() time.Time { return time.Now().UTC().Truncate(time.Microsecond) })
	e := w.orders
	w.plan.Clients["erp"].Settings.(*settings).entities["order"] = blind{e, e, e, e}
	w.plan.Flows["orders"].Strategy = s
}

func (w *world) resolve(key string, v jobs.Verdict) {
	w.Helper()
	v.By, v.Why = "ann", "looked it up"
	flows := map[string]*jobs.Flow{"orders": &w.plan.Flows["orders"].Flow}
	_, refused, err := w.journal.Resolve(context.Background(), jobs.RowID{Flow: "orders", Key: key}, v, flows)
	if err != nil || refused != "" {
		w.Fatalf("refused: %s, %v", refused, err)
	}
}

func TestALostWriteThatIsSentAtMostOnceWaitsForAPerson(t *testing.T) {
	inWorld(t, func(w *world) {
		w.target(connectors.AtMostOnce, faketarget.Options{})
		w.orders.Script(faketarget.Fault{Kind: faketarget.LoseAnswer})
		w.shop.put("1", 1, `{"key":"A","n":1}`)
		w.shop.put("2", 1, `{"key":"B","n":1}`)
		w.start()
		w.pass(10 * time.Second)
		held, other := "A", "B"
		if w.row("orders", held).State != jobs.Held {
			held, other = other, held
		}
		if s := w.row("orders", held).State; s != jobs.Held {
			t.Fatalf("%s is %s", held, s)
		}
		w.holds(w.orders, other, `{"key":"`+other+`","n":1}`)
		w.end()
		w.start() // a restart sends nothing either
		w.shop.put(map[string]string{"A": "1", "B": "2"}[held], 2, `{"key":"`+held+`","n":2}`)
		w.pass(24 * time.Hour)
		w.holds(w.orders, held, `{"key":"`+held+`","n":1}`)
		w.resolve(held, jobs.Verdict{Applied: true, Link: w.orders.Records(held)[0].Link()})
		w.pass(time.Minute)
		w.holds(w.orders, held, `{"key":"`+held+`","n":2}`)
		if n := len(w.orders.Calls(faketarget.Create)); n != 2 {
			t.Errorf("%d creates for two records", n)
		}
	})
}

func TestACreateUnderAKeyIsDoneOnceOverLostAnswersAndRestarts(t *testing.T) {
	for name, keys := range faketarget.Zoo() {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.target(connectors.IdempotencyKey, faketarget.Options{Keys: &keys})
				w.orders.Script(faketarget.Fault{Kind: faketarget.LoseAnswer})
				w.shop.put("1", 1, `{"key":"A","n":1}`)
				w.start()
				w.pass(10 * time.Second)
				w.shop.put("1", 2, `{"key":"A","n":2}`)
				w.pass(10 * time.Second)
				w.end()
				w.start()
				w.pass(20 * time.Minute)
				if keys.Retention == 0 {
					if s := w.row("orders", "A").State; s != jobs.Held {
						t.Fatalf("the job is %s", s)
					}
					w.resolve("A", jobs.Verdict{Applied: true, Link: w.orders.Records("A")[0].Link()})
					w.pass(time.Minute)
				}
				w.holds(w.orders, "A", `{"key":"A","n":2}`)
				if n := w.orders.MostAtOnce("A"); n != 1 {
					t.Errorf("%d records stood at once", n)
				}
				if n := w.orders.Mismatches(); n > 0 {
					t.Errorf("other bytes came under a known key %d times", n)
				}
				if r := w.row("orders", "A"); r.State != jobs.Done || r.Unresolved() || r.KeyEpoch != 1 {
					t.Errorf("the job is %s, in doubt %v, with key epoch %d", r.State, r.Unresolved(), r.KeyEpoch)
				}
			})
		})
	}
}
