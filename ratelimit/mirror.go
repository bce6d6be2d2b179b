package ratelimit

import (
	"math"
	"time"
)

// mirror is what we know of one quota of the server: what its answers told, and what we have done since. What is left by it is never more than the
// server has, as long as nobody else spends it: what may or may not be counted in an answer is taken as not counted, until another tells.
type mirror struct {
	told   Quota  // the newest: by the answer to the call that left last
	of     flight // that call; ended is when the answer arrived
	low    sample // the lowest in the present window, of a quota that comes back at once
	limit  float64
	shapes map[string]bool // of calls whose answers tell it
	by     map[string]word // what the newest answer to a call of each shape told
	apart  int             // answers in a row by which calls of one shape are counted apart from the others
	probe  time.Duration   // how long to wait until one call finds out what there is, where nothing tells when something comes back
	denied bool            // what was told of the end of the window has proved wrong, and is not gone by
	early  int             // told ends of a window in a row at which nothing came back

	// first and last bound the moment at which a quota without Restore is whole again. Servers tell it in whole seconds, rounded in either
	// direction; each answer narrows it. Both are zero when the server does not tell.
	first, last time.Time
	window      time.Duration // told, or learned from one end to the next
	restore     float64       // told, or seen: what comes back in each second; 0 for a quota that comes back at once

	// others is what others spend of it in each second, as far as it can be seen, and base is the answer from which on it is counted.
	others float64
	base   sample
	untold float64   // what our calls took since then whose answers tell of no quota
	own    float64   // what our calls took in the present window
	since  []*flight // our calls that were not certainly counted in base and have ended
	pace   time.Time // until when the calls that have gone are spread
	spent  recent    // for a quota over a sliding window
}

// sample is what was left at a moment.
type sample struct {
	remaining float64
	of        flight
	end       time.Time // before which the quota was not whole again
}

const (
	// burstShare is how much of what is left may be spent at once after a quiet time; the rest is spread over the window.
	burstShare = 0.1
	// bucketShare is how much of a bucket is not spent.
	bucketShare = 0.05
	// leastRestore is the least part of what comes back to a bucket that is counted on, however much others seem to take: who counts on nothing
	// makes no calls, and is never told that it is otherwise.
	leastRestore = 0.1
	// staleAfter is for how long what others spend meanwhile is taken as known.
	staleAfter = 5 * time.Second
	// firstProbe and mostProbe bound the waits until one call finds out what there is, where nothing tells when something comes back.
	firstProbe, mostProbe = 500 * time.Millisecond, 5 * time.Minute
	// doubtAfter is for how long the most certain word of a server is taken for true that nothing is left: one call finds out then.
	doubtAfter = 15 * time.Minute
	// tooEarly is at how many told ends in a row nothing may come back until they are not gone by any more.
	tooEarly = 3
	// observeFor is how far two answers must lie apart for what lies between them to be reckoned.
	observeFor = 300 * time.Millisecond
)

// hear takes an answer.
func (m *mirror) hear(q Quota, f *flight) {
	f.heard = append(f.heard, m)
	late := f.seq < m.of.seq
	if m.denied {
		q.Reset = 0
	}
	if late && (m.restore > 0 || !m.within(q, f)) {
		return
	}
	m.learnProbe(q, f, late)
	if q.Limit > 0 {
		m.limit = q.Limit
	} else {
		m.limit = max(m.limit, q.Remaining)
	}
	if q.Restore > 0 {
		m.restore = q.Restore
	}
	if q.Window > 0 {
		m.window = q.Window
	}
	moved, fresh := m.ends(q, f)
	if fresh {
		m.account()
		m.early++
		if q.Remaining >= 1 || m.told.Remaining >= 1 {
			m.early = 0
		}
		if m.early >= tooEarly {
			m.denied, m.first, m.last = true, time.Time{}, time.Time{}
		}
	}
	if !moved && !fresh && m.low.of.seq != 0 && m.restore == 0 && !m.sliding() && m.low.of.ended.Before(f.sent) && q.Remaining > m.low.remaining {
		// Nothing comes back within a window: one of the two was not true, or the window is another one. The newer one counts.
		moved = true
		if q.Remaining-m.low.remaining > m.limit/2 && f.ended.Before(m.first) {
			m.denied, m.first, m.last = true, time.Time{}, time.Time{}
		}
	}
	if moved || q.Remaining <= m.low.remaining || m.low.of.seq == 0 || m.sliding() {
		m.low = sample{remaining: q.Remaining, of: *f}
	}
	if fresh {
		m.pace = time.Time{}
	}
	if late {
		return
	}
	m.told, m.of, m.untold = q, *f, 0
	m.compare(fresh)
}

