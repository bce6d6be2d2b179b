package notify

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"syncd/ratelimit"
)

// A day of nothing but 429 for a client that is called every ten minutes: each pause is over before the next call.
func TestADayOfRefusalsOfSeldomCallsIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := ratelimit.NewGate("c", ratelimit.Settings{}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		ps, told := pauses{}, 0
		for turn := range 24 * 3600 / 5 {
			if p, err := g.Enter(t.Context(), ratelimit.Ask{}); turn%120 == 0 && err == nil {
				p.Answer(t.Context(), ratelimit.Automatic.Read(429, http.Header{}, time.Now()), time.Now())
			} else if err == nil {
				p.Drop(false)
			}
			st := g.State(time.Now())
			c := Client{Name: "c", Unproved: st.Strikes > 0}
			if !st.Open {
				c.Reason, c.Since, c.Until = st.Pause.Reason, st.Pause.Since, st.Pause.Until
			}
			told += len(ps.turn([]Client{c}, 15*time.Minute, time.Now()))
			time.Sleep(5 * time.Second)
		}
		if told != 1 {
			t.Errorf("told %d times", told)
		}
	})
}
