package tryton

import (
	"context"
	"strconv"

	"syncd/connectors"
)

// product is the entity of products. Its fields are those of the template, of
// which the product is the only variant that is written here; its code is the
// template's, with an empty suffix. The link is the variant's id.
//
// A variant is active only with its template, and a template only archived with
// its variants, so both are brought there in one write.
type product struct{ entity }

const template = "product.template"

// Create makes a template with its variant.
func (p *product) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, active, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	rec.vals["code"], rec.vals["active"] = w.Key, active
	rec.lists["products"] = []map[string]any{{"suffix_code": "", "active": active}}
	o := p.create(ctx, template, w, rec)
	if o.Class != connectors.Applied {
		return o
	}
	var ids []int64
	id, _ := strconv.ParseInt(o.Link, 10, 64)
	err = p.rpc.read(ctx, p.op("read the variant of", w), "model."+p.model+".search", &ids, []any{[]any{"template", "=", id}}, 0, 2, nil)
	if err != nil || len(ids) != 1 {
		// It is there, but under which id we don't know.
		return connectors.Fail(connectors.Unknown, "variant", "the product was created, and its variant could not be read")
	}
	o.Link = strconv.FormatInt(ids[0], 10)
	return o
}

// Update brings the template of a product to what is wanted; an archived one
// comes back.
func (p *product) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	rec, active, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	return p.update(ctx, w, rec, active)
}

// Remove archives the variant, and the template if it has no other.
func (p *product) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	o := p.update(ctx, w, &record{vals: map[string]any{}}, false)
	if o.Class == connectors.Missing {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	return o
}

func (p *product) update(ctx context.Context, w connectors.Write, rec *record, active bool) connectors.Outcome {
	variant, err := linkID(w.Link)
	if err != nil {
		return outcome(err)
	}
	c, missing, err := p.diff(ctx, template, []any{"products", "=", variant}, p.op("read", w), rec, "active", "products.id", "products.active")
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return p.gone(variant)
	}
	others := false
	for _, v := range listed(c.row, "products") {
		switch {
		case number64(v["id"]) != variant:
			others = others || v["active"] == true
		case v["active"] != active:
			c.vals["products"] = []any{[]any{"write", []int64{variant}, map[string]any{"active": active}}}
		}
	}
	if whole := active || others; c.row["active"] != whole {
		c.vals["active"] = whole
	}
	return p.apply(ctx, template, p.op("write", w), c, rec.hide)
}

// record encodes a record, without what decides whether the product is active.
func (p *product) record(ctx context.Context, w connectors.Write) (rec *record, active bool, err error) {
	body, err := decode(w.Body)
	if err != nil {
		return nil, false, err
	}
	active = true
	if v, given := body["active"]; given && v != nil {
		var ok bool
		if active, ok = v.(bool); !ok {
			return nil, false, bad(template, "active", "true or false")
		}
	}
	if _, given := body["products"]; given {
		return nil, false, bad(template, "products", "left out: the variant is made here")
	}
	delete(body, "active")
	delete(body, "code") // the variant was found by it
	rec, err = p.rpc.encode(ctx, template, body)
	return rec, active, err
}
