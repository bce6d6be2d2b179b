package rest

import c "syncd/connectors"

// composeCreate is compose for an entity whose records are created and looked up.
func composeCreate(e *entity, find, update, remove, advance bool) c.Entity {
	switch {
	case find && update && remove && advance:
		return struct {
			base
			creator
			c.Finder
			c.Updater
			c.Remover
			c.Advancer
		}{e, creator{e}, finder{e}, updater{e}, remover{e}, advancer{e}}
	case find && update && remove:
		return struct {
			base
			creator
			c.Finder
			c.Updater
			c.Remover
		}{e, creator{e}, finder{e}, updater{e}, remover{e}}
	case find && update && advance:
		return struct {
			base
			creator
			c.Finder
			c.Updater
			c.Advancer
		}{e, creator{e}, finder{e}, updater{e}, advancer{e}}
	case find && remove && advance:
		return struct {
			base
			creator
			c.Finder
			c.Remover
			c.Advancer
		}{e, creator{e}, finder{e}, remover{e}, advancer{e}}
	case update && remove && advance:
		return struct {
			base
			creator
			c.Updater
			c.Remover
			c.Advancer
		}{e, creator{e}, updater{e}, remover{e}, advancer{e}}
	case find && update:
		return struct {
			base
			creator
			c.Finder
			c.Updater
		}{e, creator{e}, finder{e}, updater{e}}
	case find && remove:
		return struct {
			base
			creator
			c.Finder
			c.Remover
		}{e, creator{e}, finder{e}, remover{e}}
	case find && advance:
		return struct {
			base
			creator
			c.Finder
			c.Advancer
		}{e, creator{e}, finder{e}, advancer{e}}
	case update && remove:
		return struct {
			base
			creator
			c.Updater
			c.Remover
		}{e, creator{e}, updater{e}, remover{e}}
	case update && advance:
		return struct {
			base
			creator
			c.Updater
			c.Advancer
		}{e, creator{e}, updater{e}, advancer{e}}
	case remove && advance:
		return struct {
			base
			creator
			c.Remover
			c.Advancer
		}{e, creator{e}, remover{e}, advancer{e}}
	case find:
		return struct {
			base
			creator
			c.Finder
		}{e, creator{e}, finder{e}}
	case update:
		return struct {
			base
			creator
			c.Updater
		}{e, creator{e}, updater{e}}
	case remove:
		return struct {
			base
			creator
			c.Remover
		}{e, creator{e}, remover{e}}
	case advance:
		return struct {
			base
			creator
			c.Advancer
		}{e, creator{e}, advancer{e}}
	}
	return struct {
		base
		creator
	}{e, creator{e}}
}
