package daemon

import (
	"testing"
	"time"

	"syncd/breaker"
	"syncd/config"
)

func TestBreakerIsAsConfigured(t *testing.T) {
	c := &config.Client{Breaker: config.Breaker{Window: time.Hour, MinCalls: 3, Ratio: 0.25, InRow: 7, OpenFor: time.Second}}
	want := breaker.Settings{Window: time.Hour, MinCalls: 3, Ratio: 0.25, ConsecutiveFailures: 7, OpenFor: time.Second}
	if got := clientPlan(c).Breaker; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
