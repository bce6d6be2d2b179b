package file

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/internal/field"
)

// model makes a folder with a file that only grows; line writes one record of it, or one that is deleted.
func model(format, header string, line func(r conformance.Record, deleted bool) string) conformance.SourceHarness {
	return func(t testing.TB) conformance.SourceModel {
		dir := t.TempDir()
		st := &Stream{}
		field.Declare(st)
		st.Path, st.Format, st.ID, st.Version, st.Deleted = "records-*", format, "id", "at", Deleted{Field: "gone"}
		s := &Settings{Dir: dir, Files: map[string]*Stream{"s": st}}
		add := func(text string) {
			t.Helper()
			f, err := os.OpenFile(filepath.Join(dir, "records-1"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			if _, err := f.WriteString(text); err != nil {
				t.Fatal(err)
			}
		}
		add(header)
		return conformance.SourceModel{
			Stream: "s",
			Open:   func(env connectors.Env) (connectors.Instance, error) { return s.Open(t.Context(), env) },
			Put:    func(r conformance.Record) { add(line(r, false)) },
			Value: func(body json.RawMessage) string {
				var r struct{ Value string }
				if err := json.Unmarshal(body, &r); err != nil {
					t.Errorf("body %s: %v", body, err)
				}
				return r.Value
			},
			Delete:     func(id string, at time.Time) { add(line(conformance.Record{ID: id, ChangedAt: at}, true)) },
			Tombstones: true, NoID: true, NoTime: true, Late: time.Hour,
		}
	}
}

func TestSourcesConform(t *testing.T) {
	t.Run("JSON lines", func(t *testing.T) {
		conformance.Source(t, model(formatJSONL, "", func(r conformance.Record, deleted bool) string {
			m := map[string]any{"value": r.Value, "gone": deleted}
			if !r.NoID {
				m["id"] = r.ID
			}
			if !r.ChangedAt.IsZero() {
				m["at"] = r.ChangedAt.Format(time.RFC3339)
			}
			raw, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw) + "\n"
		}))
	})
	t.Run("CSV", func(t *testing.T) {
		conformance.Source(t, model(formatCSV, "id,at,value,gone\r\n", func(r conformance.Record, deleted bool) string {
			fields := []string{r.ID, "", `"` + r.Value + `"`, strconv.FormatBool(deleted)}
			if r.NoID {
				fields[0] = ""
			}
			if !r.ChangedAt.IsZero() {
				fields[1] = r.ChangedAt.Format(time.RFC3339)
			}
			return strings.Join(fields, ",") + "\r\n"
		}))
	})
}
