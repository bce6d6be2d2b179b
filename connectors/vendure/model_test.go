package vendure

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/connectors/conformance/hostile"
	"syncd/internal/field"
)

// columns says, for each stream, in which table its records are and where a
// record of the suite keeps its value.
var columns = map[string]struct{ table, value string }{
	"orders":    {"orders", "code"},
	"customers": {"customers", "firstName"},
	"variants":  {"productVariants", "name"},
}

func (s *fakeShop) find(table, id string) row {
	for _, r := range s.tables[table] {
		if r["id"] == id {
			return r
		}
	}
	return nil
}

// put stores a record of the suite.
func (s *fakeShop) put(stream string, r conformance.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	col := columns[stream]
	rec := s.find(col.table, r.ID)
	if rec == nil {
		rec = row{"id": r.ID, "createdAt": r.ChangedAt, "active": false, "orderPlacedAt": r.ChangedAt, "state": "PaymentSettled"}
		if stream == "variants" {
			rec["product"] = row{"id": "1", "createdAt": r.ChangedAt, "updatedAt": r.ChangedAt}
		}
		s.tables[col.table] = append(s.tables[col.table], rec)
	}
	rec["updatedAt"], rec[col.value] = r.ChangedAt, r.Value
}

func (s *fakeShop) erase(stream, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	table := columns[stream].table
	var kept []row
	for _, r := range s.tables[table] {
		if r["id"] != id {
			kept = append(kept, r)
		}
	}
	s.tables[table] = kept
}

func (s *fakeShop) setTime(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clock = func() time.Time { return now }
}

func settingsFor(url string) *Settings {
	return &Settings{URL: url + "/admin-api", Auth: Auth{User: "reader", Password: field.NewSecret("pa55word")},
		Overlap: time.Minute, SweepEvery: time.Minute, SlowSweepEvery: time.Hour, Window: 90 * 24 * time.Hour}
}

// model describes a shop in the terms of the suite.
func model(t testing.TB, stream string) conformance.SourceModel {
	s := newFakeShop(time.Now)
	front := hostile.Wrap(s)
	t.Cleanup(front.Close)
	return conformance.SourceModel{
		Stream: stream, Hostile: front, CanFetch: true, Refreshes: true, Late: time.Minute, SetTime: s.setTime,
		IsRead: func(r *http.Request) bool { return !isLogin(r) },
		Put:    func(r conformance.Record) { s.put(stream, r) },
		Delete: func(id string, _ time.Time) { s.erase(stream, id) },
		Repeat: func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.repeat = true
		},
		Value: func(body json.RawMessage) string {
			var m map[string]any
			if err := json.Unmarshal(body, &m); err != nil {
				t.Errorf("body: %v", err)
			}
			v, _ := m[columns[stream].value].(string)
			return v
		},
		Open: func(env connectors.Env) (connectors.Instance, error) {
			return settingsFor(front.URL).Open(t.Context(), env)
		},
	}
}

// isLogin tells a login by its text.
func isLogin(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return bytes.Contains(body, []byte("login("))
}

func TestEveryStreamPassesTheSuiteForSources(t *testing.T) {
	for _, stream := range []string{"orders", "customers", "variants"} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			conformance.Source(t, func(t testing.TB) conformance.SourceModel {
				m := model(t, stream)
				if stream != "orders" { // once is enough: there is one HTTP client
					m.Hostile = nil
				}
				return m
			})
		})
	}
}
