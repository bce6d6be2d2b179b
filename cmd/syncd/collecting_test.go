package main

import (
	"slices"
	"testing"
)

func TestThePercentageOfCollectingFollowsTheLoad(t *testing.T) {
	const small, large = 20 << 20, 100 << 20
	type look struct {
		collected, live uint64
		want            int
	}
	times := func(n int, l look) []look { return slices.Repeat([]look{l}, n) }
	begins := times(busyLooks-1, look{1, small, usualPercent})
	calm := times(calmLooks-1, look{0, small, busyPercent})
	for _, c := range []struct {
		name  string
		looks []look
	}{
		{"at rest", times(2*calmLooks, look{0, small, usualPercent})},
		{"a collection now and then", slices.Repeat([]look{{1, small, usualPercent}, {0, small, usualPercent}}, 20)},
		{"a start", append(begins, look{0, small, usualPercent})},
		{"load", slices.Concat(begins, []look{{1, small, busyPercent}, {0, small, busyPercent}, {3, small, busyPercent}})},
		{"load that ends", slices.Concat(begins, []look{{1, small, busyPercent}}, calm, []look{{0, small, usualPercent}})},
		{"a pause in it", slices.Concat(begins, []look{{1, small, busyPercent}}, calm, []look{{1, small, busyPercent}}, calm)},
		{"much that lives", slices.Concat(times(10, look{1, large, usualPercent}), []look{{1, small, busyPercent}, {1, large, usualPercent}})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g collecting
			cycles := uint64(0)
			for i, l := range c.looks {
				cycles += l.collected
				if got := g.look(cycles, l.live); got != l.want {
					t.Fatalf("look %d: %d, want %d", i+1, got, l.want)
				}
			}
		})
	}
}
