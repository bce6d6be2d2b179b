package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// apart has 8 workers for each of two kinds of calls use all they can get of a server
// that counts the kinds apart, or together.
func apart(t *testing.T, together bool, shift time.Duration) (used, refused float64) {
	const limit, window, total = 100, 10 * time.Second, 5 * time.Minute
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g, _ := NewGate("c", Settings{}, nil, nil, nil, nil)
		defer g.Close()
		ctx, cancel := context.WithTimeout(t.Context(), total)
		defer cancel()
		var mu sync.Mutex
		var ok, no float64
		counts := map[string]int{}
		serve := func(kind string) (int, map[string]string) {
			mu.Lock()
			defer mu.Unlock()
			at := time.Since(start)
			if kind == "b" && !together {
				at += shift
			}
			if together {
				kind = ""
			}
			k := fmt.Sprint(kind, int(at/window))
			status := 200
			if counts[k] >= limit {
				status = 429
				no++
			} else {
				counts[k]++
				ok++
			}
			return status, map[string]string{"X-RateLimit-Limit": fmt.Sprint(limit), "X-RateLimit-Remaining": fmt.Sprint(limit - counts[k]),
				"X-RateLimit-Reset": fmt.Sprint(int((window - at%window + time.Second - 1) / time.Second))}
		}
		var wg sync.WaitGroup
		for i := range 16 {
			kind := []string{"a", "b"}[i%2]
			wg.Go(func() {
				for ctx.Err() == nil {
					p, err := g.Enter(ctx, Ask{Shape: kind})
					var pe *PausedError
					if errors.As(err, &pe) {
						rest(ctx, max(time.Until(pe.Pause.Until), 10*time.Millisecond))
						continue
					}
					if err != nil {
						return
					}
					time.Sleep(20 * time.Millisecond)
					status, kv := serve(kind)
					time.Sleep(20 * time.Millisecond)
					var lines []string
					for k, v := range kv {
						lines = append(lines, k+": "+v)
					}
					p.Answer(ctx, Automatic.Read(status, told(lines...), time.Now()), time.Now())
				}
			})
		}
		wg.Wait()
		all := 2 * limit * float64(total/window)
		if together {
			all /= 2
		}
		used, refused = ok/all, no/ok*1000
	})
	return used, refused
}

// A server that counts kinds of calls apart, with limits that look alike.
func TestQuotasThatLookAlikeAreToldApartByWhatTheyTell(t *testing.T) {
	for _, shift := range []time.Duration{0, time.Second, 5 * time.Second} {
		used, refused := apart(t, false, shift)
		if refused > 2 { // two of three plays count
			used, refused = apart(t, false, shift)
			if u, r := apart(t, false, shift); r > refused {
				used, refused = u, r
			}
		}
		t.Logf("windows %s apart: used %.1f %%, %.1f of 1,000 refused", shift, 100*used, refused)
		if used < 0.9 || refused > 2 { // 23 when they are taken for one
			t.Errorf("windows %s apart: used %.1f %%, %.1f of 1,000 refused", shift, 100*used, refused)
		}
	}
	if used, refused := apart(t, true, 0); used < 0.95 || refused > 1 {
		t.Errorf("counted together: used %.1f %%, %.1f of 1,000 refused", 100*used, refused)
	}
}
