package tryton

import (
	"context"
	"encoding/json"
	"strconv"

	"syncd/connectors"
)

// product is the entity of products. Its fields are those of the template, of
// which each product is the only variant; its code is the template's, with an
// empty suffix.
type product struct{ entity }

const template = "product.template"

// Create makes a template with its variant; the link is the variant's id.
func (p *product) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	vals, lists, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	vals["products"] = []any{[]any{"create", []any{map[string]any{"suffix_code": ""}}}}
	o := p.create(ctx, template, w, vals, lists)
	if o.Class != connectors.Applied {
		return o
	}
	found, err := p.Find(ctx, w)
	if err != nil || len(found) == 0 {
		// It is there, but under which id we don't know.
		return connectors.Fail(connectors.Unknown, "variant", "the product was created, and its variant could not be read")
	}
	o.Link = found[len(found)-1].Link
	return o
}

// Update brings the template of a product to what is wanted.
func (p *product) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	vals, lists, err := p.record(ctx, w)
	if err != nil {
		return outcome(err)
	}
	delete(vals, "code") // the variant was found by it
	vals["active"] = true
	tmpl, o := p.template(ctx, w, true)
	if o.Class != "" {
		return o
	}
	c, missing, err := p.diff(ctx, template, tmpl, p.op("read", w), vals, lists)
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return connectors.Fail(connectors.Missing, "missing", "there is no template with id %d any more", tmpl)
	}
	return p.apply(ctx, template, tmpl, p.op("write", w), c)
}

// Remove archives the template of a product.
func (p *product) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	tmpl, o := p.template(ctx, w, false)
	if o.Class == connectors.Missing {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	if o.Class != "" {
		return o
	}
	return p.archive(ctx, template, tmpl, p.op("archive", w))
}

// template finds the template of the variant that the link names. An archived
// variant is brought back when it is to be written.
func (p *product) template(ctx context.Context, w connectors.Write, revive bool) (int64, connectors.Outcome) {
	id, err := linkID(w.Link)
	if err != nil {
		return 0, outcome(err)
	}
	var want map[string]any
	if revive {
		want = map[string]any{"active": true}
	}
	c, missing, err := p.diff(ctx, p.model, id, p.op("read", w), want, nil, "template")
	switch {
	case err != nil:
		return 0, outcome(err)
	case missing:
		return 0, connectors.Fail(connectors.Missing, "missing", "there is no product with id %d any more", id)
	}
	n, _ := c.record["template"].(json.Number)
	tmpl, err := strconv.ParseInt(n.String(), 10, 64)
	if err != nil {
		return 0, connectors.Fail(connectors.Invalid, "template", "product %d has no template", id)
	}
	if len(c.vals) > 0 {
		if o := p.apply(ctx, p.model, id, p.op("write", w), c); o.Class != connectors.Applied {
			return 0, o
		}
	}
	return tmpl, connectors.Outcome{}
}

func (p *product) record(ctx context.Context, w connectors.Write) (map[string]any, map[string][]map[string]any, error) {
	rec, err := decode(w.Body)
	if err != nil {
		return nil, nil, err
	}
	rec["code"] = w.Key
	return p.rpc.encode(ctx, template, rec)
}
