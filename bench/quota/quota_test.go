package main

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"syncd/bench/internal/lab"
	"syncd/internal/quota"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestEachScenarioIsPlayedAndTold plays all for some two seconds, at rates that any machine keeps up with.
func TestEachScenarioIsPlayedAndTold(t *testing.T) {
	s := settings{timing: trial}
	r, err := s.measure(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var text, object bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(&object).Encode(r.JSON()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Figures []figures
		Goals   []lab.Check
		Machine map[string]float64
	}
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := len(scenarios()); len(got.Figures) != n || len(got.Goals) != 2*n || len(r.samples) != n {
		t.Fatalf("%d figures and %d goals of %d scenarios", len(got.Figures), len(got.Goals), n)
	}
	idle := map[string]bool{}
	for i, f := range got.Figures {
		sc := r.scenarios[i]
		if f.Calls+f.WarmCalls == 0 {
			idle[sc.String()] = true
		}
		if !(f.Used >= 0 && f.Used <= 100.0001) {
			t.Errorf("%s: %+v", sc, f)
		}
		if f.Server != sc.sort.String() || f.Scenario != string(sc.cast) || f.Shared != (sc.foreign > 0) || f.Group != sc.group {
			t.Errorf("%s is told as %+v", sc, f)
		}
		for _, want := range []string{sc.group, string(sc.cast), sc.sort.String(), sc.others()} {
			if !strings.Contains(text.String(), want) {
				t.Errorf("the table lacks %q", want)
			}
		}
	}
	// So short a time may be one pause, or one moment of a busy machine: in one of three plays each has calls.
	for range 2 {
		if len(idle) == 0 {
			break
		}
		again, err := s.measure(t.Context(), io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range again.figures() {
			if f.Calls+f.WarmCalls > 0 {
				delete(idle, again.scenarios[i].String())
			}
		}
	}
	for name := range idle {
		t.Errorf("%s: no call was made in three plays", name)
	}
	if got.Machine["processors"] == 0 || got.Machine["processors_used"] <= 0 {
		t.Errorf("the machine is told as %v", got.Machine)
	}
	if t.Failed() {
		t.Log(text.String())
	}
}

func TestAFigureThatIsMissedIsTold(t *testing.T) {
	sc := scenarios()[0]
	for name, c := range map[string]struct {
		sample sample
		missed bool
	}{
		"all is used":                         {sample{steady: quota.Counts{Allowed: 1000, Ours: 1000, Calls: 1000}}, false},
		"all is used that others left":        {sample{steady: quota.Counts{Allowed: 1000, Ours: 750, Others: 250, Calls: 750}}, false},
		"too little":                          {sample{steady: quota.Counts{Allowed: 1000, Ours: 980, Calls: 980}}, true},
		"one is refused":                      {sample{steady: quota.Counts{Allowed: 1000, Ours: 1000, Calls: 1001, Refused: 1}}, true},
		"no more than lay in a bucket before": {sample{steady: quota.Counts{Allowed: 1000, Ours: 1000, Calls: 1000}, drained: 50}, true},
		"nothing was called":                  {sample{}, true},
	} {
		r := &report{settings: settings{timing: trial}, scenarios: []scenario{sc}, samples: [][]sample{{c.sample}}}
		var text bytes.Buffer
		if err := r.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if r.Missed() != c.missed || strings.Contains(text.String(), "MISSED") != c.missed {
			t.Errorf("%s: missed %v, want %v\n%s", name, r.Missed(), c.missed, text.String())
		}
	}
}

func TestMediansAndTheWorstOfSeveralRoundsAreTold(t *testing.T) {
	of := func(ours float64, refused int) sample {
		return sample{steady: quota.Counts{Allowed: 1000, Ours: ours, Calls: 1000, Refused: refused}}
	}
	r := &report{scenarios: scenarios()[:1], samples: [][]sample{{of(1000, 0), of(900, 7), of(990, 2)}}}
	f := r.figures()[0]
	if f.Used != 99 || f.LeastUsed != 90 || f.Refused != 2 || f.Most != 7 {
		t.Errorf("told %+v", f)
	}
}

func TestTheCommandLine(t *testing.T) {
	for _, args := range [][]string{{"--only", "nothing"}, {"more"}, {"--rounds", "1"}} {
		if _, _, err := program.Parse(args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	s, asJSON, err := program.Parse([]string{"--only", "window", "--json"}, io.Discard)
	if err != nil || !asJSON || slices.ContainsFunc(s.chosen(), func(sc scenario) bool { return sc.sort != quota.Window }) {
		t.Errorf("chosen %v, %v", s.chosen(), err)
	}
	if d := short.warm + short.lasts; d > 42*time.Second {
		t.Errorf("the usual run takes %s", d)
	}
}
