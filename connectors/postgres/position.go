package postgres

import (
	"encoding/json"
	"fmt"
	"math"
	"time"
)

// order is what a stream is read in the order of.
type order string

const (
	byTime   order = "time"   // a timestamp, then the id
	byNumber order = "number" // a number, then the id; for an outbox without xid, its events' numbers alone
	byXID    order = "xid"    // the writing transaction, then the event's number
)

// mark is a place in the order: after the row with this version and id. A mark without id is before all rows of its version.
type mark struct {
	V  int64   `json:"v"` // microseconds since 1970, a number, or an xid8
	ID *string `json:"id,omitempty"`
}

// Infinite times are the ends of the range.
const (
	minusInfinity = math.MinInt64
	plusInfinity  = math.MaxInt64
)

// sample says up to which version rows had been seen at a time.
type sample struct {
	At   int64 `json:"at"` // microseconds since 1970, by the server's clock
	Upto mark  `json:"to"`
}

// position is the cursor of a stream.
//
// A row can become visible after rows with greater versions: its version was given when its transaction began, as now() is, or when it drew a
// number, and others committed meanwhile. Reading on from the greatest version seen would miss it. So a stream is read in rounds: each
// begins as far back as such a row can lie (see back), and goes on to the end. On the way to the place where the last round ended, only rows are
// events that were written by a transaction which had not ended when that round began; a table tells that by its xmin. For a view it cannot be
// told, so that all of them come again, and the journal drops them.
type position struct {
	Format int    `json:"format"`
	Order  order  `json:"order"`
	Of     string `json:"of"` // the table and columns that it is a position in
	// From drops earlier changes, in microseconds since 1970; nil for none.
	From *int64 `json:"from,omitempty"`
	// Upto is the greatest place seen, and Old what it was when the round began.
	Upto *mark `json:"upto,omitempty"`
	Old  *mark `json:"old,omitempty"`
	// Under says that a round is under way, and At where it stands; nil is before the first row.
	Under bool  `json:"under,omitempty"`
	At    *mark `json:"at,omitempty"`
	// Dense says that on the way to Old many rows are events, so that it does not pay to look at many at once.
	Dense bool `json:"dense,omitempty"`
	// Round tells of the beginning of the last round, Xmin of the one before.
	Round   round    `json:"round"`
	Xmin    int64    `json:"xmin,omitempty"`
	Samples []sample `json:"samples,omitempty"`
	// Nulls is where the reading of rows without version stands: "" at its beginning, nil when it is not under way.
	Nulls     *string `json:"nulls,omitempty"`
	NullsAt   int64   `json:"nulls_at,omitempty"` // when it last ended
	NullsXmin int64   `json:"nulls_xmin,omitempty"`
	// Server is the server and database that was read last; "" where that is not told. Drawn is what the sequence of the order's numbers was at, when it was last seen
	// at or above all that was read. Top is the greatest place in the table while it is below Upto.
	Server string `json:"server,omitempty"`
	Drawn  int64  `json:"drawn,omitempty"`
	Top    *mark  `json:"top,omitempty"`
}

// round is what is kept of the beginning of a round.
type round struct {
	At   int64   `json:"at,omitempty"`   // by the server's clock, in microseconds since 1970
	Xmin int64   `json:"xmin,omitempty"` // below it, every transaction had ended
	Open []int64 `json:"open,omitempty"` // starts of the transactions that ran
}

const (
	// maxOpen and maxSamples bound the cursor. What is left out leads to looking back further than need be, never less far.
	maxOpen    = 400
	maxSamples = 64
	// nullsEvery is how often rows without a version are looked through.
	nullsEvery = 10 * time.Minute
	// maxAge bounds, in transactions, how old an xmin can be to be compared with; the server's counter for rows goes round at some 2 billion.
	maxAge = 1_000_000_000
	// maxOverlap is the longest overlap that can be configured.
	maxOverlap = 24 * time.Hour
)

func readPosition(raw json.RawMessage, o order, of string) (*position, error) {
	p := &position{}
	if err := json.Unmarshal(raw, p); err != nil {
		return nil, fmt.Errorf("the cursor cannot be read: %w", err)
	}
	if p.Format != 1 {
		return nil, fmt.Errorf("the cursor is of format %d, which this syncd does not know", p.Format)
	}
	if p.Order != o || p.Of != of {
		return nil, fmt.Errorf("the cursor is a place in %s, and the stream now reads %s", p.Of, of)
	}
	return p, nil
}

