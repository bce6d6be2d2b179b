package ratelimit

import (
	"math"
	"testing"
	"time"
)

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	tests := []struct {
		name string
		s    Settings
		want string
	}{
		{"negative rate", Settings{Rate: -1}, `client "shop": rate -1 per second is not between 1e-06 and 1e+06 (leave it out for no limit of our own)`},
		{"infinite rate", Settings{Rate: math.Inf(1)}, `client "shop": rate +Inf per second is not between 1e-06 and 1e+06 (leave it out for no limit of our own)`},
		{"rate that is no number", Settings{Rate: math.NaN()}, `client "shop": rate NaN per second is not between 1e-06 and 1e+06 (leave it out for no limit of our own)`},
		{"vanishing rate", Settings{Rate: 1e-300}, `client "shop": rate 1e-300 per second is not between 1e-06 and 1e+06 (leave it out for no limit of our own)`},
		{"negative burst", Settings{Rate: 1, Burst: -1}, `client "shop": burst -1 is not between 0 and 1000000`},
		{"negative longest pause", Settings{MaxPause: -1}, `client "shop": max_pause -1ns is negative`},
		{"negative first pause", Settings{DefaultPause: -time.Second}, `client "shop": default_pause -1s is negative`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := NewGate("shop", tt.s, nil, nil, nil, nil)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got error %v, want %s", err, tt.want)
			}
		})
	}
}

func TestPausesGrowToTheirCapWithoutOverflow(t *testing.T) {
	for _, first := range []time.Duration{1, 200 * time.Millisecond, time.Second, time.Hour, math.MaxInt64} {
		before := time.Duration(0)
		for _, strikes := range []int{0, 1, 2, 3, 9, 10, 33, 34, 35, 36, 37, 63, 64, 65, 100, 1 << 31, math.MaxInt} {
			least, most := grown(first, strikes, 0), grown(first, strikes, 0.999999)
			whole := min(growthCap, time.Duration(float64(first)*math.Pow(2, float64(min(max(strikes, 1), 60)-1))))
			if whole < 0 {
				whole = growthCap
			}
			if least < whole/2 || most > whole || least < before/2 || least < 0 {
				t.Errorf("first %s, %d strikes: from %s to %s, want within the upper half of %s", first, strikes, least, most, whole)
			}
			before = whole
		}
	}
}

func TestJitterTakesAnyDelay(t *testing.T) {
	for _, d := range []time.Duration{0, 1, 9, time.Second, maxRetryAfter} {
		for _, random := range []float64{0, 0.5, 0.999999} {
			if got := hinted(d, random); got < d || got > d+5*time.Second {
				t.Errorf("hinted(%s, %v) = %s", d, random, got)
			}
		}
	}
}
