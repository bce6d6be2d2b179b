package config

import (
	"syncd/connectors"
	"syncd/internal/field"
	"syncd/mapping"
)

// refs refuses references of the flow's mapping that nothing could ever resolve: each
// record with one would wait for ever.
func (c checker) refs(f *Flow, r *field.Report) {
	k := c.Clients[f.To.Client]
	if k == nil || f.To.Info.Name == "" { // told already
		return
	}
	var names []string
	known := map[string]connectors.EntityInfo{}
	for _, e := range k.Settings.Entities() {
		names = append(names, e.Name)
		known[e.Name] = e
	}
	for _, ref := range mapping.References(f.Map.Value) {
		at := r.AtPos(f.Map.At(ref.Line, ref.Col))
		e, ok := known[ref.Entity]
		switch {
		case !ok:
			at.Errorf("ref: client %s (%s) has no entity %q; %s", k.Name, k.Connector, ref.Entity, listOr(ref.Entity, names))
		case !e.Finds && !c.written(f.To.Client, ref.Entity):
			at.Errorf("ref: no flow writes entity %s of client %s, and its records cannot be looked up by key, so whatever refers to one would wait for ever; "+
				"add a flow that writes it, or what it takes to look it up", ref.Entity, k.Name)
		}
	}
}

// written reports whether a flow, enabled or not, writes an entity.
func (c checker) written(client, entity string) bool {
	for _, f := range c.Flows {
		if f.To.Client == client && f.To.Entity == entity {
			return true
		}
	}
	return false
}
