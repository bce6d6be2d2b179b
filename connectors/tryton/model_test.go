package tryton

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance"
	"syncd/connectors/conformance/hostile"
	"syncd/internal/field"
)

func settingsFor(url string) *Settings {
	return &Settings{URL: url, Database: "erp", User: "syncd", Password: field.NewSecret("s3cret"), Settle: time.Minute}
}

// writes tells a request that changes something by its method.
var writes = regexp.MustCompile(`"method":"model\.[a-z_.]+\.(create|write|quote|confirm|process|draft|cancel)"`)

func isWrite(r *http.Request) bool {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return writes.Match(body)
}

// guest is the id of a party that every fake ERP has.
const guest = 6

// suiteEntity says how records of the suite are kept in an entity.
type suiteEntity struct {
	name string
	// model holds the key and the value; keyed is the model that the link is of.
	model, value, other string
	body, refused       row
	put                 func(s *fakeERP, key, value string) int64
}

var suiteEntities = []suiteEntity{
	{name: "party", model: "party.party", value: "name", other: "staff", body: row{}, refused: row{"name": "two\nlines"},
		put: func(s *fakeERP, key, value string) int64 {
			return s.insert("party.party", row{"code": key, "name": value})
		}},
	{name: "product", model: "product.product", value: "name", other: "cost_price_method", body: row{"default_uom": "Unit"}, refused: row{"name": "no unit"},
		put: func(s *fakeERP, key, value string) int64 {
			t := s.insert("product.template", row{"code": key, "name": value, "default_uom": 3})
			return s.insert("product.product", row{"template": t, "suffix_code": ""})
		}},
	{name: "sale", model: "sale.sale", value: "description", other: "comment", body: row{"party": guest}, refused: row{"description": "of nobody"},
		put: func(s *fakeERP, key, value string) int64 {
			return s.insert("sale.sale", row{"web_id": key, "description": value, "party": guest})
		}},
}

// place is the row that holds value and other of the record behind an id.
func (e *suiteEntity) place(s *fakeERP, id int64) row {
	r := s.tables[e.model][id]
	if e.name == "product" {
		return s.tables["product.template"][int64(intOf(r["template"]))]
	}
	return r
}

func (e *suiteEntity) ids(s *fakeERP, key string) (out []int64) {
	field := map[string]string{"sale": "web_id"}[e.name]
	if field == "" {
		field = "code"
	}
	c := &erpCall{fakeERP: s, m: s.models[e.model], context: map[string]any{"active_test": false}}
	for id, r := range s.tables[e.model] {
		if c.value(r, field) == key {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

func (e *suiteEntity) suite(t testing.TB) conformance.TargetModel {
	s := newFakeERP()
	front := hostile.Wrap(s)
	t.Cleanup(front.Close)
	locked := func(do func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		do()
	}
	return conformance.TargetModel{
		Entity: e.name, Hostile: front, IsWrite: isWrite, Refreshes: true,
		Key: func(n int) string { return fmt.Sprintf("K-%d/ä+%%", n) },
		Body: func(value string) json.RawMessage {
			b := row{e.value: value}
			for k, v := range e.body {
				b[k] = v
			}
			j, _ := json.Marshal(b)
			return j
		},
		Refused: func() json.RawMessage {
			j, _ := json.Marshal(e.refused)
			return j
		},
		Held: func(key string) (out []conformance.Held) {
			locked(func() {
				for _, id := range e.ids(s, key) {
					v, _ := e.place(s, id)[e.value].(string)
					out = append(out, conformance.Held{Link: strconv.FormatInt(id, 10), Value: v, Archived: s.tables[e.model][id]["active"] == false})
				}
			})
			return out
		},
		Put: func(key, value string) (link string) {
			locked(func() { link = strconv.FormatInt(e.put(s, key, value), 10) })
			return link
		},
		Erase: func(link string) {
			locked(func() { delete(s.tables[e.model], int64(intOf(link))) })
		},
		Other: func(key string) (v string) {
			locked(func() { v = fmt.Sprint(e.place(s, e.ids(s, key)[0])[e.other]) })
			return v
		},
		SetOther: func(key, value string) {
			locked(func() { e.place(s, e.ids(s, key)[0])[e.other] = value })
		},
		Open: func(env connectors.Env) (connectors.Instance, error) {
			return settingsFor(front.URL).Open(t.Context(), env)
		},
	}
}

func TestEveryEntityPassesTheSuiteForTargets(t *testing.T) {
	for _, e := range suiteEntities {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			conformance.Target(t, func(t testing.TB) conformance.TargetModel { return e.suite(t) })
		})
	}
}
