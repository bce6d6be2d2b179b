package tryton

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"syncd/connectors"
)

// instance is an open client.
type instance struct {
	rpc      *rpc
	entities map[string]connectors.Entity
}

func (i *instance) Source() connectors.Source { return nil }
func (i *instance) Target() connectors.Target { return i }

func (i *instance) Close() error {
	i.rpc.http.Close()
	return nil
}

// Entity returns an entity by its name.
func (i *instance) Entity(name string) (connectors.Entity, error) {
	if e := i.entities[name]; e != nil {
		return e, nil
	}
	return nil, fmt.Errorf("tryton has no entity %q; there are party, product and sale", name)
}

// entity is what all entities have in common: one model with a key field.
type entity struct {
	rpc      *rpc
	info     connectors.EntityInfo
	model    string
	keyField string
}

func (e *entity) Info() connectors.EntityInfo { return e.info }

func (e *entity) op(verb string, w connectors.Write) string {
	return verb + " " + e.info.Name + " " + w.Key
}

// Find looks records up by the key field, archived ones included.
func (e *entity) Find(ctx context.Context, w connectors.Write) ([]connectors.Found, error) {
	names := []string{"id", e.keyField}
	archives, err := e.rpc.has(ctx, e.model, "active")
	if err != nil {
		return nil, err
	}
	if archives {
		names = append(names, "active")
	}
	var rows []map[string]any
	err = e.rpc.read(ctx, e.op("find", w), "model."+e.model+".search_read", &rows, []any{[]any{e.keyField, "=", w.Key}}, 0, 10, nil, names)
	if err != nil {
		return nil, err
	}
	var out []connectors.Found
	for _, r := range rows {
		if r[e.keyField] != w.Key {
			continue // "=" compares as the database's collation does
		}
		id, ok := r["id"].(json.Number)
		if !ok {
			return nil, fault(e.op("find", w), connectors.Fail(connectors.Transient, "result", "a record without id was answered"))
		}
		out = append(out, connectors.Found{Link: id.String(), Archived: r["active"] == false})
	}
	return out, nil
}

// linkID is the id that a link holds.
func linkID(link string) (int64, error) {
	id, err := strconv.ParseInt(link, 10, 64)
	if err != nil || id <= 0 {
		return 0, fault("write", connectors.Fail(connectors.Invalid, "link", "the stored link is no id of Tryton"))
	}
	return id, nil
}

// create makes a record with its lists and returns its id.
func (e *entity) create(ctx context.Context, model string, w connectors.Write, rec *record) connectors.Outcome {
	for name, list := range rec.lists {
		if len(list) > 0 {
			rec.vals[name] = []any{[]any{"create", list}}
		}
	}
	var ids []int64
	err := e.rpc.do(ctx, call{op: e.op("create", w), method: "model." + model + ".create", params: []any{[]any{rec.vals}}, write: true, hide: rec.hide, out: &ids})
	if err != nil {
		o := e.refused(err)
		o.MaybeDuplicate = o.Class == connectors.Invalid && o.Code == "user_error"
		return o
	}
	if len(ids) != 1 || ids[0] <= 0 {
		return connectors.Fail(connectors.Unknown, "result", "the create answered no id")
	}
	return connectors.Outcome{Class: connectors.Applied, Link: strconv.FormatInt(ids[0], 10)}
}

// refused is the outcome of a write that failed.
func (e *entity) refused(err error) connectors.Outcome {
	o := outcome(err)
	if o.Code == "user_error" {
		e.rpc.forgetNames() // one of them may be of a record that is gone
	}
	return o
}

// change is what has to be written to bring a record to what is wanted.
type change struct {
	id        int64
	vals      map[string]any
	timestamp string
	row       map[string]any // as read
}

// diff reads a record with its lists and compares it with what is wanted.
// missing says that there is no such record.
func (e *entity) diff(ctx context.Context, model string, domain []any, op string, rec *record, also ...string) (c change, missing bool, err error) {
	names := append([]string{"id", "_timestamp"}, also...)
	for n := range rec.vals {
		names = append(names, n)
	}
	relations := map[string]string{}
	for n, list := range rec.lists {
		dotted, relation, err := e.rpc.dotted(ctx, model, n, list)
		if err != nil {
			return c, false, err
		}
		relations[n] = relation
		names = append(names, dotted...)
	}
	slices.Sort(names)
	var rows []map[string]any
	// search_read and not read: read answers a record that is gone with an error
	// that looks like any other.
	if err := e.rpc.read(ctx, op, "model."+model+".search_read", &rows, []any{domain}, 0, 1, nil, slices.Compact(names)); err != nil {
		return c, false, err
	}
	if len(rows) == 0 {
		return c, true, nil
	}
	c = change{id: number64(rows[0]["id"]), vals: map[string]any{}, row: rows[0]}
	c.timestamp, _ = rows[0]["_timestamp"].(string)
	for n, want := range rec.vals {
		if !equal(want, rows[0][n]) {
			c.vals[n] = want
		}
	}
	for n, list := range rec.lists {
		cmds, err := e.rpc.children(ctx, relations[n], listed(rows[0], n), list)
		if err != nil {
			return c, false, err
		}
		if len(cmds) > 0 {
			c.vals[n] = cmds
		}
	}
	return c, false, nil
}

// byID is the domain of one record.
func byID(id int64) []any { return []any{"id", "=", id} }

// apply writes a change, unless the record was changed meanwhile.
func (e *entity) apply(ctx context.Context, model, op string, c change, hide []string) connectors.Outcome {
	if len(c.vals) == 0 {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	with := map[string]any{}
	if c.timestamp != "" {
		with["_timestamp"] = map[string]string{fmt.Sprintf("%s,%d", model, c.id): c.timestamp}
	}
	err := e.rpc.do(ctx, call{op: op, method: "model." + model + ".write", params: []any{[]int64{c.id}, c.vals}, write: true, with: with, hide: hide})
	if err != nil {
		return e.refused(err)
	}
	return connectors.Outcome{Class: connectors.Applied}
}

// gone is the outcome of a write through a link that leads nowhere.
func (e *entity) gone(id int64) connectors.Outcome {
	return connectors.Fail(connectors.Missing, "missing", "there is no %s with id %d any more", e.info.Name, id)
}
