package ratelimit

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestNobodyIsLetOutBeforeTheTimeThatAHeaderNames follows a header from the answer that bears it to the next call.
func TestNobodyIsLetOutBeforeTheTimeThatAHeaderNames(t *testing.T) {
	at := func(d time.Duration) string {
		return "Retry-After: " + time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(d).Format(http.TimeFormat)
	}
	for _, c := range []struct {
		name   string
		status int
		header http.Header
		after  time.Duration
	}{
		{"seconds are seconds", 429, told("Retry-After: 60"), time.Minute},
		{"a fraction", 429, told("Retry-After: 2.5"), 2500 * time.Millisecond},
		{"less than our least wait", 429, told("Retry-After: 0.493"), minPause},
		{"none", 429, told("Retry-After: 0"), minPause},
		{"a negative number", 429, told("Retry-After: -5"), minPause},
		{"the past", 429, told(at(-time.Hour)), minPause},
		{"the past of a server that is down", 503, told(at(-time.Hour)), minPause},
		{"a date of a server whose clock is an hour behind ours", 429, told("Date: Fri, 31 Dec 1999 23:00:00 GMT", at(30*time.Second-time.Hour)), 30 * time.Second},
		{"milliseconds", 429, told("X-Rate-Limit-Time-Reset-Ms: 15000", "X-Rate-Limit-Requests-Left: 0"), 15 * time.Second},
		{"no word at all", 429, nil, minPause},
		{"rubbish", 429, told("Retry-After: soon"), minPause},
		{"more seconds than a duration holds", 429, told("Retry-After: 9223372037"), 15 * time.Minute},
		{"more than any integer holds", 503, told("Retry-After: 99999999999999999999"), 15 * time.Minute},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate(t, Settings{MaxPause: 15 * time.Minute}, nil)
				begun := time.Now()
				observe(g, t.Context(), Automatic.Read(c.status, c.header, begun), begun)
				opened := g.Changed()
				if enter(g, t.Context()) == nil {
					t.Fatal("a call was let out at once")
				}
				<-opened
				mustWait(t, g)
				if d := time.Since(begun); d < c.after || d > c.after+time.Second {
					t.Errorf("the next call goes after %s, want %s and at most a second more", d, c.after)
				}
			})
		})
	}
}

// TestRefusalsThatNameNoTimeArePausedForLongerEachTime has a server refuse call after call, and name a time that is over, or none.
func TestRefusalsThatNameNoTimeArePausedForLongerEachTime(t *testing.T) {
	for name, h := range map[string]http.Header{
		"none at all": nil, "rubbish": told("Retry-After: soon"), "zero": told("Retry-After: 0"), "a negative number": told("Retry-After: -5"),
		"the past": told("Retry-After: Fri, 31 Dec 1999 07:28:00 GMT"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				pauses := func(random float64) (ds []time.Duration) {
					g, err := NewGate("shop", Settings{}, nil, nil, func() float64 { return random }, nil)
					if err != nil {
						t.Fatal(err)
					}
					for range 12 {
						observe(g, t.Context(), Automatic.Read(429, h, time.Now()), time.Now())
						d := time.Until(g.State(time.Now()).Pause.Until)
						ds = append(ds, d)
						time.Sleep(d)
					}
					return ds
				}
				least, most := pauses(0), pauses(0.999)
				for i := range least {
					if least[i] < minPause || most[i] <= least[i] || most[i] > growthCap {
						t.Errorf("pause %d is from %s to %s", i+1, least[i], most[i])
					}
				}
				if last := len(least) - 1; least[last] != growthCap/2 || least[5] < 4*least[2] {
					t.Errorf("the pauses do not grow to half of %s at least: %v", growthCap, least)
				}
			})
		})
	}
}
