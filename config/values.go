package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Rate is a number of calls in a time.
type Rate struct {
	Events float64
	Per    time.Duration
}

var rateText = regexp.MustCompile(`\A([0-9]+(?:\.[0-9]+)?)\s*/\s*([a-z]+)\z`)

var rateUnits = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}

var errRate = errors.New("not a rate; write for example 10/s, 100/m, 5000/h or 0.5/s")

// Set reads a rate such as 10/s.
func (r *Rate) Set(text string) error {
	if strings.HasPrefix(text, "-") {
		return errors.New("a rate cannot be negative")
	}
	m := rateText.FindStringSubmatch(text)
	if m == nil {
		return errRate
	}
	per, ok := rateUnits[m[2]]
	if !ok {
		return errors.New("the time of a rate is s, m, h or d, for example 10/s")
	}
	n, err := strconv.ParseFloat(m[1], 64)
	switch {
	case err != nil:
		return errRate
	case n == 0:
		return errors.New("a rate of 0 would stop the client; take the key out for no limit of your own, or pause the client")
	case n/per.Seconds() > 1e6:
		return errors.New("a rate of more than 1000000 calls a second; take the key out for no limit of your own")
	case n/per.Seconds() < 1e-6:
		return errors.New("a rate of less than one call in eleven days; pause the client instead")
	}
	*r = Rate{Events: n, Per: per}
	return nil
}

// IsZero tells whether no rate is configured.
func (r Rate) IsZero() bool { return r.Events == 0 }

// PerSecond gives the rate in calls a second; +Inf when none is configured.
func (r Rate) PerSecond() float64 {
	if r.IsZero() {
		return math.Inf(1)
	}
	return r.Events / r.Per.Seconds()
}

// String gives the rate as it is written, "" when none is configured.
func (r Rate) String() string {
	for unit, per := range rateUnits {
		if r.Per == per && !r.IsZero() {
			return strconv.FormatFloat(r.Events, 'f', -1, 64) + "/" + unit
		}
	}
	return ""
}

// Start says where a flow begins that has read nothing yet. Exactly one of its fields is set.
type Start struct {
	// Now begins with the changes after the flow's first start.
	Now bool
	// All begins with everything the source has.
	All bool
	// From begins with the changes since then; UTC.
	From time.Time
}

// Set reads now, all, a date (from its midnight, UTC) or an RFC 3339 time.
func (s *Start) Set(text string) error {
	switch text {
	case "now":
		*s = Start{Now: true}
		return nil
	case "all":
		*s = Start{All: true}
		return nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			if t.Year() < 1970 {
				return errors.New("a time before 1970; write all for everything")
			}
			*s = Start{From: t.UTC()}
			return nil
		}
	}
	return errors.New("not a start; write now, all, a date such as 2026-01-31 (midnight UTC), or a time such as 2026-01-31T08:00:00+01:00")
}

// String gives the start as it is written.
func (s Start) String() string {
	switch {
	case s.Now:
		return "now"
	case s.All:
		return "all"
	case s.From.IsZero():
		return ""
	}
	return s.From.Format(time.RFC3339)
}

// durationText writes a duration without the zeros that time.Duration appends: 30m, not 30m0s.
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
