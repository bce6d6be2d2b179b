package connectors

// Primitives are what an entity can do; nil what it cannot.
type Primitives struct {
	Upserter Upserter
	Creator  Creator
	Composer Composer
	Finder   Finder
	Updater  Updater
	Remover  Remover
	Advancer Advancer
}

// Configured is an entity of which its settings, and not its type, say what it can do.
type Configured interface {
	Entity
	Primitives() Primitives
}

// PrimitivesOf returns what an entity can do: what a Configured one says, else what
// it implements.
func PrimitivesOf(e Entity) (p Primitives) {
	if c, ok := e.(Configured); ok {
		return c.Primitives()
	}
	p.Upserter, _ = e.(Upserter)
	p.Creator, _ = e.(Creator)
	p.Composer, _ = e.(Composer)
	p.Finder, _ = e.(Finder)
	p.Updater, _ = e.(Updater)
	p.Remover, _ = e.(Remover)
	p.Advancer, _ = e.(Advancer)
	return p
}
