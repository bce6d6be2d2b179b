package rest

import (
	"fmt"

	"syncd/connectors"
)

// instance is an open client.
type instance struct {
	api    *api
	set    *Settings
	source *source // nil without streams
}

func newInstance(set *Settings, a *api) *instance {
	i := &instance{api: a, set: set}
	if len(set.Stream) > 0 {
		i.source = &source{api: a, streams: map[string]*stream{}}
		for name, st := range set.Stream {
			i.source.streams[name] = &stream{name: name, set: st, plan: st.plan()}
		}
	}
	return i
}

func (i *instance) Source() connectors.Source {
	if i.source == nil {
		return nil
	}
	return i.source
}

func (i *instance) Target() connectors.Target {
	if len(i.set.Entity) == 0 {
		return nil
	}
	return &target{i}
}

func (i *instance) Close() error {
	i.api.http.Close()
	return nil
}

type target struct{ *instance }

// Entity returns the entity of that name.
func (t *target) Entity(name string) (connectors.Entity, error) {
	set, ok := t.set.Entity[name]
	if !ok {
		return nil, fmt.Errorf("the client has no entity %q", name)
	}
	return &entity{api: t.api, name: name, set: set, info: set.info(name)}, nil
}
