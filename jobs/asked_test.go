package jobs

import (
	"testing"
	"time"

	"syncd/ratelimit"
)

func TestWhatAServerAskedForIsKnownHoweverLongItIs(t *testing.T) {
	for reason, asked := range map[string]bool{
		ratelimit.ReasonThrottled: true, ratelimit.ReasonUnavailable: true, ratelimit.ReasonBeyond: true,
		ratelimit.ReasonBreaker: false, ratelimit.ReasonSuspended: false, ratelimit.ReasonOperator: false,
	} {
		p := ratelimit.Pause{Reason: reason, Until: time.Unix(1e9, 0)}
		if got := (Resumed{Ended: p}).Asked(); (got == p) != asked {
			t.Errorf("%s: %+v", reason, got)
		}
	}
}
