package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"syncd/connectors"
	"syncd/internal/field"
)

const defaultPage = 200

// checker checks the flows of a configuration, with the report at its root.
type checker struct {
	*Config
	root *field.Report
}

// flows checks the flows against the clients they name, and against each other.
func (c checker) flows() {
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		f, r := c.Flows[name], c.root.At("flows", name)
		c.from(f, r.At("from"))
		c.to(f, r.At("to"))
		c.retry(f, r.At("retry"))
		c.program(f, r)
	}
	c.shared(c.root.At("flows"))
}

// client finds the client that a flow names. It reports that there is none, and returns nil, too, when the client's streams and
// entities cannot be told because its connector's own fields are wrong.
func (c checker) client(name string, r *field.Report) *Client {
	k := c.Clients[name]
	if k == nil {
		// One whose name was refused is there in the file, though not here.
		if name != "" && !c.root.Given("clients", name) {
			r.Errorf("there is no client %q; %s", name, cmp.Or(field.DidYouMean(name, slices.Sorted(maps.Keys(c.Clients))), "add it under clients"))
		}
		return nil
	}
	fresh, ok := k.pick(k.Connector)
	if !ok || k.Settings == nil {
		return nil
	}
	for _, f := range field.Declare(fresh).Fields() {
		if c.root.Failed("clients", name, f.Name) {
			return nil
		}
	}
	return k
}

func (c checker) from(f *Flow, r *field.Report) {
	if f.From.Start.From.After(c.now) {
		r.At("start").Errorf("%s lies in the future; write now, or an earlier time", f.From.Start)
	}
	k := c.client(f.From.Client, r.At("client"))
	if k == nil || f.From.Stream == "" {
		return
	}
	var names []string
	for _, s := range k.Settings.Streams() {
		names = append(names, s.Name)
		if s.Name == f.From.Stream {
			f.From.Info = s
			f.From.Page = cmp.Or(f.From.Page, s.Page, defaultPage)
			if f.FreshWithin > 0 && !s.CanFetch {
				c.root.At("flows", f.Name, "fresh_within").Errorf("stream %s of client %s cannot be asked for one record, so a record cannot be read anew; take fresh_within out; max_age bounds how old a change may be when it is sent", s.Name, k.Name)
			}
			return
		}
	}
	if len(names) == 0 {
		r.At("client").Errorf("client %s (%s) cannot be read from: it has no streams", k.Name, k.Connector)
		return
	}
	r.At("stream").Errorf("client %s (%s) has no stream %q; %s", k.Name, k.Connector, f.From.Stream, listOr(f.From.Stream, names))
}

func (c checker) to(f *Flow, r *field.Report) {
	k := c.client(f.To.Client, r.At("client"))
	if k == nil || f.To.Entity == "" {
		return
	}
	var names []string
	for _, e := range k.Settings.Entities() {
		names = append(names, e.Name)
		if e.Name == f.To.Entity {
			f.To.Info = e
			if !r.Given("settle_time") {
				f.To.SettleTime = e.SettleTime
			}
			checkEntity(f, e, r)
			return
		}
	}
	if len(names) == 0 {
		r.At("client").Errorf("client %s (%s) cannot be written to: it has no entities", k.Name, k.Connector)
		return
	}
	r.At("entity").Errorf("client %s (%s) has no entity %q; %s", k.Name, k.Connector, f.To.Entity, listOr(f.To.Entity, names))
}

func listOr(name string, known []string) string {
	return cmp.Or(field.DidYouMean(name, known), "see the connector's section in the reference of the configuration")
}

// checkEntity checks what the flow wants against what the entity can do.
func checkEntity(f *Flow, e connectors.EntityInfo, r *field.Report) {
	if f.To.Strategy != "" && !e.Carries(f.To.Strategy) {
		var can []string
		for _, s := range e.Strategies {
			can = append(can, string(s.Strategy))
		}
		hint := "it cannot be written to safely"
		if len(can) > 0 {
			hint = "use " + strings.Join(can, " or ")
		}
		r.At("strategy").Errorf("entity %s cannot carry %s; %s", e.Name, f.To.Strategy, hint)
	}
	if d := connectors.Removal(f.To.OnDelete); f.To.OnDelete != "ignore" && !slices.Contains(e.Removals, d) {
		can := []string{"ignore"}
		for _, d := range e.Removals {
			can = append(can, string(d))
		}
		r.At("on_delete").Errorf("records of entity %s cannot be %s; use %s", e.Name, participle(f.To.OnDelete), strings.Join(can, " or "))
	}
	if f.To.OnExisting == "refuse" && !e.Finds && e.Carries(f.To.Strategy) {
		r.At("on_existing").Errorf("records of entity %s cannot be looked up by key, so nobody can tell whether one is there already; write adopt", e.Name)
	}
	checkChildren(f, e, r)
	if f.To.OnRename == "rename" && !e.Renames {
		r.At("on_rename").Errorf("the key of entity %s cannot be changed; use recreate or refuse", e.Name)
	}
}

// checkChildren refuses what would double a collection that every write adds to.
func checkChildren(f *Flow, e connectors.EntityInfo, r *field.Report) {
	for _, name := range slices.Sorted(maps.Keys(e.Children)) {
		switch {
		case e.Children[name] != connectors.Appends || f.To.Strategy == "":
		case f.To.Strategy != connectors.AtMostOnce:
			r.At("strategy").Errorf("each write of entity %s adds to %s again, so it must not be sent twice; use %s", e.Name, name, connectors.AtMostOnce)
		case !f.To.CreateOnly:
			r.At("strategy").Errorf("each write of entity %s adds to %s again, so a change would double them; say create_only: true", e.Name, name)
		}
	}
}

// retry completes the flow's policy from the client it writes to, and checks it.
func (c checker) retry(f *Flow, r *field.Report) {
	if k := c.Clients[f.To.Client]; k != nil {
		f.Retry.inherit(r, k.Retry)
		f.Retry.check(r, k.Timeout)
	}
}

// shared refuses flows that write to one entity without saying that they mean the same records.
func (c checker) shared(r *field.Report) {
	c.mixed(r)
	first, remover := map[string]string{}, map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		f := c.Flows[name]
		if f.To.Client == "" || f.To.Entity == "" {
			continue
		}
		target := fmt.Sprintf("%q %q", f.To.Client, f.To.Entity)
		if f.To.OnDelete != "ignore" {
			if other, ok := remover[target]; ok {
				r.At(name, "to", "on_delete").Errorf("flow %s removes records of entity %s of client %s too, and neither knows whether the other still has a record; say on_delete: ignore in all of them but one", other, f.To.Entity, f.To.Client)
			} else {
				remover[target] = name
			}
		}
		other, ok := first[target]
		if !ok {
			first[target] = name
			continue
		}
		o := c.Flows[other]
		if f.To.Info.Guarded {
			r.At(name, "to", "entity").Errorf("flow %s also writes to entity %s of client %s, which keeps one version of a record, so that each would take the other's states for older ones; give each flow an entity with a version of its own", other, f.To.Entity, f.To.Client)
			continue
		}
		switch {
		case f.Identity == o.Identity && f.Identity != "":
		case f.Identity == "" && o.Identity == "":
			r.At(name, "identity").Errorf("missing; flow %s also writes to entity %s of client %s, so both must give a record the same key: confirm it by the same identity text in both", other, f.To.Entity, f.To.Client)
		default:
			r.At(name, "identity").Errorf("not the same as that of flow %s, which also writes to entity %s of client %s; both must give a record the same key, and the same identity text", other, f.To.Entity, f.To.Client)
		}
	}
}
