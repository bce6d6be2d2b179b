package rest

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stampFormat reads and writes the stamps of one stream: times as
// microseconds since 1970, or the numbers of a sequence.
type stampFormat struct {
	name   string         // a name of stampNames, or a layout of package time
	zone   *time.Location // of a layout without an offset
	layout string         // for layouts, "" for the named formats
}

// The named formats.
const (
	rfc3339   = "rfc3339"
	rfc2822   = "rfc2822"
	epochS    = "epoch_s"
	epochMS   = "epoch_ms"
	integer   = "integer"
	dateOnly  = "date"
	formatDoc = "`rfc3339`, `rfc2822` (with a numeric offset), `epoch_s`, `epoch_ms`, `date`, `integer` (a sequence), " +
		"or a layout of Go's package time such as `2006-01-02 15:04:05`"
)

func isNamedFormat(s string) bool {
	switch s {
	case rfc3339, rfc2822, epochS, epochMS, integer, dateOnly:
		return true
	}
	return false
}

// abbreviation finds the name of a zone in a layout.
var abbreviation = regexp.MustCompile(`MST`)

// newStampFormat checks a format and its zone. A layout with the abbreviation
// of a zone is refused: CST is three different zones, and Go reads one it does
// not know as UTC without an error.
func newStampFormat(name, zone string) (stampFormat, error) {
	f := stampFormat{name: name, zone: time.UTC}
	if isNamedFormat(name) {
		if zone != "" && name != dateOnly {
			return f, fmt.Errorf("a zone makes sense only with a layout or with %s, not with %s", dateOnly, name)
		}
	} else {
		if abbreviation.MatchString(name) {
			return f, errors.New("the abbreviation of a zone does not say which zone is meant; use a layout with a numeric offset (-07:00), or one without and `zone`")
		}
		if !strings.Contains(name, "2006") {
			return f, fmt.Errorf("neither a named format nor a layout (which shows the year as 2006); use %s", formatDoc)
		}
		f.layout = name
		if strings.Contains(name, "07") || strings.Contains(name, "Z07") {
			if zone != "" {
				return f, errors.New("the layout holds an offset already; leave the zone out")
			}
		} else if zone == "" {
			return f, errors.New("the layout holds no offset; say in `zone` which zone its times are in, for example UTC or Europe/Berlin")
		}
	}
	if zone == "" {
		return f, nil
	}
	loc, err := time.LoadLocation(zone)
	if err != nil || zone == "Local" {
		return f, fmt.Errorf("the zone %q is not known; use UTC or a name such as Europe/Berlin", zone)
	}
	f.zone = loc
	return f, nil
}

// String is the format in words; the same for all that read stamps alike.
func (f stampFormat) String() string {
	if f.name == dateOnly || f.layout != "" && !strings.Contains(f.layout, "07") {
		return f.name + " in " + f.zone.String()
	}
	return f.name
}

// isTime tells whether stamps are microseconds since 1970.
func (f stampFormat) isTime() bool { return f.name != integer }

// isDate tells whether stamps are days.
func (f stampFormat) isDate() bool {
	return f.name == dateOnly || f.layout != "" && !strings.Contains(f.layout, "15") && !strings.Contains(f.layout, "3")
}

// unit is the smallest step between two stamps as they are written.
func (f stampFormat) unit() int64 {
	switch {
	case f.name == integer:
		return 1
	case f.name == epochMS:
		return 1_000
	case f.isDate():
		return 24 * 3600 * 1_000_000
	case f.layout != "" && strings.Contains(f.layout, ".000000"):
		return 1
	case f.layout != "" && strings.Contains(f.layout, ".000"):
		return 1_000
	case f.layout != "" && !strings.Contains(f.layout, "05"):
		return 60 * 1_000_000
	}
	return 1_000_000
}

// read returns the stamp in a field. A field that is absent, null, empty or a
// database's zero date has none, nor has a time of 1970 or before, which stands
// for one that was never set. The numbers of a sequence may begin at 0 or below.
func (f stampFormat) read(v raw) (stamp int64, found bool, err error) {
	if v == nil || v.isNull() {
		return 0, false, nil
	}
	text, ok := v.text()
	if !ok {
		return 0, false, fmt.Errorf("expected a stamp (%s), not %s", f.name, v.kindName())
	}
	text = strings.TrimSpace(text)
	if text == "" || strings.HasPrefix(text, "0000-00-00") {
		return 0, false, nil
	}
	stamp, err = f.parse(text)
	if err != nil || stamp <= 0 && f.isTime() {
		return 0, false, err
	}
	return stamp, true, nil
}

func (f stampFormat) parse(text string) (int64, error) {
	switch f.name {
	case integer:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%q is not a whole number of at most 64 bits", cut(text, 40))
		}
		return n, nil
	case epochS:
		return epoch(text, 1_000_000)
	case epochMS:
		return epoch(text, 1_000)
	case rfc3339:
		return parseLayouts(text, time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05Z07:00")
	case rfc2822:
		// GMT and UTC are names that mean one thing only.
		for _, utc := range []string{" GMT", " UTC"} {
			if s, ok := strings.CutSuffix(text, utc); ok {
				text = s + " +0000"
			}
		}
		return parseLayouts(text, "Mon, 2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04:05 -0700")
	case dateOnly:
		return f.parseLocal(text, time.DateOnly)
	}
	return f.parseLocal(text, f.layout)
}

