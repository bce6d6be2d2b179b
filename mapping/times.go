package mapping

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Times are texts in RFC 3339 and leave every function in UTC. Only numeric
// offsets and names of the zone database are understood: an abbreviation such
// as CST stands for several zones, and Go would take an unknown one for UTC
// without a word.

var (
	errNotRFC3339 = errors.New("the time is not RFC 3339 with a numeric offset, such as 2026-11-29T10:00:00+01:00; give a layout and a zone for other forms")
	errZoneName   = errors.New(`the zone must be "UTC" or a name of the zone database such as "Europe/Berlin"; abbreviations such as CET are not clear enough`)
)

// fnParseTime is parse_time(text) and parse_time(text; layout; zone).
func fnParseTime(r *run, _ any, args []any) (any, error) {
	text, err := timeText(args[0])
	if err != nil {
		return nil, err
	}
	if len(args) == 1 {
		t, err := parseRFC3339(text)
		if err != nil {
			return nil, err
		}
		return formatUTC(t)
	}
	layout, err := layoutArg(args[1])
	if err != nil {
		return nil, err
	}
	zone, err := r.zone(args[2])
	if err != nil {
		return nil, err
	}
	t, err := parseLayout(text, layout, zone)
	if err != nil {
		return nil, err
	}
	return formatUTC(t)
}

func fnFormatTime(r *run, _ any, args []any) (any, error) {
	t, err := timeInZone(r, args[0], args[2])
	if err != nil {
		return nil, err
	}
	layout, err := layoutArg(args[1])
	if err != nil {
		return nil, err
	}
	return formatLayout(t, layout), nil
}

func fnDateIn(r *run, _ any, args []any) (any, error) {
	t, err := timeInZone(r, args[0], args[1])
	if err != nil {
		return nil, err
	}
	return t.Format(time.DateOnly), nil
}

func timeInZone(r *run, text, zone any) (time.Time, error) {
	s, err := timeText(text)
	if err != nil {
		return time.Time{}, err
	}
	loc, err := r.zone(zone)
	if err != nil {
		return time.Time{}, err
	}
	t, err := parseRFC3339(s)
	return t.In(loc), err
}

func timeText(v any) (string, error) {
	s, ok := v.(string)
	if !ok {
		return "", fmt.Errorf("a time must be a string but is %s", typeName(v))
	}
	if len(s) > 100 {
		return "", errors.New("the time is longer than 100 bytes")
	}
	return strings.TrimSpace(s), nil
}

// zone is zoneArg with a memory, because reading a zone takes longer than all
// the rest of a mapping.
func (r *run) zone(v any) (*time.Location, error) {
	name, _ := v.(string)
	if loc, ok := r.zones[name]; ok {
		return loc, nil
	}
	loc, err := zoneArg(v)
	if err == nil && len(r.zones) < maxCached {
		r.zones[strings.Clone(name)] = loc
	}
	return loc, err
}

func zoneArg(v any) (*time.Location, error) {
	name, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("a zone must be a string but is %s", typeName(v))
	}
	if name == "UTC" {
		return time.UTC, nil
	}
	if !strings.Contains(name, "/") {
		return nil, errZoneName
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, errors.New(`the zone database has no such zone; names are written like "Europe/Berlin"`)
	}
	return loc, nil
}

func formatUTC(t time.Time) (any, error) {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return nil, errors.New("the time lies outside the years 1 to 9999")
	}
	return t.Format(time.RFC3339Nano), nil
}

// parseRFC3339 reads date, time and numeric offset. Besides the letter of the
// standard it takes the forms that shops send: a blank instead of the T, an
// offset without its colon, and a blank before it.
func parseRFC3339(s string) (time.Time, error) {
	const date = len("2006-01-02")
	if len(s) <= date+3 || !strings.ContainsRune("Tt ", rune(s[date])) || s[date+3] != ':' {
		return time.Time{}, errNotRFC3339
	}
	t, err := parseLayout(s[:date]+"T"+s[date+1:], "%Y-%m-%dT%H:%M:%S%z", time.UTC)
	if err != nil {
		return time.Time{}, errNotRFC3339
	}
	return t, nil
}

// atWallClock finds the instant at which clocks in loc show the time that wall
// shows in UTC. A time that clocks skip in spring is read with the offset that
// was valid before it, so that 02:30 becomes 03:30; one that they show twice
// in autumn is the first of the two. Both are the rules of RFC 5545.
func atWallClock(wall time.Time, loc *time.Location) time.Time {
	const day = 24 * time.Hour
	before, after := offsetAt(wall.Add(-day), loc), offsetAt(wall.Add(day), loc)
	first := wall.Add(-before)
	if offsetAt(first, loc) == before {
		return first
	}
	if second := wall.Add(-after); offsetAt(second, loc) == after {
		return second
	}
	return first
}

func offsetAt(t time.Time, loc *time.Location) time.Duration {
	_, seconds := t.In(loc).Zone()
	return time.Duration(seconds) * time.Second
}
