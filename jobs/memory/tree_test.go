package memory

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type slot int

func (a slot) compare(b slot) int { return cmp.Compare(a, b) }

func TestATreeIsAnOrderedMapAndItsCopiesStayAsTheyWere(t *testing.T) {
	t.Parallel()
	type copied struct {
		tree tree[slot, int]
		want map[slot]int
	}
	rapid.Check(t, func(t *rapid.T) {
		var tr tree[slot, int]
		want := map[slot]int{}
		var copies []copied
		e := edit(1)
		key := rapid.Custom(func(t *rapid.T) slot { return slot(rapid.IntRange(0, 40).Draw(t, "key")) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := key.Draw(t, "k"), rapid.Int().Draw(t, "value")
				tr.put(e, k, v)
				want[k] = v
			},
			"remove": func(t *rapid.T) {
				k := key.Draw(t, "k")
				tr.remove(e, k)
				delete(want, k)
			},
			"copy": func(*rapid.T) {
				copies = append(copies, copied{tr, maps.Clone(want)})
				e++
			},
			"": func(t *rapid.T) {
				alike(t, tr, want, key.Draw(t, "from"))
				for _, c := range copies {
					alike(t, c.tree, c.want, 0)
				}
			},
		})
	})
}

func alike(t *rapid.T, tr tree[slot, int], want map[slot]int, from slot) {
	t.Helper()
	keys := slices.Sorted(maps.Keys(want))
	var got, back []slot
	for k, v := range tr.from(-1) {
		got = append(got, k)
		if one, ok := tr.get(k); !ok || one != v || v != want[k] {
			t.Fatalf("key %d leads to %d and %d (%v), want %d", k, v, one, ok, want[k])
		}
	}
	for k := range tr.backwards() {
		back = append(back, k)
	}
	slices.Reverse(back)
	if !slices.Equal(got, keys) || !slices.Equal(back, keys) || tr.size != len(keys) {
		t.Fatalf("it holds %v (backwards %v, size %d), want %v", got, back, tr.size, keys)
	}
	first := slot(-1)
	for k := range tr.from(from) {
		first = k
		break
	}
	at, _ := slices.BinarySearch(keys, from)
	if at < len(keys) && first != keys[at] || at == len(keys) && first != -1 {
		t.Fatalf("from %d on it begins with %d, of %v", from, first, keys)
	}
}

func TestATreeStaysFlatWhateverTheOrderOfItsKeys(t *testing.T) {
	t.Parallel()
	const n = 1 << 14
	var tr tree[slot, int]
	for i := range n {
		tr.put(1, slot(i), i)
	}
	var depth func(*node[slot, int]) int
	depth = func(n *node[slot, int]) int {
		if n == nil {
			return 0
		}
		return 1 + max(depth(n.left), depth(n.right))
	}
	if d := depth(tr.root); d > 4*bits.Len(n) {
		t.Errorf("%d keys put in their order stand %d deep", n, d)
	}
}
