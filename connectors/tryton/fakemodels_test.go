package tryton

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// fakeField is a field of a fakeModel.
type fakeField struct {
	kind, relation, back, label string
	required                    bool
	digits                      int
}

type fakeModel struct {
	name, label string
	fields      map[string]fakeField
	defaults    row
}

func (m *fakeModel) describe() any {
	out := map[string]any{}
	for n, f := range m.fields {
		d := map[string]any{"type": f.kind, "string": f.label, "required": f.required, "readonly": false, "help": ""}
		if f.relation != "" {
			d["relation"] = f.relation
		}
		out[n] = d
	}
	return out
}

// fields makes fields of texts such as "party many2one party.party required".
func fields(lines string) map[string]fakeField {
	out := map[string]fakeField{"id": {kind: "integer", label: "ID"}, "rec_name": {kind: "char", label: "Record Name"}}
	for line := range strings.Lines(lines) {
		w := strings.Fields(line)
		if len(w) == 0 {
			continue
		}
		f := fakeField{kind: w[1], label: strings.ToUpper(w[0][:1]) + strings.ReplaceAll(w[0][1:], "_", " ")}
		for _, x := range w[2:] {
			switch {
			case x == "required":
				f.required = true
			case strings.HasPrefix(x, "digits:"):
				fmt.Sscan(x[len("digits:"):], &f.digits) //nolint:errcheck // written above
			case strings.HasPrefix(x, "by:"):
				f.back = x[len("by:"):]
			default:
				f.relation = x
			}
		}
		out[w[0]] = f
	}
	return out
}

func newFakeERP() *fakeERP {
	s := &fakeERP{user: "syncd", password: "s3cret", sessions: map[string]bool{}, models: map[string]*fakeModel{}, tables: map[string]map[int64]row{},
		processed: map[int64]int{}, denied: map[string]bool{}}
	add := func(name, label string, defaults row, lines string) {
		s.models[name] = &fakeModel{name: name, label: label, fields: fields(lines), defaults: defaults}
		s.tables[name] = map[int64]row{}
	}
	active := row{"active": true}
	add("party.party", "Party", active, "name char\ncode char\nactive boolean\nlang many2one ir.lang\naddresses one2many party.address by:party\n"+
		"contact_mechanisms one2many party.contact_mechanism by:party\ncategories many2many party.category\nsince date\nseen datetime\nstaff integer")
	add("party.address", "Address", active, "party many2one party.party\nparty_name char\nstreet text\ncity char\npostal_code char\ncountry many2one country.country\nactive boolean\nsequence integer")
	add("party.contact_mechanism", "Contact Mechanism", active, "party many2one party.party\ntype selection required\nvalue char\ncomment text\nactive boolean")
	add("product.template", "Product Template", active, "name char required\ncode char\ntype selection\ndefault_uom many2one product.uom required\nsale_uom many2one product.uom\n"+
		"salable boolean\nlist_price numeric digits:4\naccount_category many2one product.category\nactive boolean\nproducts one2many product.product by:template\n"+
		"lead_time timedelta\ncost_price_method selection\ncolours multiselection\nextra dict")
	add("product.product", "Product Variant", active, "template many2one product.template\nsuffix_code char\ncode char\nactive boolean")
	add("sale.sale", "Sale", row{"state": "draft"}, "party many2one party.party required\nweb_id char\nreference char\ndescription char\ncomment text\ncurrency many2one currency.currency\n"+
		"payment_term many2one account.invoice.payment_term\nsale_date date\ninvoice_address many2one party.address\nshipment_address many2one party.address\n"+
		"state selection\nlines one2many sale.line by:sale\nnumber char")
	add("sale.line", "Sale Line", row{"type": "line"}, "sale many2one sale.sale\ntype selection required\nproduct many2one product.product\ndescription text\nquantity float\n"+
		"unit many2one product.uom\nunit_price numeric digits:4\nnote text")
	add("currency.currency", "Currency", active, "name char\ncode char\nsymbol char\nactive boolean")
	add("country.country", "Country", active, "name char\ncode char\nactive boolean")
	add("product.uom", "Unit", active, "name char\nsymbol char\nactive boolean")
	add("product.category", "Category", nil, "name char")
	add("account.invoice.payment_term", "Payment Term", active, "name char\nactive boolean")
	add("ir.lang", "Language", active, "name char\ncode char\nactive boolean")
	s.insert("currency.currency", row{"name": "US Dollar", "code": "USD", "symbol": "$"})
	s.insert("country.country", row{"name": "Germany", "code": "DE"})
	s.insert("product.uom", row{"name": "Unit", "symbol": "u"})
	s.insert("account.invoice.payment_term", row{"name": "Immediate"})
	s.insert("ir.lang", row{"name": "English", "code": "en"})
	s.insert("party.party", row{"name": "Guest", "code": "GUEST"})
	return s
}

