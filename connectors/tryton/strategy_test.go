package tryton

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
	"syncd/internal/gatetest"
	"syncd/jobs"
	"syncd/ratelimit"
	"syncd/upsert"
)

type openGate struct{}

func (openGate) Wait(context.Context) error { return nil }
func (g openGate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (openGate) Longest() time.Duration { return 24 * time.Hour }

func (openGate) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

// office is an ERP, a strategy that writes one record into it, and as much of a
// journal as that takes.
type office struct {
	t     testing.TB
	erp   *fakeERP
	front *hostile.Server
	now   time.Time
	flow  *jobs.Flow
	s     *upsert.Strategy
	row   jobs.Row
	link  string
	story []string
}

func newOffice(t testing.TB, entity string, strategy connectors.Strategy, timeout time.Duration) *office {
	t.Helper()
	o := &office{t: t, erp: newFakeERP(), now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	o.serve()
	i := o.open(timeout)
	e, err := i.Target().Entity(entity)
	if err != nil {
		t.Fatal(err)
	}
	o.flow = &jobs.Flow{Name: "f", Client: "erp", Entity: entity, Strategy: strategy, OnExisting: "adopt", OnDelete: "ignore", OnVanish: "gone",
		OnRename: "refuse", OnMissing: "recreate", OnFrozen: "dead", OnExpire: "dead"}
	if len(e.Info().Removals) > 0 {
		o.flow.OnDelete = "archive"
	}
	if o.s, err = upsert.New(o.flow, e, o, o.clock); err != nil {
		t.Fatal(err)
	}
	o.row = jobs.Row{RowID: jobs.RowID{Flow: "f", Key: "K-1"}, Client: "erp", Entity: entity}
	return o
}

func (o *office) serve() {
	o.front = hostile.Wrap(o.erp)
	o.t.Cleanup(o.front.Close)
}

func (o *office) clock() time.Time { return o.now }

// open opens a client of the ERP.
func (o *office) open(timeout time.Duration) connectors.Instance {
	o.t.Helper()
	i, err := settingsFor(o.front.URL).Open(o.t.Context(), connectors.Env{Client: "erp", Gate: openGate{}, Timeout: timeout, Concurrency: 2, Now: o.clock})
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = i.Close() })
	return i
}

// PutLink keeps the link.
func (o *office) PutLink(_ context.Context, _ *jobs.Job, link string) error {
	o.link = link
	return nil
}

func (o *office) PutPin(context.Context, string, jobs.Pin) error { return errors.New("no keys here") }
func (o *office) Secret(context.Context) ([]byte, error)         { return nil, errors.New("no keys here") }

// want admits a new version of the record; "" for one that is gone.
func (o *office) want(body string) {
	o.row.Generation++
	o.row.Gone, o.row.Body, o.row.Hash = body == "", json.RawMessage(body), []byte(body)
	o.row.State, o.row.DueAt = jobs.Ready, o.now
}

// attempt applies the job once. lost tells afterwards whether the daemon ended
// before it could settle the outcome; nil if not.
func (o *office) attempt(lost func() bool) connectors.Outcome {
	if o.row.DueAt.After(o.now) {
		o.now = o.row.DueAt
	}
	j := &jobs.Job{Row: o.row, ClaimID: "c", Number: o.row.Attempt + 1, Link: o.link, ClaimedAt: o.now}
	out := o.s.Apply(o.t.Context(), []*jobs.Job{j})[0]
	if lost != nil && lost() {
		out = connectors.Fail(connectors.Lost, "lost", "the daemon ended")
	}
	o.now = o.now.Add(50 * time.Millisecond)
	o.story = append(o.story, fmt.Sprintf("attempt %d: %s %s %s link %q resolved %v", j.Number, out.Class, out.Code, out.Message, out.Link, out.Resolved))
	o.settle(out)
	return out
}

// settle does what the journal does with an outcome.
func (o *office) settle(out connectors.Outcome) {
	fol := jobs.FollowOf(out.Class)
	o.row.Attempt++
	if fol.Confirms || out.Resolved {
		o.row.UnresolvedAt = time.Time{}
	}
	if fol.Doubts {
		o.row.UnresolvedAt = o.now
	}
	if out.Link != "" {
		o.link = out.Link
	}
	o.row.LastClass, o.row.LastCode, o.row.LastAt = out.Class, out.Code, o.now
	o.row.DueAt = o.now.Add(max(out.RetryAfter, time.Second))
	switch {
	case fol.Confirms:
		o.row.State = jobs.Done
		o.row.AppliedGeneration, o.row.AppliedGone, o.row.AppliedAt = o.row.Generation, o.row.Gone, o.now
	case out.Class == connectors.Missing:
		o.link = ""
	case fol.Kills || out.Class == connectors.Frozen:
		o.row.State = jobs.Dead
	}
	if at := o.row.UnresolvedAt.Add(time.Minute); o.row.Unresolved() && at.After(o.row.DueAt) {
		o.row.DueAt = at // the entity's settle_time
	}
}

