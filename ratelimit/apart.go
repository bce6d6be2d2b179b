package ratelimit

import "time"

// word is what an answer told of a quota over a window.
type word struct {
	remaining   float64
	first, last time.Time // between which it is whole again
	ended       time.Time // when it arrived
}

const (
	// surelyApart is after how many answers in a row that contradict those to calls of
	// other shapes a shape is taken as counted apart.
	surelyApart = 3
	// nearby is how close together two answers are compared: others spend meanwhile, too.
	nearby = time.Second
)

// contradicts takes in what an answer tells, and reports whether calls of its shape are
// counted apart from the others whose answers tell this quota: answer after answer goes on
// where the last one of its own shape was, and cannot be true beside those of the others,
// for it ends at another time, or has more left where nothing comes back. A quota that is
// taken for two by mistake is kept to all the same: what the one takes is seen in the other.
func (m *mirror) contradicts(q Quota, f *flight) bool {
	if !q.Known || q.Reset == 0 || q.Concurrent || m.denied || len(m.by) >= mostCosts && m.by[f.shape] == (word{}) {
		return false
	}
	is := word{remaining: q.Remaining, ended: f.ended}
	is.first, is.last = bounds(q, f)
	own, known := m.by[f.shape]
	var other word
	for shape, w := range m.by {
		if shape != f.shape && w.ended.After(other.ended) && !w.ended.After(f.sent) {
			other = w
		}
	}
	if m.by == nil {
		m.by = map[string]word{}
	}
	m.by[f.shape] = is
	if !known || other.ended.IsZero() || f.sent.Sub(other.ended) > nearby || !f.sent.After(own.ended) {
		return false
	}
	few := max(2, q.Limit/20)
	switch goesOn := is.meets(own) && is.remaining <= own.remaining; {
	case goesOn && (!is.meets(other) || is.remaining > other.remaining+few):
		m.apart++
	case is.meets(other) && is.remaining <= other.remaining && is.remaining > other.remaining-few:
		m.apart = 0
	}
	return m.apart >= surelyApart
}

// meets reports whether two answers may tell of the same end.
func (w word) meets(o word) bool { return !w.first.After(o.last) && !o.first.After(w.last) }
