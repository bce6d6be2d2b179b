package ratelimit

import (
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAnswersAreReadIntoSignals(t *testing.T) {
	date := serverDate.Format(http.TimeFormat)
	tests := []struct {
		name   string
		status int
		header http.Header
		want   Signal
	}{
		{"success", 200, http.Header{"Date": {date}}, Signal{Status: 200, Evidence: "200", ServerTime: serverDate}},
		{"429 with seconds", 429, http.Header{"Retry-After": {"60"}},
			Signal{Throttled: true, RetryAfter: time.Minute, HasRetryAfter: true, Status: 429, Evidence: "429 Retry-After: 60"}},
		{"429 with a date and a skewed clock", 429, http.Header{"Date": {date}, "Retry-After": {"Sun, 29 Nov 2026 10:00:30 GMT"}},
			Signal{Throttled: true, RetryAfter: 30 * time.Second, HasRetryAfter: true, Status: 429,
				Evidence: "429 Retry-After: Sun, 29 Nov 2026 10:00:30 GMT", ServerTime: serverDate}},
		{"429 without anything", 429, nil, Signal{Throttled: true, Status: 429, Evidence: "429"}},
		{"429 with rubbish", 429, http.Header{"Retry-After": {"later\x1b[31m"}},
			Signal{Throttled: true, Status: 429, Evidence: "429 Retry-After: later?[31m", Nonsense: []string{"Retry-After"}}},
		{"429 with two values", 429, http.Header{"Retry-After": {"1", "30"}},
			Signal{Throttled: true, RetryAfter: 30 * time.Second, HasRetryAfter: true, Status: 429, Evidence: "429 Retry-After: 1 Retry-After: 30"}},
		{"509", 509, nil, Signal{Throttled: true, Status: 509, Evidence: "509"}},
		{"503 with seconds", 503, http.Header{"Retry-After": {"1800"}},
			Signal{RetryAfter: 30 * time.Minute, HasRetryAfter: true, Status: 503, Evidence: "503 Retry-After: 1800"}},
		{"broken Date", 200, http.Header{"Date": {"today"}}, Signal{Status: 200, Evidence: "200"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Automatic.Read(tt.status, tt.header, received)); diff != "" {
				t.Errorf("signal (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEvidenceOfALongHeaderIsCut(t *testing.T) {
	long := make([]byte, 10_000)
	for i := range long {
		long[i] = 'x'
	}
	s := Automatic.Read(429, http.Header{"Retry-After": {string(long)}}, received)
	if len(s.Evidence) > 100 {
		t.Errorf("evidence is %d bytes long", len(s.Evidence))
	}
}
