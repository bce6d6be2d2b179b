package stored

import (
	"cmp"
	"slices"

	"syncd/jobs"
)

// Rows returns rows in the order of their stored ids, the last of equal ids
// alone. Every statement that writes several rows takes them in this order, so
// that two transactions cannot wait for each other's rows, and a statement never
// meets one row twice, which PostgreSQL refuses.
func Rows(rows []jobs.Row) []jobs.Row {
	return ordered(rows, func(r *jobs.Row) jobs.RowID { return r.RowID }, compareRowIDs)
}

// RowIDs returns ids in the order of their stored forms, each once.
func RowIDs(ids []jobs.RowID) []jobs.RowID {
	return ordered(ids, func(id *jobs.RowID) jobs.RowID { return *id }, compareRowIDs)
}

// Closings returns closings in the order of their rows' stored forms, each row once.
func Closings(cs []jobs.Closing) []jobs.Closing {
	return ordered(cs, func(c *jobs.Closing) jobs.RowID { return c.RowID }, compareRowIDs)
}

// EntityKeys returns keys in the order of their stored forms, each once.
func EntityKeys(keys []jobs.EntityKey) []jobs.EntityKey {
	return ordered(keys, func(k *jobs.EntityKey) jobs.EntityKey { return *k }, compareEntityKeys)
}

// Links returns links in the order of their stored keys, the last of equal keys alone.
func Links(ls []jobs.Link) []jobs.Link {
	return ordered(ls, func(l *jobs.Link) jobs.EntityKey { return l.EntityKey }, compareEntityKeys)
}

// Pins returns pins in the order of their stored ids, the last of equal ids alone.
func Pins(ps []jobs.Pin) []jobs.Pin {
	type pinID struct {
		jobs.RowID
		operation string
	}
	return ordered(ps, func(p *jobs.Pin) pinID { return pinID{p.RowID, p.Operation} }, func(a, b pinID) int {
		return cmp.Or(compareRowIDs(a.RowID, b.RowID), compareIDs(a.operation, b.operation))
	})
}

// Groups returns groups in the order of their stored ids, the last of equal ids alone.
func Groups(gs []jobs.Group) []jobs.Group {
	type groupID struct{ flow, name string }
	return ordered(gs, func(g *jobs.Group) groupID { return groupID{g.Flow, g.Name} }, func(a, b groupID) int {
		return cmp.Or(compareIDs(a.flow, b.flow), compareIDs(a.name, b.name))
	})
}

// Sources returns source records in the order of their stored ids, the last of
// equal ids alone.
func Sources(rs []jobs.SourceRecord) []jobs.SourceRecord {
	return ordered(rs, func(r *jobs.SourceRecord) string { return r.ID }, compareIDs)
}

// Strings returns ids in the order of their stored forms, each once.
func Strings(ids []string) []string {
	return ordered(ids, func(s *string) string { return *s }, compareIDs)
}

func compareIDs(a, b string) int { return cmp.Compare(ID(a), ID(b)) }

func compareRowIDs(a, b jobs.RowID) int {
	return cmp.Or(compareIDs(a.Flow, b.Flow), compareIDs(a.Key, b.Key))
}

func compareEntityKeys(a, b jobs.EntityKey) int {
	return cmp.Or(compareIDs(a.Entity, b.Entity), compareIDs(a.Key, b.Key))
}

// ordered returns items sorted by key, the last of equal keys alone. It copies
// only when there is something to do. What is sorted are places and not items,
// for a row is some 600 bytes.
func ordered[T any, K comparable](items []T, key func(*T) K, compare func(a, b K) int) []T {
	sorted := true
	for i := 1; i < len(items) && sorted; i++ {
		sorted = compare(key(&items[i-1]), key(&items[i])) < 0
	}
	if sorted {
		return items
	}
	places := make([]int, len(items))
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int {
		return cmp.Or(compare(key(&items[a]), key(&items[b])), cmp.Compare(a, b))
	})
	out := make([]T, 0, len(items))
	for i, at := range places {
		if i+1 < len(places) && key(&items[places[i+1]]) == key(&items[at]) {
			continue
		}
		out = append(out, items[at])
	}
	return out
}