// finish applies the job until it is done or dead.
func (o *office) finish() {
	o.t.Helper()
	for range 12 {
		if o.row.State != jobs.Ready {
			return
		}
		o.attempt(nil)
	}
	o.t.Errorf("the job comes to no end:\n%s", strings.Join(o.story, "\n"))
}

// sale tells in short what is held under a key.
func (s *fakeERP) sale(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for id, r := range s.tables["sale.sale"] {
		if r["web_id"] != key {
			continue
		}
		text := fmt.Sprint(r["state"])
		c := &erpCall{s, s.models["sale.sale"], map[string]any{"active_test": false}}
		for _, l := range c.children(r, c.m.fields["lines"]) {
			line := s.tables["sale.line"][l]
			text += fmt.Sprintf(" [%v %v x %v]", line["description"], line["quantity"], line["unit_price"].(map[string]any)["decimal"])
		}
		if n := s.processed[id]; n > 0 {
			text += fmt.Sprintf(" processed %d", n)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func (s *fakeERP) party(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, r := range s.tables["party.party"] {
		if r["code"] != key {
			continue
		}
		text := fmt.Sprint(r["name"])
		c := &erpCall{s, s.models["party.party"], map[string]any{}}
		for _, a := range c.children(r, c.m.fields["addresses"]) {
			text += fmt.Sprintf(" [%v]", s.tables["party.address"][a]["street"])
		}
		if r["active"] == false {
			text += " archived"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func (s *fakeERP) product(key string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	c := &erpCall{s, s.models["product.product"], map[string]any{"active_test": false}}
	for _, r := range s.tables["product.product"] {
		if c.value(r, "code") != key {
			continue
		}
		t := s.tables["product.template"][int64(intOf(r["template"]))]
		text := fmt.Sprint(t["name"])
		if r["active"] == false || t["active"] == false {
			text += fmt.Sprintf(" active %v, template %v", r["active"], t["active"])
		}
		out = append(out, text)
	}
	return fmt.Sprintf("%s of %d", strings.Join(out, "; "), len(s.tables["product.template"]))
}

// histories are records with the versions that they go through, and what the
// ERP must hold in the end.
var histories = []struct {
	name, entity string
	strategy     connectors.Strategy
	versions     []string
	want         string
	look         func(s *fakeERP) string
}{
	{"a sale brought to processing", "sale", connectors.ExternalRef, []string{
		`{"party":6,"invoice_address":7,"shipment_address":7,"currency":"USD","state":"processing","lines":[
		  {"description":"mug","quantity":2,"unit_price":"12.5"},{"description":"shipping","quantity":1,"unit_price":"5.95"}]}`},
		"processing [mug 2 x 12.5] [shipping 1 x 5.95] processed 1", func(s *fakeERP) string { return s.sale("K-1") }},
	{"a sale whose lines change before it is processed", "sale", connectors.ExternalRef, []string{
		`{"party":6,"invoice_address":7,"shipment_address":7,"state":"quotation","lines":[
		  {"description":"mug","quantity":2,"unit_price":"12.5"},{"description":"shipping","quantity":1,"unit_price":"5.95"}]}`,
		`{"party":6,"invoice_address":7,"shipment_address":7,"state":"processing","lines":[
		  {"description":"mug","quantity":3,"unit_price":"12.5"},{"description":"cup","quantity":1,"unit_price":"4"},{"description":"shipping","quantity":1,"unit_price":"5.95"}]}`},
		"processing [mug 3 x 12.5] [cup 1 x 4] [shipping 1 x 5.95] processed 1", func(s *fakeERP) string { return s.sale("K-1") }},
	{"a sale found by looking it up", "sale", connectors.Lookup, []string{
		`{"party":6,"invoice_address":7,"shipment_address":7,"state":"quotation","lines":[{"description":"mug","quantity":2,"unit_price":"12.5"}]}`,
		`{"party":6,"invoice_address":7,"shipment_address":7,"state":"cancelled"}`},
		"cancelled [mug 2 x 12.5]", func(s *fakeERP) string { return s.sale("K-1") }},
	{"a party that moves and goes", "party", connectors.ExternalRef, []string{
		`{"name":"Ada","addresses":[{"street":"1 Road"},{"street":"2 Road"}]}`,
		`{"name":"Ada L.","addresses":[{"street":"2 Road"},{"street":"3 Road"}]}`, ``},
		"Ada L. [3 Road] [2 Road] archived", func(s *fakeERP) string { return s.party("K-1") }},
	{"a product that goes and comes back", "product", connectors.ExternalRef, []string{
		`{"name":"Mug","default_uom":"Unit"}`, ``, `{"name":"Mug, blue","default_uom":"Unit"}`},
		"Mug, blue of 1", func(s *fakeERP) string { return s.product("K-1") }},
}

// trouble is what can happen to one request, or in the middle of it.
type trouble struct {
	name  string
	fault hostile.Fault
	// in is an error that the server answers with status 200, before or after its work.
	before, after error
	// lost ends the daemon during the attempt that meets it.
	lost bool
}

func allTroubles() []trouble {
	var l []trouble
	for _, name := range []string{"reset_before", "reset_after", "close_after", "fail_500", "fail_500_after", "fail_502", "fail_503_seconds", "fail_504_after",
		"status_401", "status_403_html", "status_404", "html", "html_after", "empty_after", "cut_body", "truncated_json", "throttled_seconds"} {
		l = append(l, trouble{name: name, fault: hostile.Named(name)})
	}
	return append(l,
		trouble{name: "database closed before", before: textError("server closed the connection unexpectedly\n\tThis probably means")},
		trouble{name: "database closed after", after: textError("server closed the connection unexpectedly\n\tThis probably means")},
		trouble{name: "another exception after", after: textError("'NoneType' object has no attribute 'id'")},
		trouble{name: "changed meanwhile", before: trytonError{"ConcurrencyException", "Records were modified in the meanwhile"}},
		trouble{name: "the daemon ends after its answer", lost: true},
		trouble{name: "the daemon ends without its answer", fault: hostile.Named("reset_after"), lost: true},
	)
}

// counter counts requests.
type counter struct {
	mu sync.Mutex
	n  int
}

func (c *counter) add() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return c.n
}

func (c *counter) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// run plays a history with trouble at the n-th request, and returns how many
// requests there were.
func (o *office) run(versions []string, tr trouble, n int) (requests int) {
	var count counter
	o.front.Next(tr.fault, func(*http.Request) bool { return count.add() == n && tr.fault.Name != "" })
	once := func(err error) func(string) error {
		if err == nil {
			return nil
		}
		done := false
		return func(string) error {
			if count.get() != n || done {
				return nil
			}
			done = true
			return err
		}
	}
	o.erp.mu.Lock()
	o.erp.before, o.erp.after = once(tr.before), once(tr.after)
	o.erp.mu.Unlock()
	for _, v := range versions {
		o.want(v)
		for range 12 {
			if o.row.State != jobs.Ready {
				break
			}
			before := count.get()
			o.attempt(func() bool { return tr.lost && before < n && count.get() >= n })
		}
		if o.row.State != jobs.Done {
			o.t.Errorf("a version did not come to its end")
		}
	}
	o.front.Calm()
	return count.get()
}

// Whatever happens to whichever request, the ERP ends with the record once, as
// its last version says.
func TestTroubleAtAnyRequestLeavesOneRecordAsWanted(t *testing.T) {
	step := 1
	if testing.Short() {
		step = 7
	}
	for _, h := range histories {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			clean := newOffice(t, h.entity, h.strategy, 20*time.Second)
			clean.erp.insert("party.address", row{"party": guest, "street": "Guest road"})
			total := clean.run(h.versions, trouble{}, 0)
			if got := h.look(clean.erp); got != h.want {
				t.Fatalf("without trouble the ERP holds %s, want %s\n%s", got, h.want, strings.Join(clean.story, "\n"))
			}
			for _, tr := range allTroubles() {
				t.Run(tr.name, func(t *testing.T) {
					for n := 1; n <= total; n += step {
						o := newOffice(t, h.entity, h.strategy, 20*time.Second)
						o.erp.insert("party.address", row{"party": guest, "street": "Guest road"})
						o.run(h.versions, tr, n)
						if got := h.look(o.erp); got != h.want || t.Failed() {
							t.Fatalf("at request %d the ERP holds %s, want %s\n%s\n%s", n, got, h.want, strings.Join(o.story, "\n"), strings.Join(o.erp.log, "\n"))
						}
					}
				})
			}
		})
	}
}
