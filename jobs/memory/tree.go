package memory

import (
	"iter"
	"math/rand/v2"
)

// ordered is a key with an order: compare is negative, zero or positive as the key
// stands before, at or behind another.
type ordered[K any] interface{ compare(K) int }

// tree is an ordered map. A copy of a tree is a map of its own: a change makes new
// nodes for what is on the way to it and leaves the others to both. Nodes that the
// same edit has made are changed in place. The zero value is an empty map.
//
// It is a treap: ordered by key from left to right and by random weight from the
// top down, which keeps it flat whatever the keys are.
type tree[K ordered[K], V any] struct {
	root *node[K, V]
	size int
}

type node[K ordered[K], V any] struct {
	key         K
	value       V
	weight      uint32
	edit        edit
	left, right *node[K, V]
}

// edit names the transaction that has made a node and may change it.
type edit uint64

// own returns n if e made it, or else a copy that e may change.
func (n *node[K, V]) own(e edit) *node[K, V] {
	if n.edit == e {
		return n
	}
	mine := *n
	mine.edit = e
	return &mine
}

func (t *tree[K, V]) get(k K) (v V, ok bool) {
	for n := t.root; n != nil; {
		switch c := k.compare(n.key); {
		case c == 0:
			return n.value, true
		case c < 0:
			n = n.left
		default:
			n = n.right
		}
	}
	return v, false
}

func (t *tree[K, V]) put(e edit, k K, v V) {
	var added bool
	t.root = t.root.put(e, k, v, &added)
	if added {
		t.size++
	}
}

func (n *node[K, V]) put(e edit, k K, v V, added *bool) *node[K, V] {
	if n == nil {
		*added = true
		return &node[K, V]{key: k, value: v, weight: rand.Uint32(), edit: e}
	}
	n = n.own(e)
	switch c := k.compare(n.key); {
	case c == 0:
		n.value = v
	case c < 0:
		n.left = n.left.put(e, k, v, added)
		if up := n.left; up.weight > n.weight {
			n.left, up.right = up.right, n
			return up
		}
	default:
		n.right = n.right.put(e, k, v, added)
		if up := n.right; up.weight > n.weight {
			n.right, up.left = up.left, n
			return up
		}
	}
	return n
}

// remove takes a key out, if it is there.
func (t *tree[K, V]) remove(e edit, k K) {
	if _, there := t.get(k); there {
		t.root = t.root.remove(e, k)
		t.size--
	}
}

func (n *node[K, V]) remove(e edit, k K) *node[K, V] {
	c := k.compare(n.key)
	if c == 0 {
		return join(e, n.left, n.right)
	}
	n = n.own(e)
	if c < 0 {
		n.left = n.left.remove(e, k)
	} else {
		n.right = n.right.remove(e, k)
	}
	return n
}

// join makes one tree of two, of which all keys of a stand before those of b.
func join[K ordered[K], V any](e edit, a, b *node[K, V]) *node[K, V] {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.weight > b.weight:
		a = a.own(e)
		a.right = join(e, a.right, b)
		return a
	default:
		b = b.own(e)
		b.left = join(e, a, b.left)
		return b
	}
}

// from goes through what stands at or behind a key, in order. The tree must not be
// changed meanwhile by the edit that made it.
func (t *tree[K, V]) from(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.from(k, yield) }
}

func (n *node[K, V]) from(k K, yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	if k.compare(n.key) > 0 {
		return n.right.from(k, yield)
	}
	return n.left.from(k, yield) && yield(n.key, n.value) && n.right.all(yield)
}

func (n *node[K, V]) all(yield func(K, V) bool) bool {
	return n == nil || n.left.all(yield) && yield(n.key, n.value) && n.right.all(yield)
}

// backwards goes through all, the last first.
func (t *tree[K, V]) backwards() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { t.root.backwards(yield) }
}

func (n *node[K, V]) backwards(yield func(K, V) bool) bool {
	return n == nil || n.right.backwards(yield) && yield(n.key, n.value) && n.left.backwards(yield)
}
