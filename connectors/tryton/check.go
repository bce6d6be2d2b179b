package tryton

import (
	"context"
	"errors"
	"fmt"

	"syncd/connectors"
)

// Check asks whether the server can be reached, and whether each entity's model
// is there, readable, and has its key field.
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

func (i *instance) checkEntity(ctx context.Context, name string, e *entity) connectors.Finding {
	fs, err := i.rpc.fields(ctx, e.model)
	if err != nil {
		return finding(name, err)
	}
	if _, ok := fs[e.keyField]; !ok {
		return connectors.Finding{Subject: name, Problem: fmt.Sprintf("%s has no field %s; activate the module web_shop", e.model, e.keyField)}
	}
	var n int64
	if err := i.rpc.read(ctx, "count "+name, "model."+e.model+".search_count", &n, []any{}); err != nil {
		return finding(name, err)
	}
	return connectors.Finding{Subject: name, Note: fmt.Sprintf("%d records", n)}
}

func finding(subject string, err error) connectors.Finding {
	var e *connectors.Error
	f := connectors.Finding{Subject: subject, Problem: err.Error()}
	if errors.As(err, &e) {
		f.Unreachable = e.Class == connectors.Transient
	}
	return f
}
