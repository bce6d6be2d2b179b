package notify

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"syncd/ratelimit"
)

// A day of nothing but 429 without Retry-After: people should be told after long_pause.
func TestADayOfRefusalsIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := ratelimit.NewGate("c", ratelimit.Settings{}, nil, nil, nil, nil)
		defer g.Close()
		ps, told, refused := pauses{}, 0, 0
		for range 24 * 3600 / 5 {
			if p, err := g.Enter(t.Context(), ratelimit.Ask{}); err == nil {
				p.Answer(t.Context(), ratelimit.Automatic.Read(429, http.Header{}, time.Now()), time.Now())
				refused++
			}
			c := Client{Name: "c"}
			if st := g.State(time.Now()); !st.Open {
				c.Reason, c.Since, c.Until = st.Pause.Reason, st.Pause.Since, st.Pause.Until
			}
			told += len(ps.turn([]Client{c}, 15*time.Minute, time.Now()))
			time.Sleep(5 * time.Second)
		}
		if told == 0 {
			t.Errorf("the server refused all of %d calls in a day, and nobody was told", refused)
		}
	})
}
