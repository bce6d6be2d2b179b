package daemon

import (
	"testing"
	"time"
)

func TestAFastTargetIsClaimedForAheadAndASlowOneIsNot(t *testing.T) {
	for _, c := range []struct {
		name     string
		finished int64
		took     time.Duration
		want     int
	}{
		{"nothing ended", 0, time.Second, 0},
		{"two a second", 2, time.Second, 0},
		{"ten a second", 2, 200 * time.Millisecond, 0},
		{"a thousand a second", 5, 5 * time.Millisecond, 50},
		{"ten thousand a second", 100, 10 * time.Millisecond, 500},
		{"no more than one claim holds", 1000, time.Millisecond, mostClaimed},
		{"a turn too short to measure by", 3, time.Microsecond, 150},
		{"the clock went back", 3, -time.Second, 150},
		{"after a long rest", 64, time.Hour, 0},
	} {
		if got := expected(c.finished, c.took, aheadFor(time.Millisecond)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	// Where claims are slow slots would stand empty until the next one is stored.
	for claim, want := range map[time.Duration]int{0: 10, 25 * time.Millisecond: 10, 100 * time.Millisecond: 40, time.Second: 50} {
		if got := expected(200, time.Second, aheadFor(claim)); got != want {
			t.Errorf("at 200 a second, with a claim that takes %s: %d, want %d", claim, got, want)
		}
	}
}
