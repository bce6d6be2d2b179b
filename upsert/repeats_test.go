package upsert_test

import (
	"testing"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

func TestOnlyAnUpsertIsSimplyRepeated(t *testing.T) {
	for _, c := range []struct {
		strategy connectors.Strategy
		change   func(*jobs.Flow)
		options  faketarget.Options
		want     bool
	}{
		{strategy: connectors.NaturalKey, want: true},
		{strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.CreateOnly = true }},
		{strategy: connectors.Lookup},
		{strategy: connectors.AtMostOnce},
	} {
		f := defaults(c.strategy)
		if c.change != nil {
			c.change(f)
		}
		w, err := newWorld(f, c.options, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.s.Repeats(); got != c.want {
			t.Errorf("%s, create only %v: repeats is %v, want %v", c.strategy, f.CreateOnly, got, c.want)
		}
	}
}
