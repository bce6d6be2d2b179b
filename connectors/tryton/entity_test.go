package tryton

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

const patience = 20 * time.Second

func replaceAll(s, old, with string) string { return strings.ReplaceAll(s, old, with) }

func (c *clerk) find() string {
	c.t.Helper()
	l, err := c.entity.(connectors.Finder).Find(c.t.Context(), connectors.Write{Key: "K-1"})
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, f := range l {
		text := f.Link
		if f.Archived {
			text += " archived"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestAnArchivedPartyIsFoundAndComesBack(t *testing.T) {
	c := newClerk(t, "party")
	o := c.create(`{"name":"Ada"}`)
	c.want(c.archive(o.Link), connectors.Applied, "")
	c.want(c.archive(o.Link), connectors.Unchanged, "")
	if got := c.find(); got != o.Link+" archived" {
		t.Errorf("found %s", got)
	}
	// Its code is still taken.
	if got := c.create(`{"name":"Ada"}`); !got.MaybeDuplicate || got.Class != connectors.Invalid {
		t.Errorf("%+v", got)
	}
	c.want(c.change(o.Link, `{"name":"Ada"}`), connectors.Applied, "")
	if got := c.erp.party("K-1"); got != "Ada" {
		t.Errorf("the party is %s", got)
	}
	c.want(c.change(o.Link, `{"name":"Ada","active":false}`), connectors.Applied, "")
	if got := c.erp.party("K-1"); got != "Ada archived" {
		t.Errorf("the party is %s", got)
	}
}

// A product's code is unique among active ones only, so that an archived one
// may bear it too. Both are found, and which of them is meant a person must say.
func TestAnArchivedProductWithTheSameCodeIsFoundToo(t *testing.T) {
	c := newClerk(t, "product")
	first := c.create(`{"name":"Mug","default_uom":"Unit"}`)
	c.want(c.archive(first.Link), connectors.Applied, "")
	second := c.create(`{"name":"Mug 2","default_uom":"Unit"}`)
	if second.Link == first.Link || second.Class != connectors.Applied {
		t.Fatalf("%+v", second)
	}
	if got := c.find(); got != first.Link+" archived, "+second.Link {
		t.Errorf("found %s", got)
	}
	o := c.change(first.Link, `{"name":"Mug","default_uom":"Unit"}`)
	c.want(o, connectors.Invalid, "user_error: Code of active product must be unique.")
}

func TestATemplateStaysWhileItHasOtherVariants(t *testing.T) {
	c := newClerk(t, "product")
	o := c.create(`{"name":"Mug","default_uom":"Unit"}`)
	template := intOf(c.erp.tables["product.product"][int64(intOf(o.Link))]["template"])
	c.erp.insert("product.product", row{"template": int64(template), "suffix_code": "-RED"})
	c.want(c.archive(o.Link), connectors.Applied, "")
	if c.erp.tables["product.template"][int64(template)]["active"] != true || c.erp.tables["product.product"][int64(intOf(o.Link))]["active"] != false {
		t.Error("the variant alone is to be archived")
	}
	c.want(c.archive(o.Link), connectors.Unchanged, "")
}

func TestAProductThatIsNotActiveIsCreatedSo(t *testing.T) {
	c := newClerk(t, "product")
	o := c.create(`{"name":"Mug","default_uom":"Unit","active":false}`)
	c.want(o, connectors.Applied, "")
	if got := c.erp.product("K-1"); got != "Mug active false, template false of 1" {
		t.Errorf("the product is %s", got)
	}
	c.want(c.change(o.Link, `{"name":"Mug","default_uom":"Unit","active":false}`), connectors.Unchanged, "")
	c.want(c.change(o.Link, `{"name":"Mug","default_uom":"Unit"}`), connectors.Applied, "")
	if got := c.erp.product("K-1"); got != "Mug of 1" {
		t.Errorf("the product is %s", got)
	}
	c.want(c.change(o.Link, `{"name":"Mug","active":"yes"}`), connectors.Invalid, "field: field active of product.template must be true or false; correct the flow's map")
}

// A database may be told to compare without regard to case.
func TestAKeyThatDiffersInCaseIsAnother(t *testing.T) {
	c := newClerk(t, "party")
	c.erp.caseless = true
	c.erp.insert("party.party", row{"code": "k-1", "name": "another"})
	if got := c.find(); got != "" {
		t.Errorf("found %s", got)
	}
}

func TestEveryCallAsksForEnglishAndForHiddenRecords(t *testing.T) {
	c := newClerk(t, "party")
	o := c.create(`{"name":"Ada"}`)
	c.change(o.Link, `{"name":"Ada L."}`)
	c.find()
	for _, context := range c.erp.contexts {
		if context["language"] != "en" || context["active_test"] != false || intOf(context["company"]) != 1 {
			t.Errorf("%v", context)
		}
	}
	if len(c.erp.contexts) < 4 {
		t.Errorf("%d calls", len(c.erp.contexts))
	}
}

func TestALinkThatIsNoIDIsRefused(t *testing.T) {
	for _, entity := range []string{"party", "product", "sale"} {
		c := newClerk(t, entity)
		for _, link := range []string{"", "x", "-1", "0", `"7"`} {
			o := c.change(link, `{"name":"A"}`)
			if entity == "sale" {
				o = c.advance(link, `{}`)
			}
			c.want(o, connectors.Invalid, "link: the stored link is no id of Tryton")
		}
	}
}

// Somebody saves the record between our reading and our writing.
func TestAChangeByAnotherHandIsNotWrittenOver(t *testing.T) {
	c := newClerk(t, "party")
	o := c.create(`{"name":"Ada"}`)
	id := int64(intOf(o.Link))
	c.erp.before = func(method string) error {
		if strings.HasSuffix(method, ".write") {
			c.erp.clock++
			c.erp.tables["party.party"][id]["_stamp"], c.erp.tables["party.party"][id]["name"] = c.erp.clock, "Augusta"
		}
		return nil
	}
	c.want(c.change(o.Link, `{"name":"Ada Lovelace"}`), connectors.Conflict, "concurrency: the record was changed meanwhile")
	c.erp.before = nil
	if got := c.erp.party("K-1"); got != "Augusta" {
		t.Errorf("the party is %s", got)
	}
	c.want(c.change(o.Link, `{"name":"Ada Lovelace"}`), connectors.Applied, "")
}

func TestAWarningIsADeadLetterWithItsSentence(t *testing.T) {
	c := newClerk(t, "sale")
	link, _ := c.inState(draft)
	c.erp.before = func(method string) error {
		if strings.HasSuffix(method, ".quote") {
			return trytonError{"UserWarning", []any{"sale_7_stock", `The stock of "Mug" is low.`, ""}}
		}
		return nil
	}
	c.want(c.advance(link, `{"state":"quotation"}`), connectors.Invalid, `user_warning: the server wants a person to confirm: The stock of "…" is low.`)
}

// A create that was refused as a duplicate is looked up, and goes on.
func TestARefusedDuplicateIsTakenOver(t *testing.T) {
	for _, h := range []struct{ entity, body string }{
		{"party", `{"name":"Ada"}`}, {"product", `{"name":"Ada","default_uom":"Unit"}`},
	} {
		o := newOffice(t, h.entity, connectors.ExternalRef, patience)
		for _, e := range suiteEntities {
			if e.name == h.entity {
				e.put(o.erp, "K-1", "somebody's")
			}
		}
		o.want(h.body)
		o.finish()
		if o.row.State != "done" || o.link == "" {
			t.Errorf("%s: %s", h.entity, strings.Join(o.story, "\n"))
		}
	}
	// And a refusal that was no duplicate stands.
	o := newOffice(t, "sale", connectors.ExternalRef, patience)
	o.want(`{"reference":"of nobody"}`)
	o.finish()
	if got := o.story[len(o.story)-1]; o.row.State != "dead" || !strings.Contains(got, `A value is required for field "Party" in "Sale".`) {
		t.Errorf("%s", got)
	}
}

func TestWhatIsAroundTheServerIsNotTheRecordsFault(t *testing.T) {
	for _, c := range []struct {
		fault string
		class connectors.Class
		code  string
	}{
		{"fail_500", connectors.Unknown, "http_500"}, {"fail_502", connectors.Unknown, "http_502"}, {"fail_504_after", connectors.Unknown, "http_504"},
		{"status_403_html", connectors.Auth, "http_403"}, {"status_404", connectors.Transient, "no_database"}, {"html", connectors.Unknown, "not_json"},
	} {
		k := newClerk(t, "party")
		k.find()
		k.front.Next(hostile.Named(c.fault), isWrite)
		o := k.create(`{"name":"Ada"}`)
		if o.Class != c.class || o.Code != c.code || o.Answered {
			t.Errorf("%s: %+v", c.fault, o)
		}
	}
}

func TestAButtonWhoseAnswerIsLostLeavesTheSaleInDoubt(t *testing.T) {
	c := newClerk(t, "sale")
	link, _ := c.inState(draft)
	c.find()
	c.front.Next(hostile.Named("reset_after"), isWrite)
	if o := c.advance(link, `{"state":"quotation"}`); o.Class != connectors.Unknown {
		t.Errorf("%+v", o)
	}
	c.want(c.advance(link, `{"state":"quotation"}`), connectors.Unchanged, "")
}

func TestCheckTellsWhatIsMissing(t *testing.T) {
	c := newClerk(t, "party")
	i := c.open(patience).(*instance)
	want := []connectors.Finding{{Subject: "party", Note: "1 records"}, {Subject: "product", Note: "0 records"}, {Subject: "sale", Note: "0 records"},
		{Subject: "invoice", Problem: `there is no entity "invoice"; there are party, product and sale`}}
	if diff := cmp.Diff(want, i.Check(t.Context(), nil, []string{"party", "product", "sale", "invoice"})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if diff := cmp.Diff([]connectors.Finding{{Note: "logged in"}}, i.Check(t.Context(), nil, nil)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	c.erp.denied = map[string]bool{"create sale.line": true, "write sale.sale": true}
	got := i.Check(t.Context(), nil, []string{"sale"})[0]
	if got.Problem != "the user may not create sale.line, write sale.sale; put it into a group that may" || got.Unreachable {
		t.Errorf("%+v", got)
	}
	delete(c.erp.models["sale.sale"].fields, "web_id")
	got = c.open(patience).Check(t.Context(), nil, []string{"sale"})[0]
	if got.Problem != "sale.sale has no field web_id; activate the module web_shop" {
		t.Errorf("%+v", got)
	}
	c.front.Always(hostile.Named("fail_502"))
	if got = c.open(patience).Check(t.Context(), nil, []string{"sale"})[0]; !got.Unreachable || got.Subject != "" {
		t.Errorf("%+v", got)
	}
}

func TestAnswersThatMakeNoSenseAreNotTakenForSuccess(t *testing.T) {
	for _, c := range []struct {
		name, body string
		class      connectors.Class
	}{
		{"no result", `{"id":1}`, connectors.Unknown},
		{"a list", `[1]`, connectors.Unknown},
		{"a bare number", `7`, connectors.Unknown},
		{"no id", `{"id":1,"result":null}`, connectors.Unknown},
		{"no ids", `{"id":1,"result":[]}`, connectors.Unknown},
		{"two ids", `{"id":1,"result":[1,2]}`, connectors.Unknown},
		{"a text for an id", `{"id":1,"result":["x"]}`, connectors.Unknown},
		{"an id of nothing", `{"id":1,"result":[0]}`, connectors.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newClerk(t, "party")
			k.find()
			k.front = hostile.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if isWrite(r) {
					_, _ = w.Write([]byte(c.body))
					return
				}
				k.erp.ServeHTTP(w, r)
			}))
			k.t.Cleanup(k.front.Close)
			k.reopen("party")
			if o := k.create(`{"name":"Ada"}`); o.Class != c.class {
				t.Errorf("%+v", o)
			}
		})
	}
}

func TestAnUnknownEntityIsNamed(t *testing.T) {
	c := newClerk(t, "party")
	_, err := c.open(patience).Target().Entity("invoice")
	if err == nil || err.Error() != `tryton has no entity "invoice"; there are party, product and sale` {
		t.Errorf("%v", err)
	}
	var e *connectors.Error
	if c.open(patience).Source() != nil || errors.As(err, &e) {
		t.Error("it is a target only")
	}
}
