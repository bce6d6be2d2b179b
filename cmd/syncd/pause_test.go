package main

import (
	"net/http"
	"strings"
	"testing"
)

// metric waits until the daemon's metrics have a line.
func (w *world) metric(line string) {
	w.t.Helper()
	until(w.t, "the metrics have "+line, func() bool {
		_, page := get(w.t, w.url("/metrics"))
		return strings.Contains(page, "\n"+line+"\n")
	})
}

// waits waits until a job is known and waits for its client.
func (w *world) waits(key string) {
	w.t.Helper()
	until(w.t, key+" waits", func() bool { return w.job("orders/"+key).State == "ready" })
}

func TestOperatorPausesAndResumesAClientBesideTheDaemon(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.erp.block()
		w.shop.put("A", "first")
		p := w.run()
		w.erp.held(t)
		if r := w.call("pause", "erp", "--reason", "upgrade"); r.code != exitOK {
			t.Fatalf("pause ends with %d: %s%s", r.code, r.out, r.errout)
		}
		p.await("a person has paused the client", "upgrade")
		w.erp.release()
		w.done("A", 1) // what was under way is let finish
		w.metric(`syncd_client_paused{client="erp",reason="operator"} 1`)
		w.shop.put("B", "first")
		w.waits("B")

		// It outlives the daemon, and what is still read waits.
		p.stop()
		p = w.run()
		w.shop.put("C", "first")
		w.waits("C")
		w.metric(`syncd_client_paused{client="erp",reason="operator"} 1`)
		if r := w.look("explain", "orders/C"); !strings.Contains(r.out, ": upgrade)") || !strings.Contains(r.out, "syncd resume erp") {
			t.Errorf("explain says\n%s", r.out)
		}
		if b, c := w.job("orders/B"), w.job("orders/C"); len(w.erp.effects()) != 1 || b.Attempt != 0 || c.Attempt != 0 {
			t.Errorf("effects %v, %d and %d attempts", w.erp.effects(), b.Attempt, c.Attempt)
		}
		if r := w.call("resume", "erp"); r.code != exitOK || strings.Contains(r.out, "warning") {
			t.Fatalf("resume ends with %d: %s%s", r.code, r.out, r.errout)
		}
		p.await("a person has ended the pause")
		w.done("B", 1)
		w.done("C", 1)

		// So it is without a daemon, whose next start keeps to it.
		p.stop()
		w.call("pause", "shop")
		w.shop.put("D", "first")
		asked := w.shop.count()
		p = w.run()
		w.metric(`syncd_client_paused{client="shop",reason="operator"} 1`)
		if n := w.shop.count() - asked; n != 0 {
			t.Errorf("%d requests to a paused client", n)
		}
		w.call("resume", "shop")
		w.done("D", 1)
		p.stop()
	})
}

func TestOperatorEndsAPauseOfNonsense(t *testing.T) {
	engines(t, func(t *testing.T, w *world) {
		w.erp.refusing(func(rw http.ResponseWriter, _ *http.Request) bool {
			rw.Header().Set("Retry-After", "86400")
			http.Error(rw, "too many requests", http.StatusTooManyRequests)
			return true
		})
		w.shop.put("A", "first")
		p := w.run()
		w.sees(`"reason": "throttled"`)
		w.erp.refusing(nil)
		r := w.call("resume", "erp")
		if r.code != exitOK || !strings.Contains(r.out, "Retry-After: 86400") || !strings.Contains(r.out, "warning: its server had asked not to be called before") {
			t.Errorf("resume ends with %d: %s%s", r.code, r.out, r.errout)
		}
		w.done("A", 1)
		p.stop()
	})
}
