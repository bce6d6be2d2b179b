package daemon

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// listener notes what people may be told of.
type listener struct {
	Silent
	mu    sync.Mutex
	heard []string
}

func (l *listener) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, fmt.Sprintf(format, args...))
}

func (l *listener) Ended(client string, e jobs.Ended) {
	for as, n := range e {
		l.note("%d of %s/%s %s: %s %s", n, client, as.Flow, as.State, as.Class, as.Code)
	}
}
func (l *listener) Suspended(client, code string, _ time.Time) {
	l.note("%s suspended: %s", client, code)
}
func (l *listener) Freed(client string, _ time.Time) { l.note("%s freed", client) }

// said is what was noted since the last time.
func (l *listener) said() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := strings.Join(l.heard, ", ")
	l.heard = nil
	return s
}

func TestSuspensionIsToldOnceAndOnceMoreAfterAStartOrAReload(t *testing.T) {
	inWorld(t, func(w *world) {
		l := &listener{}
		w.observer = l
		door := w.guard("erp")
		w.start()
		w.pass(time.Hour) // many calls are refused
		if got := l.said(); got != "erp suspended: http_401" {
			t.Errorf("told %q", got)
		}
		w.end()
		w.start()
		w.pass(time.Hour)
		if got := l.said(); got != "erp suspended: http_401" {
			t.Errorf("after a start, told %q", got)
		}
		w.reload <- Reload{Plan: w.plan}
		w.pass(time.Hour)
		if got := l.said(); got != "erp suspended: http_401" {
			t.Errorf("after a reload, told %q", got)
		}
		w.end()
		w.start() // and mended at once: it is told that it is over
		door.mend()
		w.pass(time.Hour)
		if got := l.said(); got != "erp freed" {
			t.Errorf("after the end, told %q", got)
		}
	})
}

func TestJobsThatACrashLeftForAPersonAreTold(t *testing.T) {
	inWorld(t, func(w *world) {
		l := &listener{}
		w.observer = l
		w.target(connectors.AtMostOnce, faketarget.Options{})
		w.plan.Clients["erp"].Settings.(*settings).entities["order"] = slow{w.orders, time.Hour}
		for i := range 3 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d"}`, i))
		}
		kill := w.lives("first")
		w.pass(5 * time.Second)
		kill()
		w.lives("second")
		w.pass(time.Minute)
		got := l.said()
		if !strings.HasPrefix(got, "3 of erp/orders held: lost lost") {
			t.Errorf("told %q", got)
		}
		for i := range 3 {
			if s := w.row("orders", fmt.Sprint("K", i)).State; s != jobs.Held {
				t.Errorf("K%d is %s", i, s)
			}
		}
	})
}

func TestJobsThatExpireAreTold(t *testing.T) {
	for _, on := range []string{"dead", "drop"} {
		t.Run(on, func(t *testing.T) {
			inWorld(t, func(w *world) {
				l := &listener{}
				w.observer = l
				f := w.plan.Flows["orders"]
				f.MaxAge, f.CanRefresh, f.Source.CanFetch, f.OnExpire = time.Hour, false, false, on
				f.Every = 24 * time.Hour
				w.refuse(connectors.Outcome{Class: connectors.Throttled, Code: "http_429", RetryAfter: 3 * time.Hour})
				w.shop.put("1", 1, `{"key":"A"}`)
				w.start()
				w.pass(4 * time.Hour)
				want := "1 of erp/orders dead: expired max_age"
				if on == "drop" {
					want = ""
				}
				if got := l.said(); got != want {
					t.Errorf("told %q, want %q", got, want)
				}
			})
		})
	}
}
