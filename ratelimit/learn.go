package ratelimit

import "time"

// learner finds the rate that a server takes which tells nothing of its quota but refusals.
//
// After a refusal calls begin at nine tenths of the rate that was just accepted, and come back to it along a cubic curve: flat where that rate is
// reached again, and then steeper, for what was known may be old.
//
// What a refusal says depends on how the quota comes back. Where calls that left after the one that was refused are accepted, it fills all the time: it was
// empty now and at the refusal before, and what was accepted between is the rate. Where all are refused, it comes back at once some time later: the
// rate is a little lower than what was just tried if that was approached slowly, and else what was accepted since the quota came back last, over the time
// until it comes back again.
type learner struct {
	accepted float64 // calls accepted since the beginning
	latest   recent  // those of the last seconds
	last     episode
	fills    int // above 0 if calls that left after a refused one were accepted, by the last episodes that told

	known  float64       // the rate that is known, in calls per second; 0 for none
	calm   time.Duration // how long calls stay below it
	bound  time.Duration // for how long the rate has held calls back since the last refusal
	opened mark          // when calls began again after the last refusal
	sooner int           // refusals in a row that came sooner than expected
	level  float64       // calls that may go now
	at     time.Time     // as of when
}

// mark is a moment, and how many calls had been accepted by then.
type mark struct {
	at       time.Time
	accepted float64
}

// episode is a refusal and what belongs to it.
type episode struct {
	mark
	seq      uint64 // of the refused call
	began    time.Time
	before   mark // the one before
	opened   mark // when calls began again after that
	tried    float64
	expected bool // the rate had been tried for long enough
	open     bool // calls have not begun again
	grown    bool // calm has
	// later are calls that left after the refused one: how many were accepted, and how many refused.
	laterAccepted, laterRefused int
}

const (
	// below is where calls begin after a refusal, as a part of the known rate, and nearly what of the rate just accepted is taken as known; together they
	// make nine tenths.
	below, nearly = 0.93, 0.97
	// firstCalm and mostCalm bound how long calls stay below the known rate. It grows as the rate is better known.
	firstCalm = time.Second
	mostCalm  = 2 * time.Minute
	// learnedBurst is for how long what was not used may be made up for.
	learnedBurst = 50 * time.Millisecond
	// justNow is over what time the rate just accepted is taken.
	justNow = 2 * time.Second
	// sure bounds what speaks for one way in which a quota comes back.
	sure = 3
	// costlyFrom is how many calls have to be accepted for each one refused, for the refusals not to be many.
	costlyFrom = 60
	// tooSoon is how many refusals in a row may come sooner than expected until that says something.
	tooSoon = 4
	// leastRate is the least rate that is learned: a call in an hour.
	leastRate = 1.0 / 3600
)

// accept notes a call that was accepted.
func (l *learner) accept(now time.Time, f *flight) {
	l.accepted += f.cost
	l.latest.add(now, f.cost, justNow)
	if l.last.open && f.seq > l.last.seq {
		l.last.laterAccepted++
	}
}

// refuse notes a refusal; first says that it is the first of an episode.
func (l *learner) refuse(now time.Time, f *flight, first bool) {
	was := l.last
	switch {
	case !first:
		if was.open && f.seq > was.seq {
			l.last.laterRefused++
		}
		return
	case l.accepted == was.accepted:
		// It goes on; or nothing was accepted ever, and nothing is known.
		if !was.at.IsZero() {
			l.last.at, l.last.open = now, true
		}
		return
	}
	just := l.latest.within(now, justNow) / justNow.Seconds()
	all := (l.accepted - l.opened.accepted) / max(now.Sub(l.opened.at), justNow).Seconds()
	l.last = episode{mark: mark{now, l.accepted}, seq: f.seq, began: now, before: was.mark, opened: l.opened, open: true, expected: l.known > 0 && l.bound > l.calm/2,
		tried: max(just, all, leastRate)}
	if l.known > 0 {
		l.last.tried = min(l.last.tried, l.allowed())
	}
}

