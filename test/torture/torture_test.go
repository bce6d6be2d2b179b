package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	killsPerPoint = flag.Int("per-point", 3, "how often the daemon is killed at each point")
	ofCommands    = flag.Int("commands", 1, "how often a command is killed at each point")
	otherFaults   = flag.Int("faults", 1, "how often each other fault happens")
)

// TestKilledDaemonLosesAndDoublesNothing prints its seed: the same seed has the same things go wrong, as far as the moment of a kill lets
// them. Every point must be reached, or nothing is proven.
func TestKilledDaemonLosesAndDoublesNothing(t *testing.T) {
	binary, err := build(t.Context(), t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"sqlite", "postgres"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			o := options{engine: engine, abreast: 4, perPoint: *killsPerPoint, commands: *ofCommands, faults: *otherFaults, seed: 1 + rand.Uint64N(1_000_000)}
			if testing.Short() {
				o.kills, o.perPoint, o.commands, o.faults = 20, 0, 0, 0
			}
			t.Logf("seed %d", o.seed)
			rows, err := o.run(t.Context(), passable(t), binary, t.Logf)
			var table strings.Builder
			var ls []line
			for _, r := range rows {
				ls = append(ls, r.line(o.command(r)))
			}
			if err := printTable(&table, ls); err != nil {
				t.Fatal(err)
			}
			t.Log("\n" + table.String())
			if err != nil {
				t.Fatal(err)
			}
			if err := verdict(rows); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestLedgerSeesWhatIsWrong(t *testing.T) {
	begun := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	at := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Second) }
	states := []state{{1, "a", at(1)}, {2, "b", at(2)}, {3, "c", at(3)}}
	for name, c := range map[string]struct {
		guarded bool
		effects []effect
		want    []string // at a time when nothing is under way any more
	}{
		"all is well":              {effects: []effect{{at(1), true, "1", 1, "a"}, {at(4), false, "1", 3, "c"}}},
		"never there":              {want: []string{lost}},
		"the newest is missing":    {effects: []effect{{at(1), true, "1", 2, "b"}}, want: []string{lost}},
		"another content":          {effects: []effect{{at(1), true, "1", 3, "b"}}, want: []string{lost}},
		"created twice":            {effects: []effect{{at(1), true, "1", 3, "c"}, {at(2), true, "2", 3, "c"}}, want: []string{doubled}},
		"two effects of a state":   {effects: []effect{{at(1), true, "1", 3, "c"}, {at(2), false, "1", 3, "c"}}, want: []string{doubled}},
		"nobody had that version":  {effects: []effect{{at(1), true, "1", 9, "x"}, {at(2), false, "1", 3, "c"}}, want: []string{doubled}},
		"back, and it stays so":    {effects: []effect{{at(1), true, "1", 3, "c"}, {at(2), false, "1", 2, "b"}}, want: []string{stale}},
		"back, and mended":         {effects: []effect{{at(1), true, "1", 2, "b"}, {at(2), false, "1", 1, "a"}, {at(3), false, "1", 3, "c"}}},
		"back in spite of a guard": {true, []effect{{at(1), true, "1", 2, "b"}, {at(2), false, "1", 1, "a"}, {at(3), false, "1", 3, "c"}}, []string{stale}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger("orders", c.guarded)
			for _, s := range states {
				l.said("1", s)
			}
			for _, e := range c.effects {
				l.did("1", e)
			}
			var got []string
			for _, f := range l.judge(true) {
				got = append(got, f.what)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the ledger finds %v, want %v", l.judge(true), c.want)
			}
			for _, f := range l.judge(false) {
				if f.what == lost && f.why == "it never arrived" {
					t.Errorf("while things are under way the ledger finds %s", f)
				}
			}
		})
	}
}

func TestLedgerSeesAnEventThatOvertook(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		order []int64 // of the events of group 1, by version, as they are written
		want  []string
	}{
		"in order":  {[]int64{1, 2, 3}, nil},
		"overtaken": {[]int64{1, 3, 2}, []string{stale}},
		"twice":     {[]int64{1, 2, 2, 3}, []string{doubled}},
		"left out":  {[]int64{1, 3}, []string{lost}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger("movements", false)
			l.ordered = true
			for v := int64(1); v <= 3; v++ {
				l.said(fmt.Sprint(v), state{v, "1 in 1", at})
			}
			l.said("other", state{9, "1 in 2", at})
			l.did("other", effect{at, true, "0", 9, "1 in 2"})
			for i, v := range c.order {
				l.did(fmt.Sprint(v), effect{at.Add(time.Duration(i) * time.Second), true, fmt.Sprint(i), v, "1 in 1"})
			}
			var got []string
			for _, f := range l.judge(true) {
				got = append(got, f.what)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("the ledger finds %v, want %v", l.judge(true), c.want)
			}
		})
	}
}