func parseLayouts(text string, layouts ...string) (int64, error) {
	for _, l := range layouts {
		if t, err := time.Parse(l, text); err == nil {
			return t.UnixMicro(), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time such as %s; a time needs a numeric offset or Z, the abbreviation of a zone is not enough",
		cut(text, 40), time.Unix(0, 0).UTC().Format(layouts[0]))
}

// parseLocal reads a time that may be local. In the hour that autumn repeats it
// takes the first of the two instants, so that a cursor made of it cannot lie
// beyond a change that was not read yet.
func (f stampFormat) parseLocal(text, layout string) (int64, error) {
	t, err := time.ParseInLocation(layout, text, f.zone)
	if err != nil {
		return 0, fmt.Errorf("%q is not a time written as %s", cut(text, 40), layout)
	}
	if earlier := t.Add(-time.Hour); earlier.Format(layout) == t.Format(layout) && !f.isDate() {
		t = earlier
	}
	return t.UnixMicro(), nil
}

// repeated tells whether a stamp lies in the time that a zone repeats in autumn,
// where labels without an offset mean two instants, and when that time begins.
func (f stampFormat) repeated(stamp int64) (begin int64, ok bool) {
	if f.slack() == 0 || f.isDate() || stamp == 0 {
		return 0, false
	}
	t := time.UnixMicro(stamp).In(f.zone)
	start, end := t.ZoneBounds()
	for _, change := range []time.Time{start, end} {
		if change.IsZero() {
			continue
		}
		_, before := change.Add(-1).Zone()
		_, after := change.Zone()
		back := time.Duration(before-after) * time.Second
		if back > 0 && !t.Before(change.Add(-back)) && t.Before(change.Add(back)) {
			return change.Add(-back).UnixMicro(), true
		}
	}
	return 0, false
}

// maxEpochSeconds is the year 5138: a larger number is in another unit.
const maxEpochSeconds = 100_000_000_000

// epoch reads a number of seconds or milliseconds, also with a fraction,
// without a float.
func epoch(text string, micros int64) (int64, error) {
	bad := fmt.Errorf("%q is not a number", cut(text, 40))
	// Looked at first: an exponent would make a number that fills the memory.
	if len(text) > 40 || strings.Trim(text, "-.0123456789") != "" {
		return 0, bad
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, bad
	}
	r.Mul(r, big.NewRat(micros, 1))
	n := new(big.Int).Quo(r.Num(), r.Denom())
	if !n.IsInt64() || n.Int64() > maxEpochSeconds*1_000_000 || n.Int64() < math.MinInt64/2 {
		return 0, fmt.Errorf("%s is later than the year 5138; it may be in another unit", cut(text, 40))
	}
	return n.Int64(), nil
}

// write returns the text of a lower bound: the stamp cut down to what the
// format can say and, for a filter that leaves the bound itself out, one unit
// lower. So the answer always holds the records that bear the stamp itself.
func (f stampFormat) write(stamp int64, inclusive bool) string {
	u := f.unit()
	if f.isDate() {
		// A day in the source's own zone begins before or after ours: ask for the day before.
		return f.format(time.UnixMicro(stamp).In(f.zone).AddDate(0, 0, -1).UnixMicro())
	}
	stamp = floor(stamp, u)
	if !inclusive {
		stamp -= u
	}
	return f.format(stamp)
}

// writeUpper returns the text of an upper bound that surely includes the stamp.
func (f stampFormat) writeUpper(stamp int64) string {
	u := f.unit()
	return f.format(floor(stamp, u) + u)
}

func (f stampFormat) format(stamp int64) string {
	switch f.name {
	case integer:
		return strconv.FormatInt(stamp, 10)
	case epochS:
		return strconv.FormatInt(floor(stamp, 1_000_000)/1_000_000, 10)
	case epochMS:
		return strconv.FormatInt(floor(stamp, 1_000)/1_000, 10)
	}
	t := time.UnixMicro(stamp).In(f.zone)
	switch f.name {
	case rfc3339:
		return t.Format("2006-01-02T15:04:05Z07:00")
	case rfc2822:
		return t.Format("Mon, 02 Jan 2006 15:04:05 -0700")
	case dateOnly:
		return t.Format(time.DateOnly)
	}
	return t.Format(f.layout)
}

// sent is the lowest stamp that a bound written for stamp may still answer with.
func (f stampFormat) sent(stamp int64, inclusive bool) int64 {
	u := f.unit()
	if f.isDate() {
		return floor(stamp, u) - 2*u
	}
	stamp = floor(stamp, u)
	if !inclusive {
		stamp -= u
	}
	return stamp
}

// slack is by how much stamps in a sorted listing may seem to go backwards: in
// a zone with summer time, the hour that autumn repeats is read as its first
// instance both times.
func (f stampFormat) slack() int64 {
	if f.zone == time.UTC || f.layout == "" || strings.Contains(f.layout, "07") {
		return 0
	}
	return 3600 * 1_000_000
}

func floor(n, unit int64) int64 {
	r := n % unit
	if r < 0 {
		r += unit
	}
	return n - r
}
