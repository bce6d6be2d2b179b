package ratelimit

import (
	"math"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

// pacer decides when the next call may go. It does not look at clocks and is not safe for concurrent use: its gate does the one and sees to the
// other.
type pacer struct {
	settings Settings
	limiter  *rate.Limiter // nil without a configured rate
	mirrors  []*mirror
	learned  learner
	costs    map[string]float64 // what calls of a shape took so far
	shapes   [kinds][]string    // which calls of a kind had
	quiet    map[string]silence // of shapes whose last answers told of no quota

	seq   uint64
	calls []*flight // under way, and those that newer answers do not certainly count; oldest first
	trip  time.Duration

	// ramp is how many calls may be under way of those that left since the start or a pause: one at first, one more for each answer. 0 for any number.
	ramp  int
	since uint64 // of which call on
	// atOnce is how many calls may be under way, for a server that counts them; 0 for any number.
	atOnce   float64
	atOnceAt time.Time
}

const (
	// mostRamp is where a ramp ends.
	mostRamp = 64
	// patience is how long others wait for the answer to a call that went alone to find out something.
	patience = 5 * time.Second
	// mostCosts bounds the shapes whose costs are kept.
	mostCosts = 256
	// forgetAfter is how long a quota is kept to that no answer tells of any more.
	forgetAfter = time.Hour
	// mutely and muteAfter are after how many answers that told of no quota, and after how long, calls of a shape are taken for ones whose
	// answers tell nothing.
	mutely, muteAfter = 5, 10 * time.Second
	// atOnceEvery is how often one more call at once is tried, after a refusal for calls at one time.
	atOnceEvery = 30 * time.Second
)

func newPacer(s Settings) *pacer {
	// Nobody knows what is left of the quota, so that the first call goes alone.
	return &pacer{settings: s, limiter: newLimiter(s), costs: map[string]float64{}, quiet: map[string]silence{}, ramp: 1}
}

func newLimiter(s Settings) *rate.Limiter {
	if s.Rate == 0 {
		return nil
	}
	return rate.NewLimiter(rate.Limit(s.Rate), s.Burst)
}

// set changes the settings.
func (p *pacer) set(s Settings) {
	if p.limiter == nil || s.Rate == 0 {
		p.limiter = newLimiter(s)
	} else {
		p.limiter.SetLimit(rate.Limit(s.Rate))
		p.limiter.SetBurst(s.Burst)
	}
	p.settings = s
}

// begin drops what is believed of the server's limits.
func (p *pacer) begin() { p.mirrors, p.learned, p.atOnce = nil, learner{}, 0 }

// cost is what a call is predicted to take.
func (p *pacer) cost(a Ask) float64 {
	if a.Cost > 0 {
		return bounded(a.Cost)
	}
	if c := p.costs[a.Shape]; c > 0 {
		return c
	}
	return 1
}

// held is what keeps a call back, for State: the name of what does.
type held string

// What keeps calls back.
const (
	heldByRate    held = "rate"    // the configured one
	heldByQuota   held = "quota"   // what the server tells is left
	heldByLearned held = "learned" // the rate learned from refusals
	heldByRamp    held = "ramp"    // calls begin again one by one after a pause
	heldByAtOnce  held = "at once" // calls at one time
)

// next says when a call may go, and what keeps it back until then.
func (p *pacer) next(now time.Time, a Ask) (v verdict, by held) {
	cost := p.cost(a)
	strictest := func(o verdict, what held) {
		if o.ok() {
			return
		}
		if v.ok() || o.wait > v.wait {
			v.wait, by = o.wait, what
		}
		v.answer = v.answer || o.answer
	}
	if n, next := p.lately(now); p.ramp > 0 && n >= p.ramp {
		strictest(verdict{wait: next, answer: true}, heldByRamp)
	}
	if most := p.mostAtOnce(now); most > 0 && p.underWay(0) >= most {
		strictest(verdict{answer: true}, heldByAtOnce)
	}
	if p.limiter != nil {
		if lack := 1 - p.limiter.TokensAt(now); lack > 1e-9 {
			strictest(verdict{wait: lasting(lack / p.settings.Rate)}, heldByRate)
		}
	}
	for _, m := range p.mirrors {
		if !m.told.Concurrent && p.binds(now, m, a.Shape) {
			strictest(m.next(now, cost, p.calls, p.settings.Share, p.trip, p.mute(a.Shape)), heldByQuota)
		}
	}
	strictest(p.learned.next(now, cost), heldByLearned)
	return v, by
}

// within is how many calls may go within a time, as far as that is known now; negative for any number.
func (p *pacer) within(now time.Time, d time.Duration, a Ask) float64 {
	if shapes := p.shapes[a.Kind]; a.Shape == "" && len(shapes) > 0 {
		best := 0.0
		for _, shape := range shapes {
			if shape == "" {
				continue
			}
			a.Shape = shape
			n := p.within(now, d, a)
			if n < 0 {
				return n
			}
			best = max(best, n)
		}
		if a.Shape != "" {
			return best
		}
	}
	most := -1.0
	bound := func(n float64) {
		if n = max(n, 0); most < 0 || n < most {
			most = n
		}
	}
	cost := p.cost(a)
	if p.limiter != nil {
		bound(p.limiter.TokensAt(now) + p.settings.Rate*d.Seconds())
	}
	for _, m := range p.mirrors {
		if !m.told.Concurrent && p.binds(now, m, a.Shape) {
			left := m.left(now, p.calls)
			bound((left - m.kept(now, left, p.settings.Share, p.trip) + m.restore*d.Seconds()) / cost)
		}
	}
	if p.learned.known > 0 {
		bound((p.learned.level + p.learned.allowed()*d.Seconds()) / cost)
	}
	if n := p.mostAtOnce(now); n > 0 {
		bound(float64(n))
	}
	if p.ramp > 0 {
		bound(float64(p.ramp))
	}
	return most
}

// mostAtOnce is how many calls may be under way at one time; 0 for any number.
func (p *pacer) mostAtOnce(now time.Time) int {
	most := 0
	if p.atOnce > 0 {
		if now.Sub(p.atOnceAt) >= atOnceEvery {
			p.atOnce++
			p.atOnceAt = now
		}
		most = max(int(p.atOnce), 1)
	}
	for _, m := range p.mirrors {
		if m.told.Concurrent && m.limit > 0 {
			if n := max(int(m.limit*(1-p.settings.Share)), 1); most == 0 || n < most {
				most = n
			}
		}
	}
	return most
}

// underWay counts the calls under way that left after one of them.
func (p *pacer) underWay(from uint64) (n int) {
	for _, f := range p.calls {
		if f.underWay() && f.seq > from {
			n++
		}
	}
	return n
}

// lately counts the calls under way that left since the start or a pause, and not so long ago that nobody waits for their answers any more.
// next is how long for the first of them is still waited for.
func (p *pacer) lately(now time.Time) (n int, next time.Duration) {
	for _, f := range p.calls {
		if age := now.Sub(f.sent); f.underWay() && f.seq > p.since && age < patience {
			if n++; n == 1 || patience-age < next {
				next = patience - age
			}
		}
	}
	return n, next
}

// best is next for a call of any shape that calls of its kind have had; who only looks has no shape.
func (p *pacer) best(now time.Time, a Ask) (v verdict, by held) {
	shapes := p.shapes[a.Kind]
	if a.Shape != "" || len(shapes) == 0 {
		return p.next(now, a)
	}
	for i, shape := range shapes {
		a.Shape = shape
		o, what := p.next(now, a)
		if o.ok() {
			return o, what
		}
		if i == 0 || o.wait < v.wait {
			v, by = o, what
		}
	}
	return v, by
}

// note keeps which shapes calls of a kind have.
func (p *pacer) note(a Ask) {
	if l := p.shapes[a.Kind]; len(l) < mostCosts && !slices.Contains(l, a.Shape) {
		p.shapes[a.Kind] = append(l, a.Shape)
	}
}

// take lets a call go now.
func (p *pacer) take(now time.Time, a Ask) *flight {
	f := &flight{kind: a.Kind, shape: a.Shape, cost: p.cost(a), sent: now}
	if p.limiter != nil {
		p.limiter.AllowN(now, 1)
	}
	for _, m := range p.mirrors {
		if m.told.Concurrent || !p.concerns(m, a.Shape) {
			continue
		}
		m.take(now, f.cost, p.calls, p.settings.Share, p.trip)
	}
	p.learned.take(now, f.cost)
	p.note(a)
	p.seq++
	f.seq = p.seq
	p.calls = append(p.calls, f)
	return f
}

// answered takes in an answer.
func (p *pacer) answered(now time.Time, f *flight, sig Signal) {
	f.ended = now
	if d := now.Sub(f.sent); p.trip == 0 {
		p.trip = d
	} else {
		p.trip += (d - p.trip) / 8
	}
	p.climb(f, sig)
	if !sig.Throttled {
		p.learned.accept(now, f)
	}
	p.learnCost(f, sig)
	p.listen(f, sig)
	for _, m := range p.mirrors {
		if !sig.Throttled && p.concerns(m, f.shape) {
			m.counted(f)
			if p.mute(f.shape) {
				m.untold += f.cost
			}
		}
	}
	for _, q := range sig.Quotas {
		if !sig.Throttled || !p.mute(f.shape) {
			p.told(q, f)
		}
	}
	p.forget(now)
}

// silence is answers in a row to calls of a shape that were served and told of no quota.
type silence struct {
	answers int
	from    time.Time // when the last answer came that told of one, or the first of these
	mute    bool
}

// listen notes whether a call that was served was told of a quota. Some servers tell of one in refusals alone, or to calls of some shapes: what
// they told once says nothing of what came since.
func (p *pacer) listen(f *flight, sig Signal) {
	s, known := p.quiet[f.shape]
	switch {
	case sig.Throttled || !sig.served() || !known && len(p.quiet) >= mostCosts:
		return
	case len(sig.Quotas) > 0 || !known:
		s = silence{from: f.ended}
	}
	if len(sig.Quotas) == 0 {
		s.answers++
	}
	s.mute = s.answers >= mutely && f.ended.Sub(s.from) >= muteAfter
	if p.quiet[f.shape] = s; !s.mute {
		return
	}
	for _, m := range p.mirrors {
		delete(m.shapes, f.shape)
	}
	p.mirrors = slices.DeleteFunc(p.mirrors, func(m *mirror) bool { return len(m.shapes) == 0 })
}

// mute reports whether answers to calls of a shape tell of no quota, but for refusals.
func (p *pacer) mute(shape string) bool { return p.quiet[shape].mute }

// binds reports whether a quota keeps calls of a shape back: of those whose answers tell nothing none that is over, since nobody learns by waiting for them.
func (p *pacer) binds(now time.Time, m *mirror, shape string) bool {
	return p.concerns(m, shape) && !(p.mute(shape) && m.over(now))
}

// climb lets more calls be under way after an answer, and any number once the server has told what is left.
func (p *pacer) climb(f *flight, sig Signal) {
	if p.ramp == 0 || f.seq <= p.since || !sig.served() || sig.Throttled {
		return
	}
	told := slices.ContainsFunc(sig.Quotas, func(q Quota) bool { return q.Known && !q.Concurrent })
	if p.ramp++; told || p.ramp > mostRamp {
		p.ramp = 0
	}
}

// learnCost keeps what calls of a shape take: quickly when it is more than was known, slowly when it is less.
func (p *pacer) learnCost(f *flight, sig Signal) {
	for _, q := range sig.Quotas {
		if q.Cost <= 0 && q.Asked <= 0 || q.Concurrent {
			continue
		}
		f.cost = q.Cost
		old, cost := p.costs[f.shape], max(q.Cost, q.Asked)
		switch {
		case old == 0 && len(p.costs) >= mostCosts:
		case cost >= old:
			p.costs[f.shape] = cost
		default:
			p.costs[f.shape] = old + (cost-old)/8
		}
	}
}

// told takes in what an answer says of one quota. A server that counts calls of several shapes apart may not name what it tells of: a
// quota with another limit, told of another shape, is another one, and so is one of which its answers tell what cannot be true of that of the others.
func (p *pacer) told(q Quota, f *flight) {
	if !q.Known && q.Window == 0 && !q.Concurrent {
		return // a limit over nobody knows what time
	}
	same := func(m *mirror) bool { return m.told.Scope == q.Scope && m.told.Concurrent == q.Concurrent }
	i := slices.IndexFunc(p.mirrors, func(m *mirror) bool { return same(m) && m.shapes[f.shape] })
	if i < 0 {
		i = slices.IndexFunc(p.mirrors, func(m *mirror) bool { return same(m) && (m.limit == q.Limit || q.Limit == 0) })
	}
	switch {
	case i >= 0:
	case len(p.mirrors) >= mostQuotas:
		return
	default:
		i = len(p.mirrors)
		p.mirrors = append(p.mirrors, &mirror{shapes: map[string]bool{}})
	}
	m := p.mirrors[i]
	if m.contradicts(q, f) && len(p.mirrors) < mostQuotas {
		delete(m.shapes, f.shape)
		delete(m.by, f.shape)
		m.apart = 0
		m = &mirror{shapes: map[string]bool{}}
		p.mirrors = append(p.mirrors, m)
	}
	if len(m.shapes) < mostCosts {
		m.shapes[f.shape] = true
	}
	m.hear(q, f)
}

// concerns reports whether calls of a shape are counted in a quota: those of a shape that no answer has told of yet, in all.
func (p *pacer) concerns(m *mirror, shape string) bool {
	return m.shapes[shape] || !slices.ContainsFunc(p.mirrors, func(o *mirror) bool { return o.shapes[shape] })
}

// forget drops calls that all newer answers count, and quotas that are not told any more.
func (p *pacer) forget(now time.Time) {
	p.mirrors = slices.DeleteFunc(p.mirrors, func(m *mirror) bool {
		return now.Sub(m.of.ended) > forgetAfter && (m.last.IsZero() || now.After(m.last)) && m.window < now.Sub(m.of.ended)
	})
	p.calls = slices.DeleteFunc(p.calls, func(f *flight) bool {
		if f.underWay() {
			return false
		}
		for _, m := range p.mirrors {
			if p.concerns(m, f.shape) && !f.before(&m.of) && f.seq != m.of.seq && now.Sub(f.ended) < time.Minute {
				return false
			}
		}
		return true
	})
}

// dropped forgets a call without an answer. What was not sent was not counted.
func (p *pacer) dropped(now time.Time, f *flight, sent bool) {
	if sent {
		f.ended = now
		for _, m := range p.mirrors {
			if p.concerns(m, f.shape) {
				m.counted(f)
			}
		}
		p.forget(now)
		return
	}
	p.calls = slices.DeleteFunc(p.calls, func(o *flight) bool { return o == f })
}

// refused takes in a refusal for quota; first says that it begins a pause.
func (p *pacer) refused(now time.Time, f *flight, sig Signal, first bool) {
	if sig.Concurrent {
		if under := float64(p.underWay(0)); first {
			p.atOnce, p.atOnceAt = max(min(math.Floor(under*below), under), 1), now
		}
		return
	}
	if !first || !p.foretold(now, f, sig) {
		p.learned.refuse(now, f, first)
	}
}

// foretold reports whether a quota that the server tells of accounts for a refusal: it was nearly used up. Else it has another one, of which it
// does not tell.
func (p *pacer) foretold(now time.Time, f *flight, sig Signal) bool {
	for _, q := range sig.Quotas {
		if !p.mute(f.shape) && q.Known && !q.Concurrent && q.Remaining < f.cost && !p.is(f, func(m *mirror) bool { return m.told.Scope == q.Scope && m.denied }) {
			return true
		}
	}
	return slices.ContainsFunc(p.mirrors, func(m *mirror) bool {
		return !m.told.Concurrent && !m.denied && p.binds(now, m, f.shape) && m.left(now, p.calls) <= max(m.kept(now, 0, p.settings.Share, p.trip), burstShare*m.limit)
	})
}

// is reports whether something holds of a quota that a call is counted in.
func (p *pacer) is(f *flight, what func(*mirror) bool) bool {
	return slices.ContainsFunc(p.mirrors, func(m *mirror) bool { return p.concerns(m, f.shape) && what(m) })
}

// unsure reports whether the pause that was reckoned from what an answer tells is not to be gone by: none of the quotas that are used up
// comes back when it is told to.
func (p *pacer) unsure(f *flight, sig Signal) bool {
	if !sig.Reckoned {
		return false
	}
	for _, q := range sig.Quotas {
		if q.Known && q.Remaining < 1 && !p.is(f, func(m *mirror) bool { return m.told.Scope == q.Scope && m.unsure() }) {
			return false
		}
	}
	return true
}

// reopened is told that a pause is over: calls begin again with one.
func (p *pacer) reopened(now time.Time) {
	p.ramp, p.since = 1, p.seq
	if p.limiter != nil {
		// What was saved up meanwhile must not go out at once.
		if surplus := int(p.limiter.TokensAt(now)) - 1; surplus > 0 {
			p.limiter.AllowN(now, surplus)
		}
	}
	p.learned.reopened(now)
}

// QuotaState is what a gate knows of one quota of its client.
type QuotaState struct {
	// Scope is as in Quota.
	Scope string
	// Limit and Left are in calls or the server's unit, as of now; Left has what is under way taken off. Limit is 0 when it is not known.
	Limit, Left float64
	// Resets is when the whole limit is there again; zero when that is not known, or when it fills like a bucket.
	Resets time.Time
	// Restore is how much comes back in each second, for a quota that fills like a bucket.
	Restore float64
	// Others is about how much others spend of it in each second, as far as it can be seen.
	Others float64
	// Concurrent means that it counts calls at one time.
	Concurrent bool
}

func (p *pacer) quotas(now time.Time) (out []QuotaState) {
	for _, m := range p.mirrors {
		s := QuotaState{Scope: m.told.Scope, Limit: m.limit, Left: max(m.left(now, p.calls), 0), Restore: m.restore, Others: m.others,
			Concurrent: m.told.Concurrent}
		if m.restore == 0 && m.last.After(now) {
			s.Resets = m.last.UTC()
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b QuotaState) int { return strings.Compare(a.Scope, b.Scope) })
	return out
}
