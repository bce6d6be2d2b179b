package tryton

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
func (i *instance) Close() error              { return nil }

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
	fs, err := e.rpc.fields(ctx, e.model)
	if err != nil {
		return nil, err
	}
	names := []string{"id", e.keyField}
	if _, ok := fs["active"]; ok {
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
func (e *entity) create(ctx context.Context, model string, w connectors.Write, vals map[string]any, lists map[string][]map[string]any) connectors.Outcome {
	for name, l := range lists {
		subs, err := e.subs(ctx, model, name, l)
		if err != nil {
			return outcome(err)
		}
		if len(subs) > 0 {
			vals[name] = []any{[]any{"create", subs}}
		}
	}
	var ids []int64
	if err := e.rpc.write(ctx, e.op("create", w), "model."+model+".create", &ids, nil, []any{vals}); err != nil {
		o := outcome(err)
		o.MaybeDuplicate = o.Class == connectors.Invalid && o.Code == "user_error"
		return o
	}
	if len(ids) != 1 || ids[0] <= 0 {
		return connectors.Fail(connectors.Unknown, "result", "the create answered no id")
	}
	return connectors.Outcome{Class: connectors.Applied, Link: strconv.FormatInt(ids[0], 10)}
}

// subs encodes the records of a one-to-many field.
func (e *entity) subs(ctx context.Context, model, name string, list []map[string]any) ([]any, error) {
	fs, err := e.rpc.fields(ctx, model)
	if err != nil {
		return nil, err
	}
	out := make([]any, len(list))
	for i, rec := range list {
		vals, deeper, err := e.rpc.encode(ctx, fs[name].Relation, rec)
		if err != nil {
			return nil, err
		}
		if len(deeper) > 0 {
			return nil, bad(fs[name].Relation, slices.Sorted(maps.Keys(deeper))[0], "left out: lists within lists cannot be written")
		}
		out[i] = vals
	}
	return out, nil
}

// change is what has to be written to bring a record to what is wanted.
type change struct {
	vals      map[string]any
	timestamp string
	record    map[string]any // as read
}

// diff reads a record and compares it with what is wanted. missing says that
// there is no such record.
func (e *entity) diff(ctx context.Context, model string, id int64, op string, vals map[string]any, lists map[string][]map[string]any, also ...string) (c change, missing bool, err error) {
	names := append([]string{"id", "_timestamp"}, also...)
	for n := range vals {
		names = append(names, n)
	}
	for n := range lists {
		names = append(names, n)
	}
	slices.Sort(names)
	var rows []map[string]any
	// search_read and not read: read answers a record that is gone with an error
	// that looks like any other.
	if err := e.rpc.read(ctx, op, "model."+model+".search_read", &rows, []any{[]any{"id", "=", id}}, 0, 1, nil, slices.Compact(names)); err != nil {
		return c, false, err
	}
	if len(rows) == 0 {
		return c, true, nil
	}
	c = change{vals: map[string]any{}, record: rows[0]}
	c.timestamp, _ = rows[0]["_timestamp"].(string)
	for n, want := range vals {
		if !equal(want, rows[0][n]) {
			c.vals[n] = want
		}
	}
	for n, list := range lists {
		cmds, err := e.children(ctx, model, n, rows[0][n], list, op)
		if err != nil {
			return c, false, err
		}
		if len(cmds) > 0 {
			c.vals[n] = cmds
		}
	}
	return c, false, nil
}

// apply writes a change, unless the record was changed meanwhile.
func (e *entity) apply(ctx context.Context, model string, id int64, op string, c change) connectors.Outcome {
	if len(c.vals) == 0 {
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	guard := map[string]any{}
	if c.timestamp != "" {
		guard["_timestamp"] = map[string]string{fmt.Sprintf("%s,%d", model, id): c.timestamp}
	}
	if err := e.rpc.write(ctx, op, "model."+model+".write", nil, guard, []int64{id}, c.vals); err != nil {
		return outcome(err)
	}
	return connectors.Outcome{Class: connectors.Applied}
}

// children compares the records of a one-to-many field, in the order of their
// ids, with the list that is wanted, and returns the commands that bring them
// there: the first is changed into the first, what is too many is archived where
// its model can be, else deleted, what is missing is created.
func (e *entity) children(ctx context.Context, model, name string, have any, list []map[string]any, op string) ([]any, error) {
	fs, err := e.rpc.fields(ctx, model)
	if err != nil {
		return nil, err
	}
	rel := fs[name].Relation
	want, err := e.subs(ctx, model, name, list)
	if err != nil {
		return nil, err
	}
	rows, archives, err := e.present(ctx, rel, have, want, op)
	if err != nil {
		return nil, err
	}
	var cmds []any
	var create []any
	for i, w := range want {
		vals := w.(map[string]any)
		if i >= len(rows) {
			create = append(create, vals)
			continue
		}
		differs := map[string]any{}
		for n, v := range vals {
			if !equal(v, rows[i][n]) {
				differs[n] = v
			}
		}
		if len(differs) > 0 {
			cmds = append(cmds, []any{"write", []any{rows[i]["id"]}, differs})
		}
	}
	var extra []any
	for _, r := range rows[min(len(want), len(rows)):] {
		extra = append(extra, r["id"])
	}
	switch {
	case len(extra) == 0:
	case archives:
		cmds = append(cmds, []any{"write", extra, map[string]any{"active": false}})
	default:
		cmds = append(cmds, []any{"delete", extra})
	}
	if len(create) > 0 {
		cmds = append(cmds, []any{"create", create})
	}
	return cmds, nil
}

// present reads the children there are, archived ones left out, by id.
func (e *entity) present(ctx context.Context, rel string, have any, want []any, op string) (rows []map[string]any, archives bool, err error) {
	ids, _ := have.([]any)
	fs, err := e.rpc.fields(ctx, rel)
	if err != nil {
		return nil, false, err
	}
	_, archives = fs["active"]
	if len(ids) == 0 {
		return nil, archives, nil
	}
	names := []string{"id"}
	if archives {
		names = append(names, "active")
	}
	for _, w := range want {
		for n := range w.(map[string]any) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	if err := e.rpc.read(ctx, op, "model."+rel+".search_read", &rows, []any{[]any{"id", "in", ids}}, 0, len(ids), []any{[]any{"id", "ASC"}}, slices.Compact(names)); err != nil {
		return nil, false, err
	}
	if archives {
		rows = slices.DeleteFunc(rows, func(r map[string]any) bool { return r["active"] == false })
	}
	return rows, archives, nil
}

// archive hides a record, or finds that it is hidden or gone.
func (e *entity) archive(ctx context.Context, model string, id int64, op string) connectors.Outcome {
	c, missing, err := e.diff(ctx, model, id, op, map[string]any{"active": false}, nil)
	switch {
	case err != nil:
		return outcome(err)
	case missing:
		return connectors.Outcome{Class: connectors.Unchanged}
	}
	return e.apply(ctx, model, id, op, c)
}
