package ratelimit

import "time"

// recent is what was spent over the last time, in slices of it.
type recent struct {
	slices []slice
}

type slice struct {
	begin time.Time
	spent float64
}

// slicesPer is how many slices a window has.
const slicesPer = 64

func (r *recent) add(at time.Time, cost float64, window time.Duration) {
	n := len(r.slices)
	if n > 0 && at.Sub(r.slices[n-1].begin) < window/slicesPer {
		r.slices[n-1].spent += cost
		return
	}
	old := 0
	for old < n && at.Sub(r.slices[old].begin) > 2*window {
		old++
	}
	r.slices = append(r.slices[old:], slice{at, cost})
}

// within is what was spent in the window up to now.
func (r *recent) within(now time.Time, window time.Duration) (sum float64) {
	for _, s := range r.slices {
		if now.Sub(s.begin) <= window+window/slicesPer {
			sum += s.spent
		}
	}
	return sum
}

// since is how much of what was spent in the window up to a moment has fallen out of the window by now.
func (r *recent) since(moment time.Time, window time.Duration, now time.Time) (sum float64) {
	for _, s := range r.slices {
		then, is := moment.Sub(s.begin), now.Sub(s.begin)
		if then >= 0 && then <= window && is > window+window/slicesPer {
			sum += s.spent
		}
	}
	return sum
}

// nextBack is when the oldest of what was spent falls out of the window.
func (r *recent) nextBack(now time.Time, window time.Duration) time.Duration {
	for _, s := range r.slices {
		if d := s.begin.Add(window + window/slicesPer).Sub(now); d > 0 {
			return d
		}
	}
	return window / slicesPer
}
