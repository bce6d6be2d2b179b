package daemon

import (
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

func TestRecordsWhoseIDCannotBeOneAreDeadLettersEachOfItsOwn(t *testing.T) {
	inWorld(t, func(w *world) {
		w.shop.put("1", 1, `{"key":"A"}`)
		for id, body := range map[string]string{"": `{"key":"B"}`, " ": `{"key":"C"}`, "\u200b": `{"key":"D"}`, "\ufeff1": `{"key":"A2"}`, "1\n": `{"key":"A3"}`} {
			w.shop.put(id, 1, body)
		}
		w.shop.put(" 2 ", 1, `{"key":"E"}`)
		w.start()
		w.pass(10 * time.Second)
		w.holds(w.orders, "A", `{"key":"A"}`)
		w.holds(w.orders, "E", `{"key":"E"}`)
		if n := w.orders.Len(); n != 2 {
			t.Errorf("the target has %d records", n)
		}
		for _, body := range []string{`{"key":"B"}`, `{"key":"C"}`, `{"key":"D"}`} {
			if r := w.row("orders", jobs.UnmappedKey("", []byte(body))); r.State != jobs.Dead || r.LastMessage != "the record has no id" {
				t.Errorf("%s is %s: %s", body, r.State, r.LastMessage)
			}
		}
		for _, id := range []string{"\ufeff1", "1\n"} {
			if r := w.row("orders", "@"+id); r.State != jobs.Dead || !strings.Contains(r.LastMessage, "the record's id holds a character that cannot be seen") {
				t.Errorf("%q is %s: %s", id, r.State, r.LastMessage)
			}
		}
	})
}