// learnProbe adapts how long to wait where nothing tells when something comes back: half as long again after nothing had, a little less after something had.
func (m *mirror) learnProbe(q Quota, f *flight, late bool) {
	switch {
	case late || m.of.seq == 0:
	case q.Remaining >= 1:
		if m.told.Remaining < 1 {
			m.probe = max(m.probe*24/25, firstProbe)
		}
	case m.told.Remaining < 1 && f.sent.Sub(m.of.ended) >= m.probe/2:
		m.probe = min(max(m.probe, firstProbe)*3/2, mostProbe)
	}
}

// account reckons what others have spent in the window that is over.
func (m *mirror) account() {
	if m.restore == 0 && m.window > 0 && m.low.of.seq != 0 {
		m.others = blend(m.others, max(m.limit-m.low.remaining-m.own, 0)/m.window.Seconds())
	}
	m.own = 0
}

// within reports whether an answer that comes late is of the present window.
func (m *mirror) within(q Quota, f *flight) bool {
	if q.Reset == 0 || m.last.IsZero() {
		return false
	}
	first, last := bounds(q, f)
	return !first.After(m.last) && !last.Before(m.first)
}

// bounds are between which moments a quota is whole again by an answer.
func bounds(q Quota, f *flight) (first, last time.Time) {
	grain := 2 * time.Millisecond
	if q.Reset%time.Second == 0 {
		grain = time.Second
	}
	return f.sent.Add(q.Reset - grain), f.ended.Add(q.Reset + grain)
}

// ends takes over when the quota is whole again. It reports whether the answer is of another window than was thought, and whether that has begun since
// the one before was over.
func (m *mirror) ends(q Quota, f *flight) (moved, fresh bool) {
	fresh = !m.last.IsZero() && !f.sent.Before(m.last)
	if q.Reset == 0 {
		// What is used up not at all has no end to tell of.
		if fresh {
			m.first, m.last = time.Time{}, time.Time{}
		}
		return fresh, fresh
	}
	first, last := bounds(q, f)
	if m.within(q, f) {
		if first.After(m.first) {
			m.first = first
		}
		if last.Before(m.last) {
			m.last = last
		}
		return false, false
	}
	if q.Window == 0 && fresh && m.restore == 0 {
		m.window = last.Sub(m.last)
	}
	m.first, m.last = first, last
	return true, fresh
}

// compare reckons what came back, or was spent by others, since base.
func (m *mirror) compare(fresh bool) {
	now := sample{remaining: m.told.Remaining, of: m.of, end: m.first}
	over := m.of.sent.Sub(m.base.of.ended)
	switch {
	case m.base.of.seq == 0, !m.told.Known, m.restore == 0 && (fresh || !m.base.end.IsZero() && !m.of.ended.Before(m.base.end)):
		m.rebase(now)
		return
	case over < observeFor:
		return
	}
	least, most := m.ours()
	took := m.of.ended.Sub(m.base.of.sent).Seconds()
	// The first never overrates what came back, which for a quota that comes back at once is nothing.
	surely := (now.remaining - m.base.remaining + least) / took
	about := (now.remaining - m.base.remaining + (least+most)/2) / over.Seconds()
	low := m.told.Remaining < m.limit-1 && m.base.remaining < m.limit-1 // a full bucket loses what comes back
	switch {
	case m.told.Restore > 0:
		if low {
			m.others = blend(m.others, max(m.told.Restore-about, 0))
		}
	case m.restore > 0:
		if low {
			m.restore = blend(m.restore, max(about, 0))
		}
		if m.restore < m.limit/1e4/over.Seconds() {
			m.restore = 0
		}
	case surely*took > max(2, m.limit/100):
		m.restore, m.others = max(about, surely), 0
	default:
		m.others = blend(m.others, max(-about, 0))
	}
	m.rebase(now)
}

func (m *mirror) rebase(s sample) {
	m.base = s
	kept := m.since[:0]
	for _, f := range m.since {
		if !f.before(&s.of) && f.seq != s.of.seq {
			kept = append(kept, f)
		}
	}
	clear(m.since[len(kept):])
	m.since = kept
}

// ours is what our calls took between base and the newest answer: at least, and at most.
func (m *mirror) ours() (least, most float64) {
	for _, f := range m.since {
		most += f.cost
		if f.before(&m.of) && !f.sent.Before(m.base.of.ended) {
			least += f.cost
		}
	}
	return least + m.of.cost, most + m.of.cost
}

