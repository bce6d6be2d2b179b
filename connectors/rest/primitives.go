package rest

import "syncd/connectors"

// Primitives are those that the entity's settings describe, and no others.
func (e *entity) Primitives() (p connectors.Primitives) {
	if e.set.Put.Path != "" {
		p.Upserter = upserter{e}
	} else {
		p.Creator, p.Composer = creator{e}, creator{e}
		if e.set.Update.Path != "" {
			p.Updater = updater{e}
		}
	}
	if e.set.Lookup.Path != "" {
		p.Finder = finder{e}
	}
	if len(e.info.Removals) > 0 {
		p.Remover = remover{e}
	}
	if len(e.set.Advance.Steps) > 0 {
		p.Advancer = advancer{e}
	}
	return p
}