// insert stores a row by somebody else's hand.
func (s *fakeERP) insert(model string, r row) int64 {
	s.last++
	s.clock++
	r = maps.Clone(r)
	for n, v := range s.models[model].defaults {
		if _, given := r[n]; !given {
			r[n] = v
		}
	}
	r["id"], r["_stamp"] = s.last, s.clock
	s.tables[model][s.last] = r
	return s.last
}

func (c *erpCall) create(list []any) (any, error) {
	var out []int64
	for _, x := range list {
		vals := x.(map[string]any)
		id := c.insert(c.m.name, row{})
		c.log = append(c.log, "  created "+c.m.name)
		if err := c.set(id, vals); err != nil {
			return nil, err
		}
		out = append(out, id)
	}
	for _, id := range out {
		if err := c.validate(id); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (c *erpCall) write(ids []int64, vals map[string]any) error {
	for _, id := range ids {
		r := c.rows()[id]
		if r == nil {
			return userError("You are trying to write to records \"%d\" of %q that don't exist anymore.", id, c.m.label)
		}
		if stamps, ok := c.context["_timestamp"].(map[string]any); ok {
			if want, ok := stamps[fmt.Sprintf("%s,%d", c.m.name, id)]; ok && want != c.value(r, "_timestamp") {
				return trytonError{"ConcurrencyException", "Records were modified in the meanwhile"}
			}
		}
		if err := c.set(id, vals); err != nil {
			return err
		}
		c.clock++
		r["_stamp"] = c.clock
		if err := c.validate(id); err != nil {
			return err
		}
	}
	return nil
}

// set writes values into a row.
func (c *erpCall) set(id int64, vals map[string]any) error {
	r := c.rows()[id]
	for _, name := range slices.Sorted(maps.Keys(vals)) {
		f, known := c.m.fields[name]
		if !known {
			return textError("'" + name + "'")
		}
		v := vals[name]
		if f.kind == "one2many" {
			if err := c.commands(id, f, v.([]any)); err != nil {
				return err
			}
			continue
		}
		if err := c.fits(name, f, v); err != nil {
			return err
		}
		r[name] = v
	}
	return nil
}

// fits checks one value as the server does: most of it by failing somewhere.
func (c *erpCall) fits(name string, f fakeField, v any) error {
	if v == nil {
		return nil
	}
	tagged, _ := v.(map[string]any)
	switch f.kind {
	case "numeric":
		d, ok := tagged["decimal"].(string)
		if !ok || tagged["__class__"] != "Decimal" {
			return textError("[<class 'decimal.ConversionSyntax'>]")
		}
		if _, frac, _ := strings.Cut(d, "."); f.digits > 0 && len(strings.TrimRight(frac, "0")) > f.digits {
			return userError("The number of digits in the value \"Decimal('%s')\" for field %q in %q exceeds the limit of \"%d\".", d, f.label, c.m.label, f.digits)
		}
	case "date", "datetime":
		if tagged["__class__"] != f.kind {
			return textError("invalid literal for a " + f.kind + ": " + fmt.Sprint(v))
		}
	case "many2one":
		if _, ok := c.tables[f.relation][int64(intOf(v))]; !ok {
			return userError("The value \"%v\" for field %q in %q does not exist.", v, f.label, c.m.label)
		}
	case "char":
		if text, ok := v.(string); ok && strings.ContainsAny(text, "\n\t") {
			return userError("The value \"%s\" for field %q in %q contains some invalid chars \"'\\n'\".", text, f.label, c.m.label)
		}
	}
	return nil
}

func (c *erpCall) commands(id int64, f fakeField, cmds []any) error {
	sub := c.on(f.relation)
	for _, x := range cmds {
		cmd := x.([]any)
		switch cmd[0] {
		case "create":
			for _, v := range cmd[1].([]any) {
				vals := maps.Clone(v.(map[string]any))
				vals[f.back] = id
				if _, err := sub.create([]any{vals}); err != nil {
					return err
				}
			}
		case "write":
			if err := sub.write(idsOf(cmd[1]), cmd[2].(map[string]any)); err != nil {
				return err
			}
		case "delete":
			for _, child := range idsOf(cmd[1]) {
				if c.m.name == "sale.sale" && !slices.Contains([]string{"draft", "cancelled"}, c.rows()[id]["state"].(string)) {
					return userError("To delete line \"%d\" you must cancel or reset to draft sale %q.", child, c.rows()[id]["reference"])
				}
				delete(sub.rows(), child)
			}
		default:
			return textError("unknown command")
		}
	}
	return nil
}

// validate checks a row as it will stand.
func (c *erpCall) validate(id int64) error {
	r := c.rows()[id]
	for _, name := range slices.Sorted(maps.Keys(c.m.fields)) {
		if f := c.m.fields[name]; f.required && empty(r[name]) {
			return userError("A value is required for field %q in %q.", f.label, c.m.label)
		}
	}
	twin := func(name string, among func(row) bool) bool {
		for other, o := range c.rows() {
			if other != id && !empty(c.value(r, name)) && among(o) && among(r) && sameValue(c.value(o, name), c.value(r, name)) {
				return true
			}
		}
		return false
	}
	all := func(row) bool { return true }
	active := func(x row) bool { return x["active"] != false }
	switch {
	case c.m.name == "party.party" && twin("code", all):
		return userError("The code on party must be unique.")
	case c.m.name == "sale.sale" && twin("web_id", all):
		return userError("The web ID on the sale must be unique.")
	case c.m.name == "product.product" && twin("code", active):
		return userError("Code of active product must be unique.")
	case c.m.name == "product.product" && active(r) && !active(c.tables["product.template"][int64(intOf(r["template"]))]):
		return userError("The value for field \"Product Template\" in \"Product Variant\" is not valid according to its domain.")
	}
	if c.m.name == "product.template" && !active(r) {
		for _, v := range c.children(r, c.m.fields["products"]) {
			if active(c.tables["product.product"][v]) {
				return userError("The value for field \"Variants\" in \"Product Template\" is not valid according to its domain.")
			}
		}
	}
	return nil
}

// button moves the sales that are in a state it is for, and passes over others.
func (c *erpCall) button(name string, ids []int64) error {
	from := map[string][]string{"quote": {"draft"}, "confirm": {"quotation"}, "process": {"confirmed"}, "draft": {"cancelled", "quotation", "confirmed"}, "cancel": {"draft", "quotation"}}
	to := map[string]string{"quote": "quotation", "confirm": "confirmed", "process": "processing", "draft": "draft", "cancel": "cancelled"}
	for _, id := range ids {
		r := c.rows()[id]
		if r == nil {
			return userError("You are not allowed to read records \"%d\" of \"Sale\" because of at least one of these rules:\nUser in companies", id)
		}
		if !slices.Contains(from[name], r["state"].(string)) {
			continue
		}
		if name == "quote" && (r["invoice_address"] == nil || r["shipment_address"] == nil) {
			return userError("To get a quote for sale \"[%v]\" you must enter an invoice address.", r["reference"])
		}
		if name == "process" {
			if c.broken != nil {
				return c.broken
			}
			c.processed[id]++
		}
		r["state"] = to[name]
		c.clock++
		r["_stamp"] = c.clock
		if name == "confirm" && !c.lazy && c.broken == nil { // a task of its own, whose failure nobody is told
			r["state"] = "processing"
			c.processed[id]++
		}
	}
	return nil
}
