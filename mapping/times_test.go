package mapping

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimeFunctions(t *testing.T) {
	const in = `{"created":"2026-11-20T23:30:00-05:00","gone":"2026-10-25T02:30:00"}`
	for name, c := range map[string]struct{ expression, want string }{
		"offset":                     {`parse_time("2026-11-29T10:00:00+08:00")`, `"2026-11-29T02:00:00Z"`},
		"UTC":                        {`parse_time("2026-11-29T10:00:00Z")`, `"2026-11-29T10:00:00Z"`},
		"small letters":              {`parse_time("2026-11-29t10:00:00z")`, `"2026-11-29T10:00:00Z"`},
		"blank for the T":            {`parse_time("2026-11-29 10:00:00+01:00")`, `"2026-11-29T09:00:00Z"`},
		"offset behind a blank":      {`parse_time("2026-11-29 10:00:00 +0800")`, `"2026-11-29T02:00:00Z"`},
		"offset without colon":       {`parse_time("2026-11-29T10:00:00-0330")`, `"2026-11-29T13:30:00Z"`},
		"fraction":                   {`parse_time("2026-11-29T10:00:00.120Z")`, `"2026-11-29T10:00:00.12Z"`},
		"fraction beyond nano":       {`parse_time("2026-11-29T10:00:00.1234567891234Z")`, `"2026-11-29T10:00:00.123456789Z"`},
		"year boundary":              {`parse_time("2026-12-31T23:30:00-05:00")`, `"2027-01-01T04:30:00Z"`},
		"leap day":                   {`parse_time("2028-02-29T00:00:00Z")`, `"2028-02-29T00:00:00Z"`},
		"layout, winter":             {`parse_time("29/11/2026 10:00"; "%d/%m/%Y %H:%M"; "Europe/Berlin")`, `"2026-11-29T09:00:00Z"`},
		"layout, summer":             {`parse_time("29/06/2026 10:00"; "%d/%m/%Y %H:%M"; "Europe/Berlin")`, `"2026-06-29T08:00:00Z"`},
		"layout, date alone":         {`parse_time("29.11.26"; "%d.%m.%y"; "UTC")`, `"2026-11-29T00:00:00Z"`},
		"layout, last century":       {`parse_time("29.11.69"; "%d.%m.%y"; "UTC")`, `"1969-11-29T00:00:00Z"`},
		"layout, without separators": {`parse_time("20261129T101112"; "%Y%m%dT%H%M%S"; "UTC")`, `"2026-11-29T10:11:12Z"`},
		"layout, names":              {`parse_time("Sun, 29 nov 2026 1:05 pm"; "%a, %d %b %Y %I:%M %p"; "UTC")`, `"2026-11-29T13:05:00Z"`},
		"layout, long names":         {`parse_time("Sunday 1 November 2026"; "%A %e %B %Y"; "UTC")`, `"2026-11-01T00:00:00Z"`},
		"layout, midnight":           {`parse_time("2026-11-29 12:30 AM"; "%F %I:%M %p"; "UTC")`, `"2026-11-29T00:30:00Z"`},
		"layout, noon":               {`parse_time("2026-11-29 12:30 PM"; "%F %I:%M %p"; "UTC")`, `"2026-11-29T12:30:00Z"`},
		"layout, own offset":         {`parse_time("2026-11-29 10:00 -0500"; "%F %R %z"; "Europe/Berlin")`, `"2026-11-29T15:00:00Z"`},
		"layout, fraction":           {`parse_time("2026-11-29 10:00:00.25"; "%F %T.%f"; "UTC")`, `"2026-11-29T10:00:00.25Z"`},
		"layout, fraction unasked":   {`parse_time("2026-11-29 10:00:00.25"; "%F %T"; "UTC")`, `"2026-11-29T10:00:00.25Z"`},
		"layout, epoch":              {`parse_time("1795946400"; "%s"; "UTC")`, `"2026-11-29T10:00:00Z"`},
		"layout, percent":            {`parse_time("%2026-11-29"; "%%%F"; "UTC")`, `"2026-11-29T00:00:00Z"`},
		"spring gap":                 {`parse_time("2026-03-29 02:30:00"; "%F %T"; "Europe/Berlin")`, `"2026-03-29T01:30:00Z"`},
		"spring gap, first minute":   {`parse_time("2026-03-29 02:00:00"; "%F %T"; "Europe/Berlin")`, `"2026-03-29T01:00:00Z"`},
		"after the spring gap":       {`parse_time("2026-03-29 03:00:00"; "%F %T"; "Europe/Berlin")`, `"2026-03-29T01:00:00Z"`},
		"before the spring gap":      {`parse_time("2026-03-29 01:59:59"; "%F %T"; "Europe/Berlin")`, `"2026-03-29T00:59:59Z"`},
		"autumn hour, first":         {`parse_time(.gone; "%FT%T"; "Europe/Berlin")`, `"2026-10-25T00:30:00Z"`},
		"before the autumn hour":     {`parse_time("2026-10-25T01:59:59"; "%FT%T"; "Europe/Berlin")`, `"2026-10-24T23:59:59Z"`},
		"after the autumn hour":      {`parse_time("2026-10-25T03:00:00"; "%FT%T"; "Europe/Berlin")`, `"2026-10-25T02:00:00Z"`},
		"gap of half an hour":        {`parse_time("2026-10-04 02:15:00"; "%F %T"; "Australia/Lord_Howe")`, `"2026-10-03T15:45:00Z"`},
		"a day that was left out":    {`parse_time("2011-12-30 12:00:00"; "%F %T"; "Pacific/Apia")`, `"2011-12-30T22:00:00Z"`},
		"gap in the other half":      {`parse_time("2026-09-27 02:30:00"; "%F %T"; "Pacific/Auckland")`, `"2026-09-26T14:30:00Z"`},
		"format":                     {`format_time("2026-11-29T09:00:00Z"; "%d.%m.%Y %H:%M"; "Europe/Berlin")`, `"29.11.2026 10:00"`},
		"format, all":                {`format_time("2026-06-05T04:03:02.5Z"; "%Y %y %m %d %e %H %I %M %S %f %p %b %B %a %A %z %s %F %T %R %%"; "UTC")`, `"2026 26 06 05  5 04 04 03 02 500000 AM Jun June Fri Friday +0000 1780632182 2026-06-05 04:03:02 04:03 %"`},
		"format, offset of summer":   {`format_time("2026-06-29T09:00:00+02:00"; "%FT%T%z"; "America/New_York")`, `"2026-06-29T03:00:00-0400"`},
		"date in the shop's zone":    {`date_in(.created; "America/New_York")`, `"2026-11-20"`},
		"date in UTC":                {`date_in(.created; "UTC")`, `"2026-11-21"`},
		"date in Tokyo":              {`date_in("2026-11-20T15:00:00Z"; "Asia/Tokyo")`, `"2026-11-21"`},
		"round trip":                 {`parse_time(.created) | format_time(.; "%FT%T%z"; "America/New_York") | parse_time(.)`, `"2026-11-21T04:30:00Z"`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := eval(t, c.expression, in); got != c.want {
				t.Errorf("%s gives %s, want %s", c.expression, got, c.want)
			}
		})
	}
}

