package daemon

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

func TestOrdersOfOneNewCustomerCreateItOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `select(.total) | {key, party: ref("party"; .customer)}`, `.key`)
		w.plan.Flows["parties"] = w.flow("parties", "party", `.customer | {key: .}`, `.key`)
		// Looking for the customer takes long enough for the orders to meet there.
		w.plan.Clients["erp"].Settings.(*settings).entities["party"] = slowToFind{w.parties, 2 * time.Second}
		for i := range 5 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"O%d","total":"5","customer":"C77"}`, i))
		}
		w.start()
		w.pass(time.Minute)
		w.holds(w.parties, "C77", `{"key":"C77"}`)
		if n := len(w.parties.Calls(faketarget.Create)); n != 1 {
			t.Errorf("the customer was created %d times", n)
		}
		for i := range 5 {
			w.holds(w.orders, fmt.Sprintf("O%d", i), fmt.Sprintf(`{"key":"O%d","party":1}`, i))
		}
	})
}

// slowToFind is an entity whose look-ups take their time.
type slowToFind struct {
	*faketarget.Entity
	takes time.Duration
}

func (s slowToFind) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	time.Sleep(s.takes)
	return s.Entity.Find(ctx, w)
}

func TestTargetThatHangsHoldsUpNoOther(t *testing.T) {
	inWorld(t, func(w *world) {
		other := faketarget.New(faketarget.Options{Name: "order", Unique: true, SettleTime: time.Minute}, func() time.Time { return time.Now().UTC() })
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, time.Hour}
		w.plan.Clients["other"] = &ClientPlan{Name: "other", Settings: &settings{entities: map[string]connectors.Entity{"order": other}},
			Concurrency: 2, Timeout: 10 * time.Second, Breaker: quiet}
		f := w.flow("copies", "order", `select(.copy) | {key}`, `.key`)
		f.Client = "other"
		w.plan.Flows["copies"] = f
		for i := range 300 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"A%d"}`, i))
		}
		w.start()
		w.pass(20 * time.Second)
		for i := range 10 {
			w.shop.put(fmt.Sprint("b", i), 1, fmt.Sprintf(`{"key":"B%d","copy":true}`, i))
		}
		w.pass(3 * time.Second)
		if n := other.Len(); n != 10 {
			t.Errorf("the other target has %d of 10 records while the first one hangs", n)
		}
		if n := w.orders.Len(); n != 0 {
			t.Fatalf("the first target has %d records: it does not hang", n)
		}
	})
}

func TestLongRestIsFollowedByOneReadingAndOneWrite(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"].Every = 5 * time.Minute
		w.shop.put("1", 1, `{"key":"A","v":1}`)
		w.start()
		w.pass(time.Second)
		w.end()
		for v := int64(2); v <= 9; v++ {
			w.pass(8 * time.Hour)
			w.shop.put("1", v, fmt.Sprintf(`{"key":"A","v":%d}`, v))
		}
		before := w.shop.pulled()
		w.start()
		w.pass(4 * time.Minute)
		if n := w.shop.pulled() - before; n != 1 {
			t.Errorf("%d readings after three days at rest, want one", n)
		}
		w.holds(w.orders, "A", `{"key":"A","v":9}`)
		if n := len(w.orders.Effects()); n != 2 {
			t.Errorf("%d writes, want the first state and the newest", n)
		}
	})
}

func TestManyFailingRecordsHoldBackNoGoodOne(t *testing.T) {
	for kind, end := range map[faketarget.Kind]jobs.State{faketarget.Refuse: jobs.Dead, faketarget.NotSent: jobs.Ready, faketarget.LoseRequest: jobs.Ready} {
		t.Run(string(kind), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.plan.Clients["erp"].Concurrency = 1
				w.orders.Plan(func(c faketarget.Call) faketarget.Fault {
					if c.Key != "good" && c.Op == faketarget.Create {
						return faketarget.Fault{Kind: kind}
					}
					return faketarget.Fault{}
				})
				n := 200
				if kind == faketarget.Refuse {
					n = 19 // more, refused in one way, are the flow's fault
				}
				for i := range n {
					w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
				}
				w.shop.put("good", 1, `{"key":"good"}`)
				w.start()
				w.pass(5 * time.Second)
				w.holds(w.orders, "good", `{"key":"good"}`)
				if r := w.row("orders", "K0"); r.State != end || r.Attempt == 0 {
					t.Errorf("a failing record is %s after %d attempts", r.State, r.Attempt)
				}
			})
		})
	}
}

