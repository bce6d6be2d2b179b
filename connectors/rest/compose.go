package rest

import c "syncd/connectors"

// base names the entity in what is composed; its method is Info.
type base = *entity

// compose gives an entity the primitives that its settings describe, and no
// others: what it can do is asked by type.
func compose(e *entity) c.Entity {
	find := e.set.Lookup.Path != ""
	update := e.set.Update.Path != ""
	remove := len(e.info.Removals) > 0
	advance := len(e.set.Advance.Steps) > 0
	if e.set.Put.Path != "" {
		return composePut(e, find, remove, advance)
	}
	return composeCreate(e, find, update, remove, advance)
}

func composePut(e *entity, find, remove, advance bool) c.Entity {
	switch {
	case find && remove && advance:
		return struct {
			base
			c.Upserter
			c.Finder
			c.Remover
			c.Advancer
		}{e, upserter{e}, finder{e}, remover{e}, advancer{e}}
	case remove && advance:
		return struct {
			base
			c.Upserter
			c.Remover
			c.Advancer
		}{e, upserter{e}, remover{e}, advancer{e}}
	case find && advance:
		return struct {
			base
			c.Upserter
			c.Finder
			c.Advancer
		}{e, upserter{e}, finder{e}, advancer{e}}
	case find && remove:
		return struct {
			base
			c.Upserter
			c.Finder
			c.Remover
		}{e, upserter{e}, finder{e}, remover{e}}
	case advance:
		return struct {
			base
			c.Upserter
			c.Advancer
		}{e, upserter{e}, advancer{e}}
	case remove:
		return struct {
			base
			c.Upserter
			c.Remover
		}{e, upserter{e}, remover{e}}
	case find:
		return struct {
			base
			c.Upserter
			c.Finder
		}{e, upserter{e}, finder{e}}
	}
	return struct {
		base
		c.Upserter
	}{e, upserter{e}}
}
