package tryton

import (
	"encoding/json"
	"fmt"
	"testing"

	"syncd/connectors"
)

// kids makes children of texts; "-" stands for one that is archived.
func kids(names ...string) (out []map[string]any) {
	for i, n := range names {
		m := map[string]any{"id": json.Number(fmt.Sprint(i + 1)), "street": n, "active": true}
		if n[0] == '-' {
			m["street"], m["active"] = n[1:], false
		}
		out = append(out, m)
	}
	return out
}

func streets(names ...string) (out []map[string]any) {
	for _, n := range names {
		out = append(out, map[string]any{"street": n})
	}
	return out
}

func TestChildrenAreBroughtToBeAsListed(t *testing.T) {
	for _, c := range []struct {
		name              string
		have, want        []string
		kept, replacement string // the commands, where children can be archived and where not
	}{
		{"the same", []string{"a", "b"}, []string{"a", "b"}, `null`, `null`},
		{"none before", nil, []string{"a", "b"}, `[["create",[a,b]]]`, `[["create",[a,b]]]`},
		{"none wanted", []string{"a", "b"}, nil, `[["write",[1,2],{"active":false}]]`, `[["delete",[1,2]]]`},
		{"the last one changed", []string{"a", "b"}, []string{"a", "c"}, `[["write",[2],c]]`, `[["delete",[2]],["create",[c]]]`},
		{"the first one changed", []string{"a", "b"}, []string{"c", "b"}, `[["write",[1],c]]`, `[["delete",[1,2]],["create",[c,b]]]`},
		{"one more at the end", []string{"a"}, []string{"a", "b"}, `[["create",[b]]]`, `[["create",[b]]]`},
		{"one more in front", []string{"b"}, []string{"a", "b"}, `[["create",[a]]]`, `[["delete",[1]],["create",[a,b]]]`},
		{"the first one gone", []string{"a", "b", "c"}, []string{"b", "c"}, `[["write",[1],{"active":false}]]`, `[["delete",[1,2,3]],["create",[b,c]]]`},
		{"another order", []string{"a", "b"}, []string{"b", "a"}, `null`, `null`},
		{"another order, with twins", []string{"a", "b", "a"}, []string{"b", "a", "a"}, `null`, `null`},
		{"other twins", []string{"a", "b", "b"}, []string{"b", "a", "a"}, `[["write",[3],a]]`, `[["delete",[1,2,3]],["create",[b,a,a]]]`},
		{"twins", []string{"a", "a"}, []string{"a"}, `[["write",[2],{"active":false}]]`, `[["delete",[2]]]`},
		{"twins wanted", []string{"a"}, []string{"a", "a"}, `[["create",[a]]]`, `[["create",[a]]]`},
		{"an archived one does not count", []string{"-a", "b"}, []string{"a", "b"}, `[["create",[a]]]`, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			commands := func(cmds []any) string {
				b, err := json.Marshal(cmds)
				if err != nil {
					t.Fatal(err)
				}
				s := string(b)
				for _, n := range []string{"a", "b", "c"} {
					s = replaceAll(s, `{"street":"`+n+`"}`, n)
				}
				return s
			}
			k := newClerk(t, "party")
			r := k.open(patience).(*instance).rpc
			got, err := r.children(t.Context(), "party.address", kids(c.have...), streets(c.want...))
			if err != nil || commands(got) != c.kept {
				t.Errorf("kept: %s, want %s (%v)", commands(got), c.kept, err)
			}
			if c.replacement == "" {
				return
			}
			if got := commands(replaced(kids(c.have...), streets(c.want...))); got != c.replacement {
				t.Errorf("replaced: %s, want %s", got, c.replacement)
			}
		})
	}
}

// A record that becomes another must not keep a value that only the first had.
func TestAValueOfTheOneBeforeDoesNotStay(t *testing.T) {
	have := []map[string]any{
		{"id": json.Number("1"), "street": "1 Road", "party_name": "Byron Ltd", "city": ""},
		{"id": json.Number("2"), "street": "2 Road", "party_name": nil, "city": nil},
	}
	want := []map[string]any{{"street": "3 Road"}, {"street": "4 Road", "party_name": "Babbage Ltd", "city": "London"}}
	got, _ := json.Marshal(kept(have, want))
	if s := `[["write",[1],{"party_name":null,"street":"3 Road"}],["write",[2],{"city":"London","party_name":"Babbage Ltd","street":"4 Road"}]]`; string(got) != s {
		t.Errorf("got  %s\nwant %s", got, s)
	}
}

// A line for a product that becomes one for shipping must not keep the product.
func TestALineIsWhollyAsWanted(t *testing.T) {
	c := newClerk(t, "sale")
	address := c.erp.insert("party.address", row{"party": guest})
	mug := c.erp.insert("product.product", row{"template": c.erp.insert("product.template", row{"name": "Mug", "default_uom": 3})})
	sale := fmt.Sprintf(aSale, address, address)
	o := c.create(fmt.Sprintf(`{%s,"lines":[{"product":%d,"quantity":1,"note":"gift"},{"product":%d,"quantity":2},{"description":"shipping","quantity":1}]}`, sale, mug, mug))
	c.want(c.change(o.Link, fmt.Sprintf(`{%s,"lines":[{"product":%d,"quantity":1,"note":"gift"},{"description":"shipping","quantity":1}]}`, sale, mug)), connectors.Applied, "")
	var products []any
	s := &erpCall{c.erp, c.erp.models["sale.sale"], map[string]any{}}
	for _, l := range s.children(c.erp.tables["sale.sale"][int64(intOf(o.Link))], s.m.fields["lines"]) {
		products = append(products, c.erp.tables["sale.line"][l]["product"])
	}
	if len(products) != 2 || intOf(products[0]) != int(mug) || products[1] != nil {
		t.Errorf("the lines are of products %v", products)
	}
}

func TestALineOfAnUnknownFieldIsRefused(t *testing.T) {
	c := newClerk(t, "sale")
	c.want(c.create(`{"party":6,"lines":[{"quantity":1,"colour":"red"}]}`), connectors.Invalid,
		`field: sale.line has no field "colour"; correct the flow's map, or activate the module that adds it`)
}

func TestListsWithinListsAreRefused(t *testing.T) {
	c := newClerk(t, "party")
	c.erp.models["party.address"].fields["people"] = fakeField{kind: "one2many", relation: "party.party", label: "People"}
	c.want(c.create(`{"name":"A","addresses":[{"people":[{"name":"B"}]}]}`), connectors.Invalid,
		"field: field people of party.address must be left out: lists within lists cannot be written; correct the flow's map")
}

func TestAListThatIsNullStaysAsItIs(t *testing.T) {
	c := newClerk(t, "party")
	o := c.create(`{"name":"A","addresses":[{"street":"1 Road"}]}`)
	c.want(c.change(o.Link, `{"name":"B","addresses":null}`), connectors.Applied, "")
	if got := c.erp.party("K-1"); got != "B [1 Road]" {
		t.Errorf("the party is %s", got)
	}
	c.want(c.change(o.Link, `{"name":"B","addresses":[]}`), connectors.Applied, "")
	if got := c.erp.party("K-1"); got != "B" {
		t.Errorf("the party is %s", got)
	}
}
