package rest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A filter that takes dates only, and reads them in the account's own zone, is
// asked every hour for two days. No change may fall between two questions.
func TestAFilterThatTakesOnlyDatesLosesNothing(t *testing.T) {
	for _, zone := range []string{"America/Los_Angeles", "Pacific/Auckland", "UTC"} {
		for _, inclusive := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, inclusive %t", zone, inclusive), func(t *testing.T) {
				loc, err := time.LoadLocation(zone)
				if err != nil {
					t.Fatal(err)
				}
				stamps := map[string]time.Time{}
				s := serve(t, fmt.Sprintf(`
streams:
  records:
    list: {path: /records}
    records: data
    id: [id]
    version: {path: updated_at}
    since: {param: after, format: date, zone: %s, inclusive: %t}
    paging: none
`, zone, inclusive), func(r *http.Request, _ string) (int, string) {
					var l []string
					after := r.URL.Query().Get("after")
					for id, at := range stamps {
						if day := at.In(loc).Format(time.DateOnly); day > after || inclusive && day == after {
							l = append(l, fmt.Sprintf(`{"id":%q,"updated_at":%q}`, id, at.Format(time.RFC3339)))
						}
					}
					return 200, `{"data":[` + strings.Join(l, ",") + `]}`
				})
				seen := map[string]string{}
				p := s.drain(nil)
				for hour := range 48 {
					now := started.Add(time.Duration(hour) * time.Hour)
					id := fmt.Sprint(hour)
					stamps[id] = now.Add(-time.Minute)
					stamps["always"] = now.Add(-2 * time.Minute)
					s.header.Set("Date", now.Format(http.TimeFormat))
					p = s.drain(p.Next)
					for _, e := range p.Events {
						seen[e.SourceID] = e.ChangedAt.Format(time.RFC3339)
					}
					if seen[id] == "" || seen["always"] != stamps["always"].Format(time.RFC3339) {
						t.Fatalf("at %s: record %s was read at %q, the other at %q", now.Format(time.RFC3339), id, seen[id], seen["always"])
					}
				}
			})
		}
	}
}