func (p *position) write() json.RawMessage {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("postgres: write a cursor of plain fields: %v", err))
	}
	return raw
}

// begin starts a round, and sets At to the place that it starts at; nil stands for the very first row.
func (p *position) begin(h *horizon, overlap time.Duration) {
	start := p.Upto
	if p.Round.At != 0 && p.Upto != nil {
		start = p.before(p.back(h, overlap))
	}
	if p.Order == byTime && p.From != nil && (start == nil || start.V < *p.From) {
		start = &mark{V: *p.From}
	}
	p.Under, p.At, p.Old, p.Xmin = true, start, p.Upto, p.Round.Xmin
	p.Round = round{At: h.clock.UnixMicro(), Xmin: h.xmin}
	if h.sure {
		p.Round.Open = oldest(h.open)
	}
	if p.Order == byNumber && p.Upto != nil {
		p.Samples = thin(append(p.Samples, sample{p.Round.At, *p.Upto}), h)
	}
}

// back is the time before which no transaction began whose rows may have become visible since the last round. It is the earliest of
//   - overlap ago, for versions that come from other clocks, and where running transactions cannot be seen;
//   - the beginning of the last round, for transactions that have begun since;
//   - the starts of the transactions that ran then and have ended since. Those that run on are waited for, so that one of hours costs a single look back
//     when it ends, and not one a poll.
func (p *position) back(h *horizon, overlap time.Duration) int64 {
	b := min(h.clock.Add(-overlap).UnixMicro(), p.Round.At)
	for _, x := range ended(p.Round.Open, h.open) {
		b = min(b, x)
	}
	if n := len(p.Round.Open); n == maxOpen {
		b = min(b, p.Round.Open[n-1]) // those that were left out began later than this one
	}
	return b - settle.Microseconds()
}

// before is the place to read from so as to see all rows whose transactions began at a time or later.
func (p *position) before(t int64) *mark {
	if p.Order == byTime {
		if p.Upto.V < t {
			return p.Upto
		}
		return &mark{V: t}
	}
	// A number that is drawn after t is greater than all that had been seen by then.
	var at *mark
	for i := range p.Samples {
		if p.Samples[i].At <= t {
			at = &p.Samples[i].Upto
		}
	}
	return at
}

// oldest keeps as many starts of transactions as the cursor has room for.
func oldest(open []int64) []int64 {
	if len(open) > maxOpen {
		open = open[:maxOpen:maxOpen]
	}
	return open
}

// thin drops samples that no later round needs: those before the last one that is older than the longest overlap and every transaction; and of what is
// left, where there are too many, every other one.
func thin(samples []sample, h *horizon) []sample {
	old := h.clock.Add(-maxOverlap - 2*settle).UnixMicro()
	if len(h.open) > 0 {
		old = min(old, h.open[0]-2*settle.Microseconds())
	}
	for len(samples) > 1 && samples[1].At <= old {
		samples = samples[1:]
	}
	for len(samples) > maxSamples {
		var kept []sample
		for i, s := range samples {
			if i%2 == 0 || i >= len(samples)-4 {
				kept = append(kept, s)
			}
		}
		samples = kept
	}
	return samples
}

// seen moves on to a row.
func (p *position) seen(m mark) {
	p.At = &m
	if p.Upto == nil || p.Upto.V <= m.V {
		p.Upto = &m
	}
}

// renew reports whether the round has lasted so long that it should begin anew, so that rows that became visible behind it do not wait for its end. While it is
// still on its way to where the last one ended it goes on, or it might never get there.
func (p *position) renew(clock time.Time, overlap time.Duration) bool {
	past := p.Under && p.At != nil && (p.Old == nil || p.At.V > p.Old.V)
	return past && clock.UnixMicro()-p.Round.At > max(overlap, time.Minute).Microseconds()
}

// comparable reports whether rows can be told by their xmin to have been written since a snapshot.
func comparable(xmin int64, h *horizon) bool {
	return xmin > 0 && xmin <= h.next && h.next-xmin < maxAge
}

// nullsDue reports whether rows without a version are to be looked through.
func (p *position) nullsDue(clock time.Time) bool {
	return p.NullsAt == 0 || clock.UnixMicro()-p.NullsAt >= nullsEvery.Microseconds()
}
