package rest

import (
	"strings"
	"testing"
	"time"
)

func micros(t testing.TB, rfc string) int64 {
	t.Helper()
	x, err := time.Parse(time.RFC3339Nano, rfc)
	if err != nil {
		t.Fatal(err)
	}
	return x.UnixMicro()
}

func TestStampsAreReadExactly(t *testing.T) {
	for _, c := range []struct {
		name, format, zone, json string
		want                     string // RFC 3339, or "" for no stamp
	}{
		{"utc", rfc3339, "", `"2026-11-29T10:00:00Z"`, "2026-11-29T10:00:00Z"},
		{"offset", rfc3339, "", `"2026-11-29T10:00:00.123456+08:00"`, "2026-11-29T02:00:00.123456Z"},
		{"offset without a colon", rfc3339, "", `"2026-11-29T10:00:00+0800"`, "2026-11-29T02:00:00Z"},
		{"blank in place of T", rfc3339, "", `"2026-11-29 10:00:00Z"`, "2026-11-29T10:00:00Z"},
		{"mail date", rfc2822, "", `"Sun, 29 Nov 2026 10:00:00 +0000"`, "2026-11-29T10:00:00Z"},
		{"mail date in GMT", rfc2822, "", `"Sun, 29 Nov 2026 10:00:00 GMT"`, "2026-11-29T10:00:00Z"},
		{"mail date with one digit", rfc2822, "", `"Sun, 1 Nov 2026 10:00:00 -0500"`, "2026-11-01T15:00:00Z"},
		{"seconds", epochS, "", `1795946400`, "2026-11-29T10:00:00Z"},
		{"seconds as text", epochS, "", `"1795946400"`, "2026-11-29T10:00:00Z"},
		{"seconds with a fraction", epochS, "", `1795946400.123456`, "2026-11-29T10:00:00.123456Z"},
		{"milliseconds", epochMS, "", `1795946400123`, "2026-11-29T10:00:00.123Z"},
		{"local time", "2006-01-02 15:04:05", "Europe/Berlin", `"2026-11-29 11:00:00"`, "2026-11-29T10:00:00Z"},
		{"local time in the gap of spring", "2006-01-02T15:04:05", "Europe/Berlin", `"2026-03-29T02:30:00"`, "2026-03-29T01:30:00Z"},
		{"local time in the repeated hour of autumn is its first", "2006-01-02T15:04:05", "Europe/Berlin", `"2026-10-25T02:30:00"`, "2026-10-25T00:30:00Z"},
		{"local time after the repeated hour", "2006-01-02T15:04:05", "Europe/Berlin", `"2026-10-25T03:30:00"`, "2026-10-25T02:30:00Z"},
		{"layout with an offset", "2006-01-02 15:04:05 -0700", "", `"2026-11-29 10:00:00 +0100"`, "2026-11-29T09:00:00Z"},
		{"date", dateOnly, "", `"2026-11-29"`, "2026-11-29T00:00:00Z"},
		{"null", rfc3339, "", `null`, ""},
		{"empty", rfc3339, "", `""`, ""},
		{"zero", epochS, "", `0`, ""},
		{"a database's zero date", "2006-01-02 15:04:05", "UTC", `"0000-00-00 00:00:00"`, ""},
		{"year one", rfc3339, "", `"0001-01-01T00:00:00Z"`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := newStampFormat(c.format, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			got, found, err := f.read(raw(c.json))
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if found {
					t.Errorf("read %d, there is no stamp", got)
				}
				return
			}
			if want := micros(t, c.want); got != want {
				t.Errorf("read %s, want %s", timeOf(got).Format(time.RFC3339Nano), c.want)
			}
		})
	}
}

func TestNumbersOfASequenceMayBeginAtZeroOrBelow(t *testing.T) {
	for json, want := range map[string]int64{"0": 0, `"0"`: 0, "-5": -5, "7": 7} {
		f, err := newStampFormat(integer, "")
		if err != nil {
			t.Fatal(err)
		}
		if got, found, err := f.read(raw(json)); got != want || !found || err != nil {
			t.Errorf("%s: read %d, %v, %v", json, got, found, err)
		}
	}
}

func TestStampsThatCannotBeReadSayWhy(t *testing.T) {
	for _, c := range []struct{ name, format, zone, json, want string }{
		{"abbreviation of a zone", rfc2822, "", `"Sun, 29 Nov 2026 10:00:00 CST"`, "the abbreviation of a zone is not enough"},
		{"no offset", rfc3339, "", `"2026-11-29T10:00:00"`, "needs a numeric offset or Z"},
		{"offset without minutes", rfc3339, "", `"2026-11-29 10:00:00 +08"`, "needs a numeric offset or Z"},
		{"milliseconds for seconds", epochS, "", `1795946400123`, "another unit"},
		{"not a number", epochS, "", `"yesterday"`, "not a number"},
		{"exponent", epochS, "", `1e9`, "not a number"},
		{"exponent that would fill the memory", epochS, "", `1e999999999`, "not a number"},
		{"sequence with a fraction", integer, "", `7.5`, "not a whole number"},
		{"object", rfc3339, "", `{}`, "expected a stamp (rfc3339), not an object"},
		{"another layout", "02.01.2006", "UTC", `"11/29/2026"`, "not a time written as 02.01.2006"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := newStampFormat(c.format, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := f.read(raw(c.json))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("read %d, error %v; want one that says %q", got, err, c.want)
			}
		})
	}
}

