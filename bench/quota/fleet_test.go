package main

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"syncd/internal/quota"
)

// TestDaemonsAreMeasured plays some scenarios for seconds: one with a second daemon that takes over, and one in which a daemon comes back.
func TestDaemonsAreMeasured(t *testing.T) {
	if testing.Short() {
		t.Skip("the daemons are processes of their own")
	}
	var some []scenario
	for _, sc := range daemonScenarios() {
		if (sc.cast == restarted || sc.cast == handed) && sc.sort == quota.Bucket && sc.foreign == 0 {
			some = append(some, sc)
		}
	}
	short := timing{scale: 0.25, length: 500 * time.Millisecond, warm: 2 * time.Second, lasts: 1500 * time.Millisecond, rounds: 1}
	s := settings{daemons: short}
	samples := make([][]sample, len(some))
	if err := s.withDaemons(t.Context(), some, samples, io.Discard); err != nil {
		t.Fatal(err)
	}
	r := &report{settings: s, scenarios: some, samples: samples}
	var text bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.figures() {
		if f.WarmCalls == 0 || f.Calls == 0 || f.Silent <= 0 || f.Silent > nextWithin.Seconds() || !(f.Used > 0 && f.Used <= 100.0001) {
			t.Errorf("told %+v", f)
		}
	}
	for _, want := range []string{string(restarted), string(handed), "without a call", "with daemons: warm-up 2s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if strings.Contains(text.String(), "without daemons") || t.Failed() {
		t.Errorf("told of what was not played, or wrongly:\n%s", text.String())
	}
}

func TestDaemonsArePlayedWhenTheyAreAskedFor(t *testing.T) {
	all := len(daemonScenarios())
	for _, c := range []struct {
		args []string
		want int
	}{
		{nil, 0},
		{[]string{"--only", "window"}, 0},
		{[]string{"--only", "daemons"}, all},
		{[]string{"--only", "daemons, window"}, all / 2},
		{[]string{"--full"}, all},
	} {
		s, _, err := program.Parse(c.args, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		with := slices.DeleteFunc(s.chosen(), func(sc scenario) bool { return sc.group != fleets })
		if len(with) != c.want {
			t.Errorf("%q plays %d scenarios with daemons, want %d", c.args, len(with), c.want)
		}
	}
}
