package postgres

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// at is a second of the story, in microseconds since 1970.
func at(second int) int64 { return day.Add(time.Duration(second) * time.Second).UnixMicro() }

func look(second int, open ...int) *horizon {
	h := &horizon{clock: day.Add(time.Duration(second) * time.Second), sure: true, next: 1000, xmin: 1000}
	for _, o := range open {
		h.open = append(h.open, at(o))
	}
	return h
}

func place(m *mark) string {
	if m == nil {
		return "the first row"
	}
	s := fmt.Sprint(time.UnixMicro(m.V).Sub(day).Round(time.Millisecond))
	if m.ID != nil {
		s += " after " + *m.ID
	}
	return s
}

func TestRoundsByTimeBeginAsFarBackAsALateRowCanLie(t *testing.T) {
	id := "x"
	for name, c := range map[string]struct {
		overlap time.Duration
		first   *horizon // of the round before
		upto    int      // the newest stamp seen then
		now     *horizon
		want    string
	}{
		"quiet":                              {0, look(1000), 10, look(1060), "10s after x"},
		"quiet, with overlap":                {5 * time.Minute, look(1000), 10, look(1060), "10s after x"},
		"busy":                               {0, look(1000), 999, look(1060), "16m38s"},
		"busy, with overlap":                 {5 * time.Minute, look(1000), 999, look(1060), "12m38s"},
		"a transaction runs on":              {0, look(1000, 400), 999, look(1060, 400), "16m38s"},
		"it has ended":                       {0, look(1000, 400), 999, look(1060), "6m38s"},
		"one of two has ended":               {0, look(1000, 100, 400), 999, look(1060, 100), "6m38s"},
		"one of two that began together":     {0, look(1000, 400, 400), 999, look(1060, 400), "6m38s"},
		"others have begun":                  {0, look(1000, 400), 999, look(1060, 400, 1010, 1050), "16m38s"},
		"a stamp from the future":            {0, look(1000), 9999, look(1060), "16m38s"},
		"long since the last round":          {5 * time.Minute, look(1000), 999, look(9000), "16m38s"},
		"the one that ended began long ago ": {5 * time.Minute, look(1000, 990), 999, look(1003), "11m41s"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &position{Order: byTime}
			p.begin(c.first, c.overlap)
			p.seen(mark{V: at(c.upto), ID: &id})
			p.begin(c.now, c.overlap)
			if got := place(p.At); got != c.want {
				t.Errorf("begins at %s, want %s", got, c.want)
			}
		})
	}
}

func TestMoreTransactionsThanTheCursorHoldsLoseNothing(t *testing.T) {
	id := "x"
	p := &position{Order: byTime}
	h := look(1000)
	for i := range 3 * maxOpen {
		h.open = append(h.open, at(0)+int64(i)*1000)
	}
	p.begin(h, 0)
	p.seen(mark{V: at(999), ID: &id})
	if raw := p.write(); len(raw) > 16<<10 {
		t.Errorf("a cursor of %d bytes", len(raw))
	}
	now := look(1060)
	now.open = h.open[:2*maxOpen] // the last to begin have ended
	p.begin(now, 0)
	if p.At.V > h.open[2*maxOpen] {
		t.Errorf("begins at %s", place(p.At))
	}
}

func TestRoundsByNumberBeginWhereNumbersStoodThen(t *testing.T) {
	p := &position{Order: byNumber}
	p.begin(look(1000), 0)
	p.seen(mark{V: 50})
	p.begin(look(1010), 0) // 50 was not known at 1000
	if p.At != nil {
		t.Errorf("begins after %d", p.At.V)
	}
	p.seen(mark{V: 60})
	p.begin(look(1020, 1005), 0)
	if p.At != nil {
		t.Errorf("begins after %d", p.At.V)
	}
	p.seen(mark{V: 70})
	p.begin(look(1030, 1005), 0)
	if p.At == nil || p.At.V != 50 {
		t.Errorf("begins at %+v, want after what was seen at 1010", p.At)
	}
	p.seen(mark{V: 80})
	p.begin(look(1040), 0) // the one of 1005 has ended
	if p.At != nil {
		t.Errorf("begins after %d", p.At.V)
	}
	p.seen(mark{V: 90})
	p.begin(look(1050), 0)
	if p.At == nil || p.At.V != 70 {
		t.Errorf("begins at %+v, want after what was seen at 1030", p.At)
	}
}

