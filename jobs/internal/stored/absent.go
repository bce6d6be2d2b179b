package stored

// Absent are ids that a transaction has looked for and not found.
type Absent[K comparable] map[K]bool

// Note adds those of ids that are not among found.
func Note[K comparable, T any](a Absent[K], ids []K, found []T, id func(*T) K) {
	if len(found) == len(ids) {
		return
	}
	for _, i := range ids {
		a[i] = true
	}
	for i := range found {
		delete(a, id(&found[i]))
	}
}

// Part takes those of items that are in a from the others, and out of a: they are
// about to be stored.
func Part[K comparable, T any](a Absent[K], items []T, id func(*T) K) (absent, others []T) {
	if len(a) == 0 {
		return nil, items
	}
	n := 0
	for i := range items {
		if a[id(&items[i])] {
			n++
		}
	}
	switch n {
	case 0:
		return nil, items
	case len(items):
		absent = items
	default:
		absent, others = make([]T, 0, n), make([]T, 0, len(items)-n)
		for i := range items {
			if a[id(&items[i])] {
				absent = append(absent, items[i])
			} else {
				others = append(others, items[i])
			}
		}
	}
	for i := range absent {
		delete(a, id(&absent[i]))
	}
	return absent, others
}
