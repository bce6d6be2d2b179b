package tryton

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

var update = flag.Bool("update", false, "write the golden files anew")

// clerk calls the primitives of an entity of a fake ERP.
type clerk struct {
	*office
	entity connectors.Entity
}

func newClerk(t testing.TB, entity string) *clerk {
	t.Helper()
	o := &office{t: t, erp: newFakeERP(), now: time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)}
	c := &clerk{office: o}
	o.serve()
	c.reopen(entity)
	return c
}

// reopen connects anew.
func (c *clerk) reopen(entity string) {
	c.t.Helper()
	var err error
	if c.entity, err = c.open(20 * time.Second).Target().Entity(entity); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clerk) write(link, body string) connectors.Write {
	return connectors.Write{Key: "K-1", Link: link, Body: json.RawMessage(body)}
}

func (c *clerk) create(body string) connectors.Outcome {
	return c.entity.(connectors.Creator).Create(c.t.Context(), c.write("", body))
}

func (c *clerk) change(link, body string) connectors.Outcome {
	return c.entity.(connectors.Updater).Update(c.t.Context(), c.write(link, body))
}

func (c *clerk) archive(link string) connectors.Outcome {
	return c.entity.(connectors.Remover).Remove(c.t.Context(), connectors.Write{Key: "K-1", Link: link, Removal: connectors.Archive})
}

func (c *clerk) advance(link, body string) connectors.Outcome {
	return c.entity.(connectors.Advancer).Advance(c.t.Context(), c.write(link, body))
}

// calls returns the methods called since the last time.
func (c *clerk) calls() string {
	c.erp.mu.Lock()
	defer c.erp.mu.Unlock()
	var l []string
	for _, m := range c.erp.log {
		if !strings.HasPrefix(m, " ") {
			l = append(l, strings.TrimPrefix(m, "model."))
		}
	}
	c.erp.log = nil
	return strings.Join(l, " ")
}

func (c *clerk) want(o connectors.Outcome, class connectors.Class, text string) {
	c.t.Helper()
	got := o.Code
	if o.Message != "" {
		got += ": " + o.Message
	}
	if o.Class != class || got != text {
		c.t.Errorf("got  %s %s\nwant %s %s", o.Class, got, class, text)
	}
}

const aSale = `"party":6,"invoice_address":%d,"shipment_address":%d,"reference":"R-1"`

// inState makes a sale that stands in a state.
func (c *clerk) inState(state string) (link, fields string) {
	address := c.erp.insert("party.address", row{"party": guest})
	id := c.erp.insert("sale.sale", row{"web_id": "K-1", "party": guest, "reference": "R-1", "invoice_address": address, "shipment_address": address, "state": state})
	return strconv.FormatInt(id, 10), fmt.Sprintf(aSale, address, address)
}

