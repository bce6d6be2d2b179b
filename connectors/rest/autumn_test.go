package rest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

const localTimes = "2006-01-02 15:04:05"

func TestTheTimeThatAutumnRepeatsIsKnownInEveryZone(t *testing.T) {
	for _, c := range []struct{ zone, first, last, next string }{
		{"Europe/Berlin", "2026-10-25T00:00:00Z", "2026-10-25T01:59:59Z", "2026-10-25T02:00:00Z"},
		{"America/New_York", "2026-11-01T05:00:00Z", "2026-11-01T06:59:59Z", "2026-11-01T07:00:00Z"},
		{"Australia/Lord_Howe", "2026-04-04T14:30:00Z", "2026-04-04T15:29:59Z", "2026-04-04T15:30:00Z"},
	} {
		f, err := newStampFormat(localTimes, c.zone)
		if err != nil {
			t.Fatal(err)
		}
		for at, want := range map[int64]bool{micros(t, c.first) - 1_000_000: false, micros(t, c.first): true, micros(t, c.last): true, micros(t, c.next): false} {
			if begin, ok := f.repeated(at); ok != want || ok && begin != micros(t, c.first) {
				t.Errorf("%s at %s: %v from %s", c.zone, timeOf(at), ok, timeOf(begin))
			}
		}
	}
	utc, err := newStampFormat(localTimes, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := utc.repeated(micros(t, "2026-10-25T00:30:00Z")); ok {
		t.Error("UTC repeats nothing")
	}
}

// A shop in Berlin keeps times without an offset. It is read every ten minutes
// through the night in which its clocks go back.
func TestChangesInTheRepeatedHourAreNeitherLostNorTakenForOlder(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	first := func(label string) time.Time { // how a server may read a label, and the other way
		at, err := time.ParseInLocation(localTimes, label, berlin)
		if err != nil {
			t.Fatal(err)
		}
		if e := at.Add(-time.Hour); e.Format(localTimes) == at.Format(localTimes) {
			return e
		}
		return at
	}
	for name, after := range map[string]func(at time.Time, label, bound string) bool{
		"compares labels":           func(_ time.Time, label, bound string) bool { return label >= bound },
		"takes the first instance":  func(at time.Time, _, bound string) bool { return !at.Before(first(bound)) },
		"takes the second instance": func(at time.Time, _, bound string) bool { return !at.Before(second(first(bound))) },
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 10, 24, 23, 0, 0, 0, time.UTC).In(berlin)
			stamps := map[string]time.Time{}
			s := serve(t, `
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: at, format: "2006-01-02 15:04:05", zone: Europe/Berlin}
    since: {param: since, format: "2006-01-02 15:04:05", zone: Europe/Berlin, inclusive: true}
    paging: none
`, func(r *http.Request, _ string) (int, string) {
				var l []string
				for id, at := range stamps {
					if bound := r.URL.Query().Get("since"); bound == "" || after(at, at.Format(localTimes), bound) {
						l = append(l, fmt.Sprintf(`{"id":%q,"at":%q,"n":%d}`, id, at.Format(localTimes), at.Unix()))
					}
				}
				return 200, `{"data":[` + strings.Join(l, ",") + `]}`
			})
			p := s.drain(nil)
			versions, bodies := map[string]int64{}, map[string]string{}
			for step := range 30 {
				now = now.Add(10 * time.Minute)
				id := fmt.Sprint(step)
				stamps[id], stamps["always"] = now.Add(-time.Minute), now.Add(-2*time.Minute)
				s.header.Set("Date", now.UTC().Format(http.TimeFormat))
				p = s.drain(p.Next)
				for _, e := range p.Events {
					if e.Version >= versions[e.SourceID] {
						versions[e.SourceID], bodies[e.SourceID] = e.Version, string(e.Body)
					}
				}
				for _, id := range []string{id, "always"} {
					if !strings.Contains(bodies[id], fmt.Sprint(stamps[id].Unix())) {
						t.Errorf("at %s the newest state of %s is not known: %s", now.Format(time.RFC3339), id, bodies[id])
					}
				}
			}
		})
	}
}

// second is the later instant of a label that means two.
func second(at time.Time) time.Time {
	if l := at.Add(time.Hour); l.Format(localTimes) == at.Format(localTimes) {
		return l
	}
	return at
}
