package main

import "testing"

func TestThePercentageOfCollectingFollowsTheLoad(t *testing.T) {
	const small, large = 20 << 20, 100 << 20
	type second struct {
		collected, live uint64
		want            int
	}
	repeated := func(n int, s second) (out []second) {
		for range n {
			out = append(out, s)
		}
		return out
	}
	for _, c := range []struct {
		name    string
		seconds []second
	}{
		{"at rest", repeated(20, second{0, small, usualPercent})},
		{"a collection now and then", repeated(20, second{1, small, usualPercent})},
		{"a start", append([]second{{5, small, usualPercent}}, repeated(20, second{0, small, usualPercent})...)},
		{"load", []second{{0, small, usualPercent}, {5, small, usualPercent}, {5, small, busyPercent}, {1, small, busyPercent}, {0, small, busyPercent}}},
		{"load that ends", append(append([]second{{5, small, usualPercent}, {5, small, busyPercent}}, repeated(calmTime-1, second{0, small, busyPercent})...), second{0, small, usualPercent})},
		{"a pause in it", append(append(append([]second{{5, small, usualPercent}, {5, small, busyPercent}}, repeated(calmTime-1, second{0, small, busyPercent})...), second{1, small, busyPercent}), repeated(calmTime-1, second{0, small, busyPercent})...)},
		{"much that lives", []second{{5, large, usualPercent}, {5, large, usualPercent}, {5, small, busyPercent}, {5, large, usualPercent}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g collecting
			cycles := uint64(0)
			for i, s := range c.seconds {
				cycles += s.collected
				if got := g.second(cycles, s.live); got != s.want {
					t.Fatalf("second %d: %d, want %d", i+1, got, s.want)
				}
			}
		})
	}
}
