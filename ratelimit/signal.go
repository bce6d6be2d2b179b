package ratelimit

import (
	"net/http"
	"strings"
	"time"
)

// Signal is what one answer says about how the client may be called.
type Signal struct {
	// Throttled means that the call was refused for quota.
	Throttled bool
	// TooDear means that the call was refused because it takes more than the quota ever holds: it is refused whenever it is sent. It asks for no pause.
	TooDear bool
	// RetryAfter is how long the server asks to wait; 0 with HasRetryAfter means
	// that it asked for a pause without a length that can be used.
	RetryAfter    time.Duration
	HasRetryAfter bool
	// Reckoned says that the server did not ask for that: it is the end of a quota that is used up.
	Reckoned bool
	// Status is the HTTP status; 200 for an answer of another protocol that did
	// its work.
	Status int
	// Evidence is what was seen, from status and headers only: "429 Retry-After: 60".
	Evidence string
	// ServerTime is the answer's Date; zero when it had none.
	ServerTime time.Time
	// Quotas are what the answer says of the client's quotas, by scope; none when it says nothing, or comes from a cache.
	Quotas []Quota
	// Concurrent means that the call was refused because of those under way beside it, not of those before; without Throttled that it was answered in
	// a way that says so without being a refusal for sure.
	Concurrent bool
	// Nonsense names the headers that could not be read, or said what cannot be.
	Nonsense []string
}

func serverTime(h http.Header) time.Time {
	t, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

// pauses gives the reason for which the answer asks for a pause of the whole
// client, if it does. A 503 without Retry-After does not: the server may fail
// for this call only, and the breaker judges that.
func (s Signal) pauses() (reason string, ok bool) {
	switch {
	case s.Throttled:
		return ReasonThrottled, true
	case s.Status == http.StatusServiceUnavailable && s.HasRetryAfter:
		return ReasonUnavailable, true
	}
	return "", false
}

// Pauses reports whether the answer asks for a pause of the whole client.
func (s Signal) Pauses() bool {
	_, ok := s.pauses()
	return ok
}

// served reports whether the answer shows that the server is serving us, be it
// with a refusal of this one call.
func (s Signal) served() bool { return s.Status >= 200 && s.Status < 500 }

// printable makes a header's value fit for a log line.
func printable(v string) string {
	const most = 64
	cut := ""
	if len(v) > most {
		v, cut = v[:most], "…"
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, v) + cut
}
