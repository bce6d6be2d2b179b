package main

import (
	"bytes"
	"strings"
	"testing"

	"syncd/daemon"
)

func TestABreakerThatWasOpenIsToldOnlyWhileTheClientIsPaused(t *testing.T) {
	shown := &daemon.Shown{Breaker: "open", BreakerLast: "http_503"}
	for _, paused := range []bool{true, false} {
		c := clientStatus{Client: "erp", Owners: []laneStatus{{Pace: shown}}}
		if paused {
			c.Paused = &pauseStatus{Reason: "breaker"}
		}
		var out bytes.Buffer
		(&statusJSON{Clients: []clientStatus{c}}).printPace(&out)
		if told := strings.Contains(out.String(), "its breaker is open after: http_503"); told != paused {
			t.Errorf("paused %v: %q", paused, out.String())
		}
	}
}
