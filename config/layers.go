package config

import (
	"errors"
	"slices"

	"syncd/internal/field"

	"github.com/knadh/koanf/v2"
)

// layers lays one source of configuration over the other. koanf merges the mappings; the values it carries are numbers of our own nodes,
// so that every value keeps its text and its place. Defaults need no layer: declaring a field sets its default.
type layers struct {
	conf  *koanf.Koanf
	nodes []*field.Node
	// mappings holds what koanf does not: of each path, the places and the order of its keys in the layer that had it first.
	mappings map[string]*field.Node
}

// delim separates the keys of a path inside koanf. Not a dot: names may hold dots.
const delim = "\x1f"

func newLayers() *layers {
	return &layers{conf: koanf.New(delim), mappings: map[string]*field.Node{}}
}

// add lays a mapping over what is there.
func (l *layers) add(root *field.Node) error {
	m, _ := l.encode(root, "").(map[string]any)
	return l.conf.Load(mapProvider(m), nil)
}

// encode writes a node as koanf's nested maps with numbers of nodes as values.
func (l *layers) encode(n *field.Node, path string) any {
	if n.Kind != field.Mapping {
		l.nodes = append(l.nodes, n)
		return len(l.nodes) - 1
	}
	if l.mappings[path] == nil {
		l.mappings[path] = n
	}
	m := make(map[string]any, len(n.Entries))
	for _, e := range n.Entries {
		m[e.Key] = l.encode(e.Value, path+delim+e.Key)
	}
	return m
}

// tree returns all layers as one tree.
func (l *layers) tree() *field.Node {
	return l.decode(l.conf.Raw(), "")
}

func (l *layers) decode(v any, path string) *field.Node {
	m, ok := v.(map[string]any)
	if !ok {
		i, _ := v.(int)
		return l.nodes[i]
	}
	n := &field.Node{Kind: field.Mapping}
	first := l.mappings[path]
	if first != nil {
		n.Pos = first.Pos
		for _, e := range first.Entries {
			if v, ok := m[e.Key]; ok {
				n.Entries = append(n.Entries, field.Entry{Key: e.Key, KeyPos: e.KeyPos, Value: l.decode(v, path+delim+e.Key)})
			}
		}
	}
	var added []string
	for k := range m {
		if first.Entry(k) == nil {
			added = append(added, k)
		}
	}
	slices.Sort(added)
	for _, k := range added {
		v := l.decode(m[k], path+delim+k)
		n.Entries = append(n.Entries, field.Entry{Key: k, KeyPos: v.Pos, Value: v})
	}
	return n
}

// mapProvider gives koanf a layer that is a map already.
type mapProvider map[string]any

func (m mapProvider) Read() (map[string]any, error) { return m, nil }

func (m mapProvider) ReadBytes() ([]byte, error) {
	return nil, errors.New("a layer of values has no bytes")
}
