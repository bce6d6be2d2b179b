package tryton

import (
	"encoding/json"
	"strings"
	"testing"

	"syncd/connectors"
)

// arrived is what a field of the record holds in the ERP, as JSON.
func arrived(c *clerk, model, field string) string {
	for _, r := range c.erp.tables[model] {
		if r["code"] == "K-1" {
			b, _ := json.Marshal(r[field])
			return string(b)
		}
	}
	return "nothing"
}

func TestValuesAreSentAsTheServerWantsThem(t *testing.T) {
	for _, c := range []struct {
		name, entity, field, value string
		want                       string // what arrives, or the refusal
	}{
		{"decimal as a number", "product", "list_price", `12.50`, `{"__class__":"Decimal","decimal":"12.50"}`},
		{"decimal as a text", "product", "list_price", `"12.50"`, `{"__class__":"Decimal","decimal":"12.50"}`},
		{"decimal with an exponent", "product", "list_price", `1e2`, `{"__class__":"Decimal","decimal":"1e2"}`},
		{"decimal null", "product", "list_price", `null`, `null`},
		{"no decimal", "product", "list_price", `"free"`, "field: field list_price of product.template must be a decimal number; correct the flow's map"},
		{"a fraction", "product", "list_price", `"1/3"`, "field: field list_price of product.template must be a decimal number; correct the flow's map"},
		{"a large exponent", "product", "list_price", `1e100`, "field: field list_price of product.template must be a decimal number; correct the flow's map"},
		{"an enormous exponent", "product", "list_price", `1e999999999`, "field: field list_price of product.template must be a decimal number; correct the flow's map"},
		{"whole number", "party", "staff", `3.0`, `3`},
		{"no whole number", "party", "staff", `3.5`, "field: field staff of party.party must be a whole number; correct the flow's map"},
		{"date", "party", "since", `"2026-11-29"`, `{"__class__":"date","day":29,"month":11,"year":2026}`},
		{"no date", "party", "since", `"29.11.2026"`, "field: field since of party.party must be a date such as 2026-11-29; correct the flow's map"},
		{"a number for a date", "party", "since", `20261129`, "field: field since of party.party must be a date such as 2026-11-29; correct the flow's map"},
		{"time, in UTC", "party", "seen", `"2026-11-29T01:30:00.25+02:00"`, `{"__class__":"datetime","day":28,"hour":23,"microsecond":250000,"minute":30,"month":11,"second":0,"year":2026}`},
		{"no time", "party", "seen", `"yesterday"`, "field: field seen of party.party must be an RFC 3339 time such as 2026-11-29T15:04:05Z; correct the flow's map"},
		{"reference by id", "party", "lang", `5`, `5`},
		{"reference by code", "party", "lang", `"en"`, `5`},
		{"reference by name", "party", "lang", `"English"`, `5`},
		{"reference to nothing", "party", "lang", `"Klingon"`, "relation: the text in field lang of party.party names no record of ir.lang; give its code, its name or its id"},
		{"reference that is empty", "party", "lang", `""`, "field: field lang of party.party must be an id, a reference, or a text that names one record; correct the flow's map"},
		{"reference by a fraction", "party", "lang", `1.5`, "field: field lang of party.party must be an id, a reference, or a text that names one record; correct the flow's map"},
		{"reference by symbol", "product", "sale_uom", `"u"`, `3`},
		{"boolean", "product", "salable", `true`, `true`},
		{"no boolean", "product", "salable", `"yes"`, "field: field salable of product.template must be true or false; correct the flow's map"},
		{"text", "product", "name", `"Mug ☕"`, `"Mug ☕"`},
		{"a number for a text", "product", "name", `9007199254740993`, `"9007199254740993"`},
		{"no text", "product", "name", `{"de":"Becher"}`, "field: field name of product.template must be a text; correct the flow's map"},
		{"several of a selection", "product", "colours", `["red","blue"]`, `["red","blue"]`},
		{"a type that is not known here", "product", "extra", `{"a":1}`, `{"a":1}`},
		{"many to many", "party", "categories", `[1]`, "field: field categories of party.party must be left out: many-to-many fields cannot be written; correct the flow's map"},
		{"a list that is none", "party", "addresses", `"here"`, "field: field addresses of party.party must be a list of objects; correct the flow's map"},
		{"a list of texts", "party", "addresses", `["here"]`, "field: field addresses of party.party must be a list of objects; correct the flow's map"},
		{"no such field", "party", "nickname", `"A"`, `field: party.party has no field "nickname"; correct the flow's map, or activate the module that adds it`},
		{"the variants", "product", "products", `[]`, "field: field products of product.template must be left out: the variant is made here; correct the flow's map"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newClerk(t, c.entity)
			base, model := `"name":"A"`, "party.party"
			if c.entity == "product" {
				base, model = `"name":"A","default_uom":"Unit"`, "product.template"
			}
			o := k.create(`{` + base + `,"` + c.field + `":` + c.value + `}`)
			got := o.Code + ": " + o.Message
			if o.Class == connectors.Applied {
				got = arrived(k, model, c.field)
			} else if o.Class != connectors.Invalid {
				t.Errorf("class %s", o.Class)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestABodyThatIsNoRecordIsRefused(t *testing.T) {
	c := newClerk(t, "party")
	for _, body := range []string{``, `null`, `[]`, `"x"`, `{`} {
		c.want(c.create(body), connectors.Invalid, "record: the record is no JSON object")
	}
}

func TestEqualValuesAreNotWritten(t *testing.T) {
	for _, c := range []struct {
		name       string
		want, have string
		equal      bool
	}{
		{"decimals with other digits", `{"__class__":"Decimal","decimal":"12.50"}`, `{"__class__":"Decimal","decimal":"12.5000"}`, true},
		{"decimals", `{"__class__":"Decimal","decimal":"12.50"}`, `{"__class__":"Decimal","decimal":"12.51"}`, false},
		{"a decimal and an exponent", `{"__class__":"Decimal","decimal":"1e2"}`, `{"__class__":"Decimal","decimal":"100"}`, true},
		{"a decimal and nothing", `{"__class__":"Decimal","decimal":"0"}`, `null`, false},
		{"quantities", `2`, `2.0`, true},
		{"quantities that differ", `2`, `2.5`, false},
		{"ids", `12`, `12`, true},
		{"an id and nothing", `12`, `null`, false},
		{"dates", `{"__class__":"date","year":2026,"month":11,"day":29}`, `{"day":29,"__class__":"date","year":2026,"month":11}`, true},
		{"dates that differ", `{"__class__":"date","year":2026,"month":11,"day":29}`, `{"__class__":"date","year":2026,"month":11,"day":30}`, false},
		{"an empty text and nothing", `""`, `null`, true},
		{"nothing and an empty text", `null`, `""`, true},
		{"nothing and false", `null`, `false`, false},
		{"texts", `"a"`, `"a"`, true},
		{"texts that differ", `"a"`, `"A"`, false},
		{"a text and a number", `"1"`, `1`, false},
		{"true and false", `true`, `false`, false},
		{"lists", `["a","b"]`, `["a","b"]`, true},
		{"lists in another order", `["a","b"]`, `["b","a"]`, false},
		{"dicts", `{"a":1}`, `{"a":1}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			value := func(text string) (v any) {
				d := json.NewDecoder(strings.NewReader(text))
				d.UseNumber()
				if err := d.Decode(&v); err != nil {
					t.Fatal(err)
				}
				return v
			}
			if got := equal(value(c.want), value(c.have)); got != c.equal {
				t.Errorf("equal: %v", got)
			}
		})
	}
}

// Text names are looked up once; a look-up that found nothing is not remembered.
func TestNamesAreLookedUpOnce(t *testing.T) {
	c := newClerk(t, "party")
	searches := func() int { return strings.Count(c.calls(), "ir.lang.search") }
	missing := `{"name":"A","lang":"Latin"}`
	for range 2 {
		if o := c.create(missing); o.Code != "relation" {
			t.Fatalf("%+v", o)
		}
		if searches() == 0 {
			t.Error("that there is none was remembered")
		}
	}
	latin := c.erp.insert("ir.lang", row{"name": "Latin", "code": "la"})
	o := c.create(missing)
	if o.Class != connectors.Applied || searches() == 0 {
		t.Fatalf("%+v", o)
	}
	c.change(o.Link, missing)
	if n := searches(); n != 0 {
		t.Errorf("looked up %d times more", n)
	}
	// A refusal may be that of a record that is gone.
	delete(c.erp.tables["ir.lang"], latin)
	again := c.erp.insert("ir.lang", row{"name": "Latin", "code": "la"})
	body := `{"name":"B","lang":"Latin","staff":2}`
	c.erp.tables["party.party"] = map[int64]row{guest: {"id": guest}}
	if o = c.create(body); o.Code != "user_error" {
		t.Fatalf("%+v", o)
	}
	if o = c.create(body); o.Class != connectors.Applied || intOf(c.erp.tables["party.party"][int64(intOf(o.Link))]["lang"]) != int(again) {
		t.Errorf("%+v", o)
	}
}

func TestANameOfSeveralRecordsIsRefused(t *testing.T) {
	c := newClerk(t, "party")
	c.erp.insert("ir.lang", row{"name": "English", "code": "en_US"})
	c.want(c.create(`{"name":"A","lang":"English"}`), connectors.Invalid,
		"ambiguous: the text in field lang of party.party names several records of ir.lang by their rec_name; give the id")
}

// A module that is activated while the daemon runs adds fields.
func TestAFieldThatIsAddedLaterIsFound(t *testing.T) {
	c := newClerk(t, "party")
	if o := c.create(`{"name":"A","nickname":"a"}`); o.Code != "field" {
		t.Fatalf("%+v", o)
	}
	c.erp.models["party.party"].fields["nickname"] = fakeField{kind: "char", label: "Nickname"}
	c.want(c.create(`{"name":"A","nickname":"a"}`), connectors.Applied, "")
}