// reopened notes that calls may go again after a refusal.
func (l *learner) reopened(now time.Time) {
	e := &l.last
	if !e.open {
		return
	}
	e.open, e.accepted = false, l.accepted
	switch {
	case e.laterAccepted > 0:
		l.fills = min(l.fills+1, sure)
	case e.laterRefused > 1:
		l.fills = max(l.fills-1, -sure)
	}
	// Where refusals are many, beside what was accepted since the ones before, the rate is taken as no more than what that was.
	costly := !e.before.at.IsZero() && costlyFrom*float64(1+e.laterRefused) > e.accepted-e.before.accepted
	e.laterAccepted, e.laterRefused = 0, 0
	pause := now.Sub(e.began)
	grew := l.bound > l.calm
	e.expected = e.expected || !e.before.at.IsZero() && e.began.Sub(e.opened.at) > 2*pause
	since := func(m mark, until time.Time) float64 {
		return max((e.accepted-m.accepted)/max(until.Sub(m.at), time.Millisecond).Seconds(), leastRate)
	}
	switch {
	case l.fills > 0 && !e.before.at.IsZero() && since(e.before, e.at) > 0.7*e.tried:
		l.known = since(e.before, e.at)
	case e.expected, l.fills >= 0 && e.before.at.IsZero():
		l.known = nearly * e.tried
		if costly && l.fills <= 0 {
			l.known = min(l.known, max(since(e.opened, now), since(e.before, e.at)))
		}
	default:
		l.known, e.grown = since(e.opened, now), true
	}
	if l.sooner++; grew || e.before.at.IsZero() {
		l.sooner = 0
	}
	if l.sooner > tooSoon {
		// However seldom calls go, some are refused: their rate is not what it is about.
		l.known, l.calm, e.grown = 1.5*max(l.known, e.tried), 0, true
		l.known = min(l.known, MaxRate)
		if l.sooner > 2*tooSoon {
			l.sooner = 0
		}
	}
	l.calm = max(l.calm, firstCalm)
	if !e.before.at.IsZero() && !e.grown {
		l.calm = min(2*l.calm, mostCalm)
	}
	e.grown = true
	l.level = 1
	if e.expected && pause <= l.calm {
		// The quota ran out just before it would have come back, or has filled since: what could not go can be made up for.
		l.level += l.known * pause.Seconds()
	}
	l.calm = min(max(l.calm, pause), mostCalm)
	l.bound, l.at, l.opened = 0, now, mark{now, l.accepted}
}

// allowed is the rate at which calls may go now.
func (l *learner) allowed() float64 {
	x := float64(l.bound)/float64(l.calm) - 1
	if x < 0 {
		x = min(4*(x+0.75), 0) // back soon, then flat
	}
	return l.known * min(1+(1-below)*x*x*x, 2)
}

// next says when a call of a cost may go.
func (l *learner) next(now time.Time, cost float64) verdict {
	if l.known == 0 {
		return verdict{}
	}
	l.fill(now)
	if lack := min(cost, l.most()) - l.level; lack > 1e-9 {
		return verdict{wait: lasting(lack / l.allowed())}
	}
	return verdict{}
}

// most is how many calls may go at once.
func (l *learner) most() float64 { return max(1, l.allowed()*learnedBurst.Seconds()) }

// fill lets time pass. The curve goes on only while the rate is used: what nobody asked for proves nothing.
func (l *learner) fill(now time.Time) {
	d := max(now.Sub(l.at), 0)
	l.at = now
	if most, rate := l.most(), l.allowed(); l.level < most {
		l.bound += min(d, lasting((most-l.level)/rate), max(time.Second, l.calm/10))
		l.level = min(l.level+d.Seconds()*rate, most)
	}
	if l.allowed() >= 2*l.known {
		l.known, l.bound = min(l.allowed(), MaxRate), l.calm // nothing was refused: what was known is old
	}
}

// take books a call that goes now.
func (l *learner) take(now time.Time, cost float64) {
	if l.opened.at.IsZero() {
		l.opened.at = now
	}
	if l.known == 0 {
		return
	}
	l.fill(now)
	l.level -= cost
}

// Learned is what a gate has learned from refusals, for one that takes its place.
type Learned struct {
	// Rate is in calls per second.
	Rate float64 `json:"rate"`
	// Calm is for how long calls stay below it.
	Calm time.Duration `json:"calm"`
	// Fills tells how the quota comes back: above 0 all the time, below 0 at once.
	Fills int `json:"fills"`
}

func (l *learner) all() Learned { return Learned{Rate: l.known, Calm: l.calm, Fills: l.fills} }

// recall takes over what another gate has learned.
func (l *learner) recall(is Learned, now time.Time) {
	if l.known > 0 || !(is.Rate >= leastRate && is.Rate <= MaxRate) {
		return
	}
	l.known, l.calm, l.fills = is.Rate, min(max(is.Calm, firstCalm), mostCalm), min(max(is.Fills, -sure), sure)
	l.level, l.at = 1, now
}
