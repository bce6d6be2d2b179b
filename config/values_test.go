package config

import (
	"math"
	"testing"
	"time"
)

func TestRates(t *testing.T) {
	for _, c := range []struct {
		text string
		want Rate
		per  float64
	}{
		{"10/s", Rate{10, time.Second}, 10},
		{"100/m", Rate{100, time.Minute}, 100.0 / 60},
		{"0.5/s", Rate{0.5, time.Second}, 0.5},
		{"5000/h", Rate{5000, time.Hour}, 5000.0 / 3600},
		{"1 / d", Rate{1, 24 * time.Hour}, 1.0 / 86400},
		{"1000000/s", Rate{1e6, time.Second}, 1e6},
	} {
		var r Rate
		if err := r.Set(c.text); err != nil || r != c.want || math.Abs(r.PerSecond()-c.per) > 1e-9 {
			t.Errorf("%s became %+v, %v", c.text, r, err)
		}
	}
	for text, want := range map[string]string{
		"":               errRate.Error(),
		"10":             errRate.Error(),
		"/s":             errRate.Error(),
		"10/":            errRate.Error(),
		"1e3/s":          errRate.Error(),
		".5/s":           errRate.Error(),
		"NaN/s":          errRate.Error(),
		"10/10s":         errRate.Error(),
		"10/sec":         "the time of a rate is s, m, h or d, for example 10/s",
		"10/ms":          "the time of a rate is s, m, h or d, for example 10/s",
		"-1/s":           "a rate cannot be negative",
		"0/s":            "a rate of 0 would stop the client; take the key out for no limit of your own, or pause the client",
		"0.0/m":          "a rate of 0 would stop the client; take the key out for no limit of your own, or pause the client",
		"1000001/s":      "a rate of more than 1000000 calls a second; take the key out for no limit of your own",
		"0.01/d":         "a rate of less than one call in eleven days; pause the client instead",
		"0.0000000000/s": "a rate of 0 would stop the client; take the key out for no limit of your own, or pause the client",
	} {
		var r Rate
		if err := r.Set(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
		if !r.IsZero() || !math.IsInf(r.PerSecond(), 1) {
			t.Errorf("%q left %+v", text, r)
		}
	}
}

func TestRatesAndStartsAreWrittenAsTheyAreRead(t *testing.T) {
	for _, text := range []string{"10/s", "0.5/m", "5000/h", "1/d"} {
		var r Rate
		if err := r.Set(text); err != nil || r.String() != text {
			t.Errorf("%s became %s, %v", text, r, err)
		}
	}
	if s := (Rate{}).String(); s != "" {
		t.Errorf("no rate is %q", s)
	}
	for text, want := range map[string]string{"now": "now", "all": "all", "2026-01-31": "2026-01-31T00:00:00Z"} {
		var s Start
		if err := s.Set(text); err != nil || s.String() != want {
			t.Errorf("%s became %s, %v", text, s, err)
		}
	}
}

func TestStarts(t *testing.T) {
	for text, want := range map[string]Start{
		"now":                         {Now: true},
		"all":                         {All: true},
		"2026-01-31":                  {From: time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)},
		"2024-02-29":                  {From: time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
		"2026-01-31T08:00:00+01:00":   {From: time.Date(2026, 1, 31, 7, 0, 0, 0, time.UTC)},
		"2026-01-31T08:00:00.123456Z": {From: time.Date(2026, 1, 31, 8, 0, 0, 123456000, time.UTC)},
		"2026-03-29T02:30:00-00:00":   {From: time.Date(2026, 3, 29, 2, 30, 0, 0, time.UTC)},
		"1970-01-01":                  {From: time.Unix(0, 0).UTC()},
	} {
		var s Start
		if err := s.Set(text); err != nil || s != want {
			t.Errorf("%s became %+v, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "yesterday", "NOW", "2025-02-29", "2026-13-01", "31.01.2026", "2026-01-31 08:00", "2026-01-31T08:00:00", "20260131", "1969-12-31", "-1h"} {
		var s Start
		if err := s.Set(text); err == nil {
			t.Errorf("%q became %+v", text, s)
		}
	}
}

func TestDurationsAreShownAsTheyAreWritten(t *testing.T) {
	for d, want := range map[time.Duration]string{
		30 * time.Second: "30s", 5 * time.Minute: "5m", 2 * time.Hour: "2h", 90 * time.Second: "1m30s", 90 * time.Minute: "1h30m", 0: "0s", 100 * time.Millisecond: "100ms", 10 * time.Hour: "10h",
	} {
		if got := durationText(d); got != want {
			t.Errorf("%v is shown as %s, want %s", d, got, want)
		}
	}
}
