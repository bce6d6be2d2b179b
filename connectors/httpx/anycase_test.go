package httpx

import (
	"net/http"
	"testing"
	"time"
)

func TestHeadersOfAQuotaAreKnownInAnyCase(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"retry-after", `"2"`, 2 * time.Second},
		{"RETRY-AFTER", "60", time.Minute},
		{"x-rate-limit-time-reset-ms", "15000", 15 * time.Second},
		{"X-RATE-LIMIT-TIME-RESET-MS", "15000", 15 * time.Second},
		{"x-ratelimit-retry-after", "9", 9 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, g := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header()[c.name] = []string{c.value} // goes out as it is written here
				w.WriteHeader(http.StatusTooManyRequests)
			})), nil)
			_, err := client.Do(t.Context(), write("/orders", "{}"))
			wantError(t, err, Throttled, "throttled")
			if s := g.signals(); len(s) != 1 || s[0].RetryAfter != c.want {
				t.Errorf("the gate was shown %+v, want a pause of %s", s, c.want)
			}
		})
	}
}
