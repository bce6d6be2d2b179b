package tryton

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"syncd/connectors"
)

// Check asks whether the server can be reached, and for each entity whether its
// models are there with the key field, and whether the user may write them.
func (i *instance) Check(ctx context.Context, _, entities []string) []connectors.Finding {
	if _, err := i.rpc.userContext(ctx); err != nil {
		return []connectors.Finding{finding("", err)}
	}
	if len(entities) == 0 {
		return []connectors.Finding{{Note: "logged in"}}
	}
	var out []connectors.Finding
	for _, name := range entities {
		var e *entity
		switch x := i.entities[name].(type) {
		case *party:
			e = &x.entity
		case *product:
			e = &x.entity
		case *sale:
			e = &x.entity
		default:
			out = append(out, connectors.Finding{Subject: name, Problem: fmt.Sprintf("there is no entity %q; there are party, product and sale", name)})
			continue
		}
		out = append(out, i.checkEntity(ctx, name, e))
	}
	return out
}

// modules names the module that a key field comes from.
var modules = map[string]string{"party": "party", "product": "product", "sale": "web_shop"}

// written are the models that an entity writes.
var written = map[string][]string{
	"party":   {"party.party", "party.address", "party.contact_mechanism"},
	"product": {template, "product.product"},
	"sale":    {"sale.sale", "sale.line"},
}

func (i *instance) checkEntity(ctx context.Context, name string, e *entity) connectors.Finding {
	has, err := i.rpc.has(ctx, e.model, e.keyField)
	if err != nil {
		return finding(name, err)
	}
	if !has {
		return connectors.Finding{Subject: name, Problem: fmt.Sprintf("%s has no field %s; activate the module %s", e.model, e.keyField, modules[name])}
	}
	var rights map[string]map[string]any
	if err := i.rpc.read(ctx, "read the rights to "+name, "model.ir.model.access.get_access", &rights, written[name]); err != nil {
		return finding(name, err)
	}
	var lacking []string
	for _, model := range written[name] {
		for _, right := range []string{"read", "create", "write"} {
			if v := rights[model][right]; v == false || v == nil || fmt.Sprint(v) == "0" {
				lacking = append(lacking, right+" "+model)
			}
		}
	}
	if len(lacking) > 0 {
		slices.Sort(lacking)
		return connectors.Finding{Subject: name, Problem: "the user may not " + strings.Join(lacking, ", ") + "; put it into a group that may"}
	}
	var n int64
	if err := i.rpc.read(ctx, "count "+name, "model."+e.model+".search_count", &n, []any{}); err != nil {
		return finding(name, err)
	}
	return connectors.Finding{Subject: name, Note: fmt.Sprintf("%d records", n)}
}

func finding(subject string, err error) connectors.Finding {
	return connectors.Finding{Subject: subject, Problem: err.Error(), Unreachable: connectors.Unanswered(err)}
}