func TestERPKnowsTheKeysOfCreates(t *testing.T) {
	e, err := newERP(1)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.close() }()
	e.beCalm(true)
	l := newLedger("payments", false)
	e.keepKeyed("payments", l)
	post := func(key, body string) string {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, e.url+"/payments", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", key)
		a, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = a.Body.Close() }()
		text, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(a.StatusCode, " ", strings.TrimSpace(string(text)))
	}
	first := post("k", `{"ref":"Y-1","rev":1}`)
	if again := post("k", `{"ref":"Y-1","rev":1}`); again != first || !strings.HasPrefix(first, "201 ") {
		t.Errorf("answered %s and then %s", first, again)
	}
	if _, effects := l.counts(); effects != 1 {
		t.Errorf("%d effects of one create", effects)
	}
	if other := post("k", `{"ref":"Y-1","rev":2}`); !strings.HasPrefix(other, "422 ") || len(l.judge(false)) == 0 {
		t.Errorf("another body under the key is answered with %s, and the ledger finds %v", other, l.judge(false))
	}
	e.be(failAfter)
	if failed := post("l", `{"ref":"Y-2","rev":1}`); !strings.HasPrefix(failed, "500 ") {
		t.Errorf("answered %s", failed)
	}
	e.be(asUsual)
	if again := post("l", `{"ref":"Y-2","rev":1}`); !strings.HasPrefix(again, "201 ") {
		t.Errorf("after a failure the key is answered with %s", again)
	}
}

func TestRunThatDidNotReachAPointProvesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		rows []*row
		ok   bool
	}{
		"nothing was done": {nil, false},
		"never reached":    {[]*row{{fault: "x", planned: 1}}, false},
		"reached too few":  {[]*row{{fault: "x", planned: 2, cycles: 1}}, false},
		"reached":          {[]*row{{fault: "x", planned: 2, cycles: 2}}, true},
		"lost":             {[]*row{{fault: "x", cycles: 1, lost: 1}}, false},
		"doubled":          {[]*row{{fault: "x", cycles: 1, doubled: 1}}, false},
		"stale":            {[]*row{{fault: "x", cycles: 1, stale: 1}}, false},
	} {
		if err := verdict(c.rows); (err == nil) != c.ok {
			t.Errorf("%s: the verdict is %v", name, err)
		}
	}
}

func TestWhatGoesWrongIsBookedToTheFaultOfThatTime(t *testing.T) {
	begun := time.Now()
	a, b := &row{fault: "a"}, &row{fault: "b"}
	s := &session{say: t.Logf, cycles: []cycle{{a, begun}, {b, begun.Add(time.Second)}}}
	f := finding{what: doubled, flow: "orders", key: "1", at: begun.Add(1500 * time.Millisecond)}
	s.book(f)
	s.book(f)
	s.book(finding{what: lost, flow: "orders", key: "2", at: begun.Add(time.Millisecond)})
	s.book(finding{what: stale, flow: "orders", key: "3", at: begun.Add(-time.Second)})
	if a.lost != 1 || a.stale != 1 || a.doubled != 0 || b.doubled != 1 || b.lost != 0 {
		t.Errorf("booked %+v and %+v", a, b)
	}
}

func TestKillsAreSpreadAsAskedFor(t *testing.T) {
	for _, c := range []struct{ kills, perPoint, want int }{{20, 0, 20}, {0, 2, 0}, {1000, 2, 1000}} {
		o := options{engine: "sqlite", kills: c.kills, perPoint: c.perPoint, commands: c.perPoint}
		got, points := 0, 0
		for _, r := range o.common(rand.New(rand.NewPCG(1, 1))) {
			got += r.planned
			if r.kill {
				points++
			}
			if r.kill && r.planned < c.perPoint {
				t.Errorf("%s is planned %d times, with --per-point %d", r.fault, r.planned, c.perPoint)
			}
		}
		if c.want == 0 {
			c.want = points * c.perPoint
		}
		if got != c.want {
			t.Errorf("with --kills %d --per-point %d there are %d", c.kills, c.perPoint, got)
		}
	}
}

func TestRecoveryIsTheTimeThatNineteenOfTwentyKeep(t *testing.T) {
	var ds []time.Duration
	if got := p95(ds); got != 0 {
		t.Errorf("of none it is %s", got)
	}
	for n := range 20 {
		ds = append(ds, time.Duration(20-n))
	}
	if got := p95(ds); got != 19 {
		t.Errorf("of 1 to 20 it is %d", got)
	}
	if got := p95(ds[:1]); got != 20 {
		t.Errorf("of one it is %d", got)
	}
}

// passable is a folder that another user can pass through: a database server does not run as root.
func passable(t *testing.T) string {
	t.Helper()
	dir, err := workFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