func TestTimeFunctionsRefuse(t *testing.T) {
	const (
		in      = `{"cet":"CET","layout":"%F %Z","none":null,"n":5}`
		notTime = "the time is not RFC 3339 with a numeric offset, such as 2026-11-29T10:00:00+01:00; give a layout and a zone for other forms"
		form    = "the time does not have the form of the layout"
		zone    = `the zone must be "UTC" or a name of the zone database such as "Europe/Berlin"; abbreviations such as CET are not clear enough`
	)
	for expression, want := range map[string]string{
		`parse_time("2026-11-29 10:00:00 +08")`:                           notTime,
		`parse_time("2026-11-29T10:00:00+08")`:                            notTime,
		`parse_time("2026-11-29 10:00:00 CST")`:                           notTime,
		`parse_time("2026-11-29T10:00:00 CET")`:                           notTime,
		`parse_time("2026-11-29T10:00:00")`:                               notTime,
		`parse_time("2026-11-29T10:00Z")`:                                 notTime,
		`parse_time("2026-11-29")`:                                        notTime,
		`parse_time("29.11.2026")`:                                        notTime,
		`parse_time("2026-02-31T00:00:00Z")`:                              notTime,
		`parse_time("2026-13-01T00:00:00Z")`:                              notTime,
		`parse_time("2026-11-29T24:00:00Z")`:                              notTime,
		`parse_time("2026-11-29T5:00:00Z")`:                               notTime,
		`parse_time("")`:                                                  notTime,
		`parse_time(.none)`:                                               "a time must be a string but is null",
		`parse_time(.n)`:                                                  "a time must be a string but is a number",
		`parse_time("x" * 101)`:                                           "the time is longer than 100 bytes",
		`parse_time("0001-01-01T00:00:00+01:00")`:                         "the time lies outside the years 1 to 9999",
		`parse_time("2026-11-29 10:00:00"; "%F %T"; .cet)`:                zone,
		`parse_time("2026-11-29 10:00:00"; "%F %T"; "Local" | .)`:         zone,
		`parse_time("2026-11-29 10:00:00"; "%F %T"; "" | .)`:              zone,
		`parse_time("2026-11-29 10:00:00"; "%F %T"; "Europe/Berlim" | .)`: `the zone database has no such zone; names are written like "Europe/Berlin"`,
		`parse_time("2026-11-29 10:00:00"; "%F %T"; "../etc/passwd" | .)`: `the zone database has no such zone; names are written like "Europe/Berlin"`,
		`parse_time("2026-11-29 10:00:00 CET"; .layout; "UTC")`:           "%Z is not supported, because an abbreviation such as CST stands for several zones; use %z and the zone argument",
		`parse_time("2026-11-29 10:00:00 CET"; "%F %T"; "UTC")`:           "the time has more text than the layout",
		`parse_time("2026-11-29 10:00:00 +08"; "%F %T %z"; "UTC")`:        form,
		`parse_time("2026-11-29 10:00"; "%F %T"; "UTC")`:                  form,
		`parse_time("29-11-2026"; "%d/%m/%Y"; "UTC")`:                     form,
		`parse_time("31/02/2026"; "%d/%m/%Y"; "UTC")`:                     "the month does not have that day",
		`parse_time("29/02/2026"; "%d/%m/%Y"; "UTC")`:                     "the month does not have that day",
		`parse_time("10:00"; "%H:%M"; "UTC")`:                             "the layout must have a year, a month and a day",
		`parse_time("2026-11-29 01:00"; "%F %I:%M"; "UTC")`:               "%I in the layout needs %p beside it",
		`parse_time("Mon 2026-11-29"; "%a %F"; "UTC")`:                    "the day of the week is not that of the date",
		`format_time("2026-11-29"; "%F"; "UTC")`:                          notTime,
		`date_in("2026-11-29T10:00:00"; "UTC")`:                           notTime,
		`date_in("2026-11-29T10:00:00Z"; .cet)`:                           zone,
		`"2026-11-29 CET" | strptime(.layout? // "%F %Z")`:                "%Z is not supported, because an abbreviation such as CST stands for several zones; use parse_time(text; layout; zone)",
	} {
		t.Run(expression, func(t *testing.T) {
			err := mapFailure(t, Source{Map: "{v: (" + expression + ")}"}, in)
			if got := err.Msg[max(0, len(err.Msg)-len(want)):]; got != want {
				t.Errorf("got  %s\nwant … %s", err.Msg, want)
			}
		})
	}
}