func TestCursorOfNumbersStaysSmall(t *testing.T) {
	p := &position{Order: byNumber}
	for i := range 10_000 {
		p.begin(look(10*i, 5), time.Hour) // one transaction never ends
		p.seen(mark{V: int64(i)})
	}
	if raw := p.write(); len(raw) > 8<<10 {
		t.Errorf("a cursor of %d bytes", len(raw))
	}
	if n := len(p.Samples); n > maxSamples || p.Samples[0].At > at(20) {
		t.Errorf("%d samples, the first of %d", n, p.Samples[0].At)
	}
}

func TestRoundBeginsAnewOnlyOnNewGround(t *testing.T) {
	id := "x"
	p := &position{Order: byTime}
	p.begin(look(0), time.Minute)
	p.seen(mark{V: at(-5000), ID: &id})
	if p.renew(look(59).clock, time.Minute) || !p.renew(look(61).clock, time.Minute) {
		t.Error("a first reading begins anew after a minute, not before")
	}
	p.begin(look(61), time.Minute)
	if got := place(p.At); got != "-1h23m20s after x" {
		t.Errorf("goes on at %s", got)
	}
	p.seen(mark{V: at(60), ID: &id})
	p.begin(look(100), time.Minute)
	p.seen(mark{V: at(30), ID: &id})
	if p.renew(look(1000).clock, time.Minute) {
		t.Error("begins anew on its way back to where it was, where it might never get to")
	}
}

// The database of this property has transactions that stamp one row when they begin, or draw its number then, and commit at some later step; rounds are
// read at any time. A row that is committed must be read by the round after, whatever runs beside.
func TestNoRowIsLostWhateverOverlaps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type tx struct {
			start   int
			version int64
			id      string
			ended   bool
			seen    bool
		}
		o := rapid.SampledFrom([]order{byTime, byNumber}).Draw(t, "order")
		p := &position{Format: 1, Order: o}
		var all []*tx
		now, number := 0, int64(0)
		horizonNow := func() *horizon {
			h := look(now)
			for _, x := range all {
				if !x.ended {
					h.open = append(h.open, at(x.start))
				}
			}
			slices.Sort(h.open)
			return h
		}
		readRound := func() {
			p.begin(horizonNow(), 0)
			rows := slices.Clone(all)
			slices.SortFunc(rows, func(a, b *tx) int {
				if a.version != b.version {
					return int(min(max(a.version-b.version, -1), 1))
				}
				return strings.Compare(a.id, b.id)
			})
			start := p.At
			for _, x := range rows {
				after := start == nil || x.version > start.V || x.version == start.V && (start.ID == nil || x.id > *start.ID)
				if x.ended && after {
					x.seen = true
					p.seen(mark{V: x.version, ID: &x.id})
				}
			}
			p.Under = false
			raw := p.write()
			p = &position{}
			if err := json.Unmarshal(raw, p); err != nil {
				t.Fatal(err)
			}
			for _, x := range all {
				if x.ended && !x.seen {
					t.Fatalf("the row of the transaction that began at %d is lost; cursor %s", x.start, raw)
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.IntRange(0, 5).Draw(t, "seconds")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				number++
				x := &tx{start: now, version: at(now), id: fmt.Sprintf("%03d", len(all))}
				if o == byNumber {
					x.version = number
				}
				all = append(all, x)
			case 2:
				if len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "ends")].ended = true
				}
			case 3:
				readRound()
			}
		}
		readRound()
	})
}

func TestEndedCountsEqualStarts(t *testing.T) {
	for _, c := range []struct{ before, now, want []int64 }{
		{nil, nil, nil}, {[]int64{1, 2, 3}, []int64{2}, []int64{1, 3}}, {[]int64{1, 1, 2}, []int64{1, 2}, []int64{1}}, {[]int64{5}, []int64{1, 9}, []int64{5}}, {[]int64{1, 2}, []int64{1, 2, 3}, nil},
	} {
		if got := ended(c.before, c.now); !slices.Equal(got, c.want) {
			t.Errorf("ended(%v, %v) = %v, want %v", c.before, c.now, got, c.want)
		}
	}
}

func TestNumbersOfTransactionsAreMadeWhole(t *testing.T) {
	for _, c := range []struct{ next, x, want int64 }{
		{1000, 990, 990}, {1000, 1000, 1000}, {1000, 1001, 1001}, {5<<32 + 10, 4294967290, 5<<32 - 6}, {5<<32 - 3, 4294967294, 5<<32 - 2}, {5<<32 - 3, 2, 5<<32 + 2},
	} {
		if got := (&horizon{next: c.next}).full(c.x); got != c.want {
			t.Errorf("full(%d) with next %d = %d, want %d", c.x, c.next, got, c.want)
		}
	}
}
