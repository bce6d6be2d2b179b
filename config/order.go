package config

import (
	"fmt"
	"maps"
	"slices"

	"syncd/connectors"
	"syncd/internal/field"
)

// ordered checks what goes with order: every, and what with it alone.
func (f *Flow) ordered(r *field.Report) {
	if r.Failed("order") {
		return
	}
	if f.Order != "every" {
		for _, name := range []string{"group", "on_dead"} {
			if r.Given(name) {
				r.At(name).Errorf("belongs to order: every alone; say order: every, or take %s out", name)
			}
		}
		return
	}
	if !r.Given("group") {
		r.At("group").Errorf("missing with order: every; give a jq expression for what is kept in order, for example .product")
	}
	if f.MaxAge != 0 {
		r.At("max_age").Errorf("with order: every no event is too old to be written; take max_age out, or say order: latest")
	}
	if f.FreshWithin != 0 {
		r.At("fresh_within").Errorf("with order: every an event is written as it was read; take fresh_within out, or say order: latest")
	}
	to := r.At("to")
	if f.To.OnDelete != "ignore" {
		to.At("on_delete").Errorf("with order: every an event that was written stays, also when it is gone at the source; say on_delete: ignore, or order: latest")
	}
	if r.Given("to", "on_vanish") && f.To.OnVanish != "keep" {
		to.At("on_vanish").Errorf("with order: every a record stays when its event no longer maps to it; say on_vanish: keep, or take it out")
	}
	if r.Given("to", "on_rename") {
		to.At("on_rename").Errorf("with order: every another key is another event, so none is renamed; take on_rename out")
	}
	if f.To.Strategy == connectors.Lookup {
		to.At("strategy").Errorf("order: every writes each event once, and lookup cannot promise that when someone else writes the same record; use a strategy that has the target tell a repetition")
	}
}

// mixed refuses an entity of which one flow writes events and another states: the
// events would be changed by it.
func (c checker) mixed(r *field.Report) {
	events := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		if f := c.Flows[name]; f.Order == "every" && f.To.Entity != "" {
			events[fmt.Sprintf("%q %q", f.To.Client, f.To.Entity)] = name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Flows)) {
		f := c.Flows[name]
		other, ok := events[fmt.Sprintf("%q %q", f.To.Client, f.To.Entity)]
		if ok && f.Order != "every" && f.To.Client != "" {
			r.At(name, "to", "entity").Errorf("flow %s writes each event of entity %s of client %s once, with order: every, and this flow would change them; give both the same order, or this flow an entity of its own", other, f.To.Entity, f.To.Client)
		}
	}
}