func TestRetryHasItsTurnAmongFreshWork(t *testing.T) {
	inWorld(t, func(w *world) {
		// The target manages one write a second, and there are two new records in each.
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, time.Second}
		w.plan.Clients["erp"].Concurrency = 1
		retry := &w.plan.Flows["orders"].Retry
		retry.InitialDelay, retry.NoJitter = 20*time.Second, true
		w.orders.Script(faketarget.Fault{Kind: faketarget.NotSent})
		w.shop.put("first", 1, `{"key":"first"}`)
		w.start()
		w.pass(3 * time.Second)
		if r := w.row("orders", "first"); r.State != jobs.Ready || r.Attempt != 1 {
			t.Fatalf("the first record is %s after %d attempts", r.State, r.Attempt)
		}
		for i := range 120 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
			w.shop.put(fmt.Sprint("more", i), 1, fmt.Sprintf(`{"key":"M%d"}`, i))
			w.pass(time.Second)
		}
		w.holds(w.orders, "first", `{"key":"first"}`)
		if n := w.orders.Len(); n < 100 || n > 130 {
			t.Fatalf("%d records in two minutes: there was no backlog, or no progress", n)
		}
	})
}

func TestLongNumbersKeepTheirDigitsAllTheWay(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order",
			`if .bad then error("no") else {key: .id, ref: "SHOP-\(.id)", customer: .customer, party: ref("party"; .customer)} end`, `.key`)
		w.parties.Seed("9007199254740993", `{}`)
		const even, odd, long, bad = "9007199254740992", "9007199254740993", "12345678901234567890123", "228930314431312345"
		for _, id := range []string{even, odd, long} {
			w.shop.put(id, 1, fmt.Sprintf(`{"id":%s,"customer":9007199254740993}`, id))
		}
		rejected := fmt.Sprintf(`{"id":%s,"bad":true}`, bad)
		w.shop.put(bad, 1, rejected)
		w.start()
		w.pass(10 * time.Second)
		for _, id := range []string{even, odd, long} {
			w.holds(w.orders, id, fmt.Sprintf(`{"customer":9007199254740993,"key":%s,"party":1,"ref":"SHOP-%[1]s"}`, id))
		}
		d, _, err := w.journal.Get(context.Background(), jobs.RowID{Flow: "orders", Key: "@" + bad})
		if err != nil || d.Row.State != jobs.Dead || string(d.Row.Body) != rejected {
			t.Errorf("the dead letter is %s, %s, %v", d.Row.State, d.Row.Body, err)
		}
	})
}

func TestIDsThatDifferInCaseOrFormAreDifferentRecords(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `{key: .ref, name}`, `.key`)
		for i, id := range []string{"AbC9", "aBc9", "gid://shop/Order/55", "55", "055"} {
			w.shop.put(id, 1, fmt.Sprintf(`{"ref":%q,"name":%d}`, id, i))
		}
		w.start()
		w.pass(3 * time.Second)
		for i, id := range []string{"AbC9", "aBc9", "gid://shop/Order/55", "55", "055"} {
			w.holds(w.orders, id, fmt.Sprintf(`{"key":%q,"name":%d}`, id, i))
		}
		// The same id again is the same record.
		w.shop.put("AbC9", 2, `{"ref":"AbC9","name":"new"}`)
		w.pass(3 * time.Second)
		w.holds(w.orders, "AbC9", `{"key":"AbC9","name":"new"}`)
		w.holds(w.orders, "aBc9", `{"key":"aBc9","name":1}`)
	})
}

func TestRecordIsSentAsTheSourceWritesItAndOnlyItsKeyIsNormal(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `{key: .sku, sku}`, `.key`)
		const decomposed = "CAFE\u0301-1 "
		body, err := json.Marshal(map[string]string{"sku": decomposed})
		if err != nil {
			t.Fatal(err)
		}
		w.shop.put("1", 1, string(body))
		w.start()
		w.pass(3 * time.Second)
		rs := w.orders.Records("CAF\u00c9-1")
		if len(rs) != 1 {
			t.Fatalf("%d records under the key's normal form", len(rs))
		}
		var got struct{ SKU string }
		if err := json.Unmarshal([]byte(rs[0].Body), &got); err != nil || got.SKU != decomposed {
			t.Errorf("the target got %q, %v; the source says %q", got.SKU, err, decomposed)
		}
	})
}