func blend(old, now float64) float64 {
	if old == 0 {
		return now
	}
	return 0.7*old + 0.3*now
}

// counted is told of each call of ours that the server has counted.
func (m *mirror) counted(f *flight) {
	if len(m.since) < mostSince {
		m.since = append(m.since, f)
	} else {
		m.base = sample{} // answers have told nothing for long
		m.since = nil
	}
	m.own += f.cost
	m.spent.add(f.sent, f.cost, m.span())
}

// mostSince bounds the calls that are kept between two answers that tell of a quota.
const mostSince = 1 << 14

// span is the time over which a sliding quota is counted.
func (m *mirror) span() time.Duration {
	if m.window > 0 {
		return m.window
	}
	return time.Minute
}

// sliding reports whether the server tells no moment at which the quota is whole again, and it does not fill like a bucket.
func (m *mirror) sliding() bool { return m.restore == 0 && m.last.IsZero() }

// unsure reports whether the end that the server tells is not that at which something comes back.
func (m *mirror) unsure() bool { return m.denied || m.restore > 0 && m.told.Restore == 0 }

// left is what may be spent at now, with what is under way taken off.
func (m *mirror) left(now time.Time, calls []*flight) (left float64) {
	counted := func(f *flight) bool { return f.seq == m.of.seq || f.before(&m.of) }
	switch {
	case !m.told.Known:
		left = m.limit - m.spent.within(now, m.span())
		counted = func(f *flight) bool { return !f.underWay() }
	case m.restore > 0:
		left = m.told.Remaining
	case m.sliding() && m.window == 0:
		left = m.told.Remaining
	case m.sliding():
		left = min(m.told.Remaining+m.spent.since(m.of.sent, m.span(), now), m.limit)
	default:
		left = m.low.remaining
		counted = func(f *flight) bool { return f.counted(m) }
	}
	for _, f := range calls {
		if !counted(f) && (m.shapes[f.shape] || f.underWay()) {
			left -= f.cost
		}
	}
	if m.told.Known {
		left -= m.untold
	}
	if m.restore > 0 {
		left = min(left+m.comes()*max(now.Sub(m.of.ended).Seconds(), 0), m.limit)
	}
	return left
}

// theirs is what others take in each second. In a window of which they take less than a two-hundredth it is none: our own count is no more exact.
func (m *mirror) theirs() float64 {
	if m.restore == 0 && m.window > 0 && m.others*m.window.Seconds() < m.limit/200 {
		return 0
	}
	return m.others
}

// comes is what comes back to a bucket in each second for our calls.
func (m *mirror) comes() float64 { return max(m.restore-m.others, leastRestore*m.restore) }

// kept is what is not spent of what is left: the share of other users, and what they are seen to take while an answer is on its way, or until the
// window is over – then at most half, for who leaves all to each other gets nothing.
func (m *mirror) kept(now time.Time, left, share float64, trip time.Duration) float64 {
	k := share * m.limit
	if m.restore > 0 {
		// What always lies in a bucket is lost once only. It is there for others who take some at the same moment, and for who goes on after us.
		part := bucketShare
		if m.told.Restore == 0 {
			part *= 2 // what comes back is only seen, and so is what others take of it
		}
		k += max(1, m.limit*part)
	}
	if m.theirs() > 0 {
		soon := 1 + math.Ceil(m.theirs()*2*trip.Seconds())
		if m.restore == 0 {
			soon = max(soon, min(m.theirs()*m.first.Sub(now).Seconds(), left/2))
		}
		k += soon
	}
	return k
}

// over reports whether the window that the newest answer told of is over.
func (m *mirror) over(now time.Time) bool {
	return m.restore == 0 && !m.last.IsZero() && !now.Before(m.last)
}

// stale reports whether others may have spent what was left since.
func (m *mirror) stale(now time.Time) bool { return now.Sub(m.of.ended) > staleAfter }

// verdict is what one part of the pace says to a call: go, wait for a time, or wait until an answer comes.
type verdict struct {
	wait   time.Duration // 0 for now
	answer bool          // an answer may end the wait before, or is all there is to wait for when wait is 0
}

func (v verdict) ok() bool { return v.wait <= 0 && !v.answer }

// least is for how long to wait for an answer that is all there is to wait for.
func (v verdict) least() time.Duration {
	if v.wait > 0 {
		return v.wait
	}
	return mostRest
}

