package sandbox

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// pair is a calm shop with one customer and one order, and an ERP.
func pair(t *testing.T) (*Shop, *ERP) {
	t.Helper()
	s, err := NewShop(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	e, err := NewERP(1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	s.Calm()
	s.add("customers", map[string]any{"name": "Ada"})
	s.add("orders", map[string]any{"customer_id": int64(firstID), "state": "open", "total_cents": int64(1050), "note": ""})
	return s, e
}

// call makes one request and returns its status; 0 when there was no answer.
func call(t *testing.T, method, url, body string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

func customer(version int64) string {
	return fmt.Sprintf(`{"ref":"C-%d","name":"Ada","version":%d}`, firstID, version)
}

func order(link, version int64) string {
	return fmt.Sprintf(`{"ref":"SO-%d","customer":%d,"state":"open","total":"10.50","note":"","version":%d}`, firstID+1, link, version)
}

func version1(s *Shop, id string) int64 { return s.records[id].updated.UnixMicro() }

func TestAuditSeesWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		write func(t *testing.T, s *Shop, e *ERP, order string)
		want  Audit
	}{
		"all is well": {func(*testing.T, *Shop, *ERP, string) {}, Audit{Expected: 2, Found: 2, Writes: 2}},
		"lost":        {func(_ *testing.T, s *Shop, _ *ERP, _ string) { s.add("customers", map[string]any{"name": "Bo"}) }, Audit{Expected: 3, Found: 2, Lost: 1, Writes: 2}},
		"stale":       {func(_ *testing.T, s *Shop, _ *ERP, _ string) { s.change(s.any("orders"), "state", "paid") }, Audit{Expected: 2, Found: 2, Stale: 1, Writes: 2}},
		"doubled": {func(t *testing.T, _ *Shop, e *ERP, o string) {
			e.TakeTwice("orders")
			call(t, "POST", e.URL+"/orders", o)
		}, Audit{Expected: 2, Found: 2, Doubled: 1, Writes: 3}},
		"foreign":      {func(t *testing.T, _ *Shop, e *ERP, _ string) { call(t, "POST", e.URL+"/orders", `{"ref":"X"}`) }, Audit{Expected: 2, Found: 2, Foreign: 1, Writes: 3}},
		"went back":    {func(t *testing.T, _ *Shop, e *ERP, _ string) { call(t, "PATCH", e.URL+"/orders/2", `{"version":1}`) }, Audit{Expected: 2, Found: 2, Stale: 1, WentBack: 1, Writes: 3}},
		"refused twin": {func(t *testing.T, _ *Shop, e *ERP, o string) { call(t, "POST", e.URL+"/orders", o) }, Audit{Expected: 2, Found: 2, Writes: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s, e := pair(t)
			e.Calm()
			cu := customer(version1(s, fmt.Sprintf("customers/%d", firstID)))
			or := order(1, version1(s, fmt.Sprintf("orders/%d", firstID+1)))
			if got := call(t, "POST", e.URL+"/customers", cu); got != http.StatusCreated {
				t.Fatalf("creating a customer answers %d", got)
			}
			if got := call(t, "POST", e.URL+"/orders", or); got != http.StatusCreated {
				t.Fatalf("creating an order answers %d", got)
			}
			c.write(t, s, e, or)
			got := Compare(s, e)
			got.Examples = nil
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("the audit is %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestLateWorkIsDoneForACallerThatHasGone(t *testing.T) {
	_, e := pair(t)
	e.WorkLate(200 * time.Millisecond)
	e.Quota(1000, 1000)
	impatient := &http.Client{Timeout: 20 * time.Millisecond}
	gone := map[string]bool{}
	for i := range 60 {
		ref := fmt.Sprintf("%d", i)
		resp, err := impatient.Post(e.URL+"/customers", "application/json", strings.NewReader(`{"ref":"`+ref+`"}`))
		if err != nil {
			gone[ref] = true
			continue
		}
		resp.Body.Close()
	}
	done := func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return slices.ContainsFunc(e.records, func(r *erpRecord) bool { return gone[r.ref] })
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(30 * time.Second); !done(); {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%d callers had gone, and no write of theirs was done", len(gone))
		}
	}
}