func TestFormatsThatCouldMisleadAreRefused(t *testing.T) {
	for _, c := range []struct{ name, format, zone, want string }{
		{"abbreviation", "2006-01-02 15:04:05 MST", "", "abbreviation of a zone"},
		{"layout without a zone", "2006-01-02 15:04:05", "", "holds no offset; say in `zone`"},
		{"zone beside an offset", "2006-01-02T15:04:05-07:00", "UTC", "leave the zone out"},
		{"zone beside a named format", rfc3339, "UTC", "a zone makes sense only"},
		{"unknown zone", "2006-01-02", "CST", "is not known"},
		{"this machine's zone", "2006-01-02", "Local", "is not known"},
		{"no layout", "YYYY-MM-DD", "", "neither a named format nor a layout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := newStampFormat(c.format, c.zone); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want one that says %q", err, c.want)
			}
		})
	}
}

func TestALowerBoundNeverLeavesOutTheStampItself(t *testing.T) {
	for _, c := range []struct {
		name, format, zone string
		inclusive          bool
		stamp, want        string
	}{
		{"seconds", rfc3339, "", true, "2026-11-29T10:00:05.7Z", "2026-11-29T10:00:05Z"},
		{"seconds, bound left out", rfc3339, "", false, "2026-11-29T10:00:05.7Z", "2026-11-29T10:00:04Z"},
		{"epoch", epochS, "", false, "2026-11-29T10:00:05Z", "1795946404"},
		{"milliseconds", epochMS, "", false, "2026-11-29T10:00:05.123456Z", "1795946405122"},
		{"local", "2006-01-02 15:04:05", "America/Los_Angeles", true, "2026-11-29T03:00:00Z", "2026-11-28 19:00:00"},
		{"minutes", "2006-01-02 15:04", "UTC", false, "2026-11-29T10:00:30Z", "2026-11-29 09:59"},
		{"microseconds", "2006-01-02T15:04:05.000000Z07:00", "", false, "2026-11-29T10:00:05.123456Z", "2026-11-29T10:00:05.123455Z"},
		{"a date is asked for a day earlier, in the source's zone", dateOnly, "America/Los_Angeles", true, "2026-11-29T03:00:00Z", "2026-11-27"},
		{"a date in another layout", "02.01.2006", "Europe/Berlin", false, "2026-11-29T10:00:00Z", "28.11.2026"},
		{"mail", rfc2822, "", true, "2026-11-29T10:00:05Z", "Sun, 29 Nov 2026 10:00:05 +0000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := newStampFormat(c.format, c.zone)
			if err != nil {
				t.Fatal(err)
			}
			stamp := micros(t, c.stamp)
			if got := f.write(stamp, c.inclusive); got != c.want {
				t.Errorf("wrote %q, want %q", got, c.want)
			}
			// What was written is not above what is claimed to have been sent.
			back, err := f.parse(c.want)
			if err != nil {
				t.Fatal(err)
			}
			if back < f.sent(stamp, c.inclusive) {
				t.Errorf("sent %d, which is below %d", back, f.sent(stamp, c.inclusive))
			}
			if back > stamp || !c.inclusive && back >= stamp {
				t.Errorf("the bound %q leaves the stamp itself out", c.want)
			}
		})
	}
}

func TestFormatsInWordsTellApartWhatReadsStampsDifferently(t *testing.T) {
	seen := map[string]string{}
	for _, c := range [][2]string{
		{rfc3339, ""}, {epochS, ""}, {epochMS, ""}, {integer, ""}, {dateOnly, ""}, {dateOnly, "Asia/Tokyo"},
		{"2006-01-02 15:04:05", "UTC"}, {"2006-01-02 15:04:05", "Asia/Tokyo"}, {"2006-02-01 15:04:05", "UTC"}, {"2006-01-02 15:04:05 -0700", ""},
	} {
		f, err := newStampFormat(c[0], c[1])
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[f.String()]; ok {
			t.Errorf("%v and %s are both %q", c, other, f)
		}
		seen[f.String()] = c[0] + " " + c[1]
	}
	unset, _ := newStampFormat(dateOnly, "")
	utc, _ := newStampFormat(dateOnly, "UTC")
	if unset.String() != utc.String() {
		t.Errorf("%q and %q read the same", unset, utc)
	}
}