// What becomes of a sale in each state, for each state that a record asks for:
// when its fields are as they are, and when they differ.
func TestEveryStateOfASaleIsBroughtToEveryWantedOne(t *testing.T) {
	var out strings.Builder
	tell := func(o connectors.Outcome, c *clerk, id string) string {
		text := string(o.Class)
		if o.Class == connectors.Frozen {
			return text
		}
		r := c.erp.tables["sale.sale"][int64(intOf(id))]
		return fmt.Sprintf("%s, %v", text, r["state"])
	}
	for _, from := range []string{draft, quotation, confirmed, processing, "done", cancelled} {
		for _, to := range []string{draft, quotation, processing, cancelled} {
			for _, differs := range []bool{false, true} {
				c := newClerk(t, "sale")
				link, fields := c.inState(from)
				if differs {
					fields = strings.Replace(fields, "R-1", "R-2", 1)
				}
				body := fmt.Sprintf(`{%s,"state":%q}`, fields, to)
				up := c.change(link, body)
				line := fmt.Sprintf("%-10s -> %-10s %-9s update: %-22s", from, to, map[bool]string{false: "same", true: "changed"}[differs], tell(up, c, link))
				if up.Class.Confirmed() {
					line += " advance: " + tell(c.advance(link, body), c, link)
				}
				out.WriteString(strings.TrimRight(line, " ") + "\n")
				if ref := c.erp.tables["sale.sale"][int64(intOf(link))]["reference"]; up.Class == connectors.Applied && ref != "R-2" {
					t.Errorf("%s -> %s: the reference is %v", from, to, ref)
				}
			}
		}
	}
	const golden = "testdata/states.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

func TestASaleTakesFewRequests(t *testing.T) {
	c := newClerk(t, "sale")
	address := c.erp.insert("party.address", row{"party": guest})
	fields := fmt.Sprintf(aSale, address, address)
	o := c.create(fmt.Sprintf(`{%s,"lines":[{"quantity":1}]}`, fields)) // what is asked once
	c.advance(o.Link, `{}`)
	c.calls()
	c.erp.mu.Lock()
	c.erp.tables["sale.sale"] = map[int64]row{}
	c.erp.mu.Unlock()
	for _, step := range []struct {
		name string
		do   func() connectors.Outcome
		want string
	}{
		{"create", func() connectors.Outcome {
			o = c.create(fmt.Sprintf(`{%s,"state":"processing","lines":[{"quantity":1}]}`, fields))
			return o
		}, "sale.sale.create"},
		{"bring it to processing", func() connectors.Outcome { return c.advance(o.Link, `{"state":"processing"}`) }, "sale.sale.quote sale.sale.confirm sale.sale.search_read"},
		{"write it again", func() connectors.Outcome {
			return c.change(o.Link, fmt.Sprintf(`{%s,"state":"processing","lines":[{"quantity":1}]}`, fields))
		}, "sale.sale.search_read"},
		{"look where it is", func() connectors.Outcome { return c.advance(o.Link, `{"state":"processing"}`) }, "sale.sale.search_read"},
	} {
		if got := step.do(); !got.Class.Confirmed() {
			t.Fatalf("%s: %+v", step.name, got)
		}
		if got := c.calls(); got != step.want {
			t.Errorf("%s: %s, want %s", step.name, got, step.want)
		}
	}
}

// A sale that we left in draft may have been taken further by somebody else.
func TestSomebodyWhoIsQuickerIsNotOverlooked(t *testing.T) {
	for _, c := range []struct {
		theirs, want string
		class        connectors.Class
	}{
		{processing, processing, connectors.Applied},
		{processing, quotation, connectors.Frozen},
		{cancelled, quotation, connectors.Applied},
	} {
		k := newClerk(t, "sale")
		address := k.erp.insert("party.address", row{"party": guest})
		o := k.create(fmt.Sprintf(`{%s}`, fmt.Sprintf(aSale, address, address)))
		k.erp.tables["sale.sale"][int64(intOf(o.Link))]["state"] = c.theirs
		if got := k.advance(o.Link, fmt.Sprintf(`{"state":%q}`, c.want)); got.Class != c.class {
			t.Errorf("theirs %s, wanted %s: %+v", c.theirs, c.want, got)
		}
	}
	// And what we left in draft long ago is looked at.
	k := newClerk(t, "sale")
	o := k.create(`{"party":6}`)
	k.erp.tables["sale.sale"][int64(intOf(o.Link))]["state"] = processing
	k.now = k.now.Add(time.Minute)
	k.want(k.advance(o.Link, `{"state":"draft"}`), connectors.Frozen, "frozen: sale "+o.Link+" is in state processing; it can no longer become draft")
}

func TestAServerThatPutsProcessingOffIsToldToProcess(t *testing.T) {
	c := newClerk(t, "sale")
	c.erp.lazy = true
	link, _ := c.inState(draft)
	c.want(c.advance(link, `{"state":"processing"}`), connectors.Applied, "")
	if got := c.erp.sale("K-1"); got != "processing processed 1" {
		t.Errorf("the sale is %s", got)
	}
}

// The server answers well to a confirmation whose processing failed, and leaves
// the sale confirmed. Why it failed shows when it is told to process.
func TestAProcessingThatFailsIsTold(t *testing.T) {
	c := newClerk(t, "sale")
	c.erp.broken = userError(`To invoice sale "[R-1]" you must configure a default account revenue.`)
	link, _ := c.inState(draft)
	c.want(c.advance(link, `{"state":"processing"}`), connectors.Invalid, `user_error: To invoice sale "…" you must configure a default account revenue.`)
	c.erp.broken = nil
	c.want(c.advance(link, `{"state":"processing"}`), connectors.Applied, "")
	if got := c.erp.sale("K-1"); got != "processing processed 1" {
		t.Errorf("the sale is %s", got)
	}
}

func TestASaleGetsItsPartysFirstAddress(t *testing.T) {
	c := newClerk(t, "sale")
	c.erp.insert("party.address", row{"party": guest, "active": false})
	first := c.erp.insert("party.address", row{"party": guest})
	c.erp.insert("party.address", row{"party": guest})
	other := c.erp.insert("party.address", row{"party": guest})
	o := c.create(fmt.Sprintf(`{"party":6,"shipment_address":%d}`, other))
	r := c.erp.tables["sale.sale"][int64(intOf(o.Link))]
	if intOf(r["invoice_address"]) != int(first) || intOf(r["shipment_address"]) != int(other) {
		t.Errorf("invoice to %v, shipment to %v; want %d and %d", r["invoice_address"], r["shipment_address"], first, other)
	}
}

func TestAQuoteWithoutAnAddressIsRefusedWithItsReason(t *testing.T) {
	c := newClerk(t, "sale")
	o := c.create(`{"party":6,"reference":"Ada Lovelace"}`)
	c.want(c.advance(o.Link, `{"state":"quotation"}`), connectors.Invalid, `user_error: To get a quote for sale "…" you must enter an invoice address.`)
}

func TestAStateThatNoSaleCanBeBroughtToIsRefused(t *testing.T) {
	for _, state := range []string{`"done"`, `"confirmed"`, `"shipped"`, `1`, `""`} {
		c := newClerk(t, "sale")
		for name, o := range map[string]connectors.Outcome{"create": c.create(`{"party":6,"state":` + state + `}`), "advance": c.advance("7", `{"state":`+state+`}`)} {
			if o.Class != connectors.Invalid || o.Code != "state" {
				t.Errorf("%s with %s: %+v", name, state, o)
			}
		}
		if got := c.erp.sale("K-1"); got != "" {
			t.Errorf("%s: the ERP holds %s", state, got)
		}
	}
}