// Clocks in the zone show the local time that was asked for, except in a gap,
// where they show it moved by the length of the gap.
func TestWallClockIsFoundInEveryZone(t *testing.T) {
	zones := []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata", "Africa/Casablanca", "Pacific/Apia", "America/St_Johns", "UTC"}
	rapid.Check(t, func(t *rapid.T) {
		loc, err := time.LoadLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		wall := time.Unix(rapid.Int64Range(946684800, 2208988800).Draw(t, "unix"), 0).UTC()
		got := atWallClock(wall, loc)
		const local = "2006-01-02 15:04:05"
		shown := got.In(loc).Format(local)
		if shown == wall.Format(local) {
			if earlier := got.Add(-time.Hour).In(loc); earlier.Format(local) == shown {
				t.Fatalf("%s in %s is the second of two: %s", shown, loc, got)
			}
			return
		}
		// in a gap no instant shows it
		for d := -26 * time.Hour; d <= 26*time.Hour; d += 15 * time.Minute {
			if wall.Add(d).In(loc).Format(local) == wall.Format(local) {
				t.Fatalf("%s in %s became %s although %s shows it", wall.Format(local), loc, shown, wall.Add(d))
			}
		}
		if shown < wall.Format(local) {
			t.Fatalf("%s in %s was moved back to %s", wall.Format(local), loc, shown)
		}
	})
}
