package daemon

import (
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

func TestReferenceThatFitsTwoRecordsIsNotResolved(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `{key, party: ref("party"; .customer)}`, `.key`)
		w.parties.Seed("C9", `{"name":"one"}`)
		w.parties.Seed("C9", `{"name":"two"}`)
		w.parties.Seed("C10", `{"name":"three"}`)
		w.shop.put("1", 1, `{"key":"O1","customer":"C9"}`)
		w.shop.put("2", 1, `{"key":"O2","customer":"C10"}`)
		w.start()
		w.pass(time.Minute)
		if n := len(w.orders.Records("O1")); n != 0 {
			t.Errorf("an order was written with one of two customers")
		}
		r := w.row("orders", "O1")
		if r.State != jobs.Dead || r.LastClass != connectors.Invalid || !strings.Contains(r.LastMessage, "1, 2") || !strings.Contains(r.LastMessage, "C9") {
			t.Errorf("the order is %s, %s: %s", r.State, r.LastClass, r.LastMessage)
		}
		w.holds(w.orders, "O2", `{"key":"O2","party":3}`)
	})
}