// next says when a call of a cost may go; mute says that its answer will tell nothing.
func (m *mirror) next(now time.Time, cost float64, calls []*flight, share float64, trip time.Duration, mute bool) verdict {
	left := m.left(now, calls)
	kept := m.kept(now, left, share, trip)
	if kept+cost > m.limit && m.limit > 0 { // a call that takes all there is, or more, goes when all is there
		cost = min(cost, m.limit)
		kept = m.limit - cost
	}
	lacks := left-kept < cost-1e-9
	switch {
	case m.over(now) && lacks:
		return alone(now, calls, m.last)
	case lacks:
		v := m.later(now, cost-(left-kept))
		// Whatever it is reckoned from: what was told may be wrong by now.
		if doubt := m.of.ended.Add(m.patience()); !now.Before(doubt) {
			return alone(now, calls, doubt)
		} else if d := doubt.Sub(now); d < v.wait {
			v.wait = d
		}
		return v
	case m.stale(now) && !mute:
		return alone(now, calls, m.of.ended.Add(staleAfter))
	}
	// Who came late makes up for it as long as that is no more than the burst.
	interval := m.interval(left-kept, m.free(now, trip))
	most := time.Duration(max(1, burstShare*(left-kept)) * float64(interval))
	if m.theirs() > 0 || m.restore > 0 {
		most = interval
	}
	if ahead := m.pace.Sub(now); interval > 0 && ahead > most {
		return verdict{wait: ahead - most}
	}
	return verdict{}
}

// alone lets one call find out what is there now.
func alone(now time.Time, calls []*flight, edge time.Time) verdict {
	for _, f := range calls {
		if f.underWay() && !f.sent.Before(edge) && now.Sub(f.sent) < patience {
			return verdict{wait: f.sent.Add(patience).Sub(now), answer: true}
		}
	}
	return verdict{}
}

// patience is for how long after the newest answer it is taken for true that nothing is left.
func (m *mirror) patience() time.Duration {
	if m.sliding() && m.window == 0 {
		return max(m.probe, firstProbe)
	}
	return doubtAfter
}

// later is when what lacks may be there.
func (m *mirror) later(now time.Time, lack float64) verdict {
	switch {
	case m.restore > 0:
		return verdict{wait: lasting(lack / m.comes()), answer: true}
	case !m.last.IsZero():
		return verdict{wait: max(m.last.Sub(now), time.Millisecond), answer: true}
	}
	if m.window == 0 {
		return verdict{wait: mostProbe, answer: true}
	}
	return verdict{wait: max(m.spent.nextBack(now, m.span()), time.Millisecond), answer: true}
}

func lasting(s float64) time.Duration {
	return time.Duration(math.Ceil(min(max(s, 0), 1e9) * float64(time.Second)))
}

// free is for how long calls are still spread. The end of a window is left to those that could not go before.
func (m *mirror) free(now time.Time, trip time.Duration) time.Duration {
	if m.restore > 0 {
		return time.Second
	}
	if m.sliding() && m.window == 0 {
		return 0
	}
	if m.sliding() {
		// In the long run one call goes for each that the server lets go of, and all but a hundredth of the window is spent.
		return m.span() / 100
	}
	w := m.window
	if w == 0 {
		w = m.told.Reset
	}
	return m.first.Sub(now) - min(max(4*trip, w/50), w/4)
}

// interval is how far apart calls of cost 1 go so that what is left lasts until then, or for a bucket so that it does not run dry. Where others spend of it too, nobody knows who gets the last
// of it: calls go at no more than half as often again as on average.
func (m *mirror) interval(left float64, over time.Duration) time.Duration {
	if m.restore > 0 {
		// What has gathered is spent over a second, in which answers tell what others take of it.
		return time.Duration(float64(time.Second) / max(m.restore-m.others+max(left, 0), m.restore/10, 1e-3))
	}
	least := time.Duration(0)
	if m.theirs() > 0 && m.limit > 0 && m.window > 0 {
		least = time.Duration(float64(m.window) / m.limit / 1.5)
	}
	if over <= 0 {
		return least
	}
	return max(min(time.Duration(float64(over)/max(left, 1e-3)), over), least)
}

// take books a call that goes now.
func (m *mirror) take(now time.Time, cost float64, calls []*flight, share float64, trip time.Duration) {
	if m.pace.Before(now) {
		m.pace = now
	}
	over := m.free(now, trip)
	left := m.left(now, calls)
	left = max(left-m.kept(now, left, share, trip), cost)
	m.pace = m.pace.Add(time.Duration(float64(m.interval(left, over)) * cost))
	if end := now.Add(max(over, m.interval(left, over))); m.pace.After(end) {
		m.pace = end
	}
}
