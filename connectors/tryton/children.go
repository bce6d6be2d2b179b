package tryton

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
)

// children compares the records of a one-to-many field, as read, with those that
// are wanted, and returns the commands that bring them there.
//
// Where records can be archived (addresses), other documents may refer to them:
// one that is wanted and there is left alone, whatever its place. The others are
// changed one into the other in their order, what is too many is archived, what
// is missing is created. Where they cannot (lines of a sale), the first that
// differs is deleted with all that follow, and these are created anew: so they
// keep their order, and none keeps a value that belonged to another. The same
// lines in another order are the same: a shop may tell them so on any day, and
// where the sale is frozen there would be nothing to do about it.
func (r *rpc) children(ctx context.Context, relation string, have []map[string]any, want []map[string]any) ([]any, error) {
	archives, err := r.has(ctx, relation, "active")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(have, func(a, b map[string]any) int { return cmp.Compare(number64(a["id"]), number64(b["id"])) })
	if archives {
		have = slices.DeleteFunc(have, func(h map[string]any) bool { return h["active"] == false })
		return kept(have, want), nil
	}
	return replaced(have, want), nil
}

// replaced brings children there that nothing else refers to.
func replaced(have, want []map[string]any) (cmds []any) {
	if alike(have, want) {
		return nil
	}
	same := 0
	for same < min(len(have), len(want)) && holds(have[same], want[same]) {
		same++
	}
	if same < len(have) {
		cmds = append(cmds, []any{"delete", ids(have[same:])})
	}
	if same < len(want) {
		cmds = append(cmds, []any{"create", want[same:]})
	}
	return cmds
}

// alike reports whether each wanted child is there, in whatever order, and no other.
func alike(have, want []map[string]any) bool {
	if len(have) != len(want) {
		return false
	}
	have = slices.Clone(have)
	for _, w := range want {
		at := slices.IndexFunc(have, func(h map[string]any) bool { return holds(h, w) })
		if at < 0 {
			return false
		}
		have = slices.Delete(have, at, at+1)
	}
	return true
}

// kept brings children there that may be referred to.
func kept(have, want []map[string]any) (cmds []any) {
	have, want = slices.Clone(have), slices.Clone(want)
	names := map[string]bool{}
	for i := 0; i < len(want); i++ {
		for n := range want[i] {
			names[n] = true
		}
		at := slices.IndexFunc(have, func(h map[string]any) bool { return holds(h, want[i]) })
		if at >= 0 {
			have, want = slices.Delete(have, at, at+1), slices.Delete(want, i, i+1)
			i--
		}
	}
	both := min(len(have), len(want))
	for i := range both {
		cmds = append(cmds, []any{"write", []any{have[i]["id"]}, becoming(have[i], want[i], names)})
	}
	if len(have) > both {
		cmds = append(cmds, []any{"write", ids(have[both:]), map[string]any{"active": false}})
	}
	if len(want) > both {
		cmds = append(cmds, []any{"create", want[both:]})
	}
	return cmds
}

// becoming is what has to be written to make one record another. A field that
// only its siblings are given is emptied.
func becoming(have, want map[string]any, names map[string]bool) map[string]any {
	out := map[string]any{}
	for n := range names {
		v, given := want[n]
		if given && !equal(v, have[n]) || !given && !empty(have[n]) {
			out[n] = v
		}
	}
	return out
}

// holds reports whether a record holds all that is wanted of it.
func holds(have, want map[string]any) bool {
	for n, v := range want {
		if !equal(v, have[n]) {
			return false
		}
	}
	return true
}

func ids(rows []map[string]any) (out []any) {
	for _, r := range rows {
		out = append(out, r["id"])
	}
	return out
}

func number64(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

// listed is a one-to-many field as it was read by its dotted names.
func listed(row map[string]any, name string) (out []map[string]any) {
	l, _ := row[name+"."].([]any)
	for _, x := range l {
		if m, ok := x.(map[string]any); ok {
			out = append(out, m)
		}
	}
	return out
}

// dotted are the names by which the fields of children are read with their
// parent. https://docs.tryton.org/6.0/server/ref/models.html#trytond.model.ModelStorage.read
func (r *rpc) dotted(ctx context.Context, model, name string, want []map[string]any) (names []string, relation string, err error) {
	f, err := r.field(ctx, model, name)
	if err != nil {
		return nil, "", err
	}
	archives, err := r.has(ctx, f.Relation, "active")
	if err != nil {
		return nil, "", err
	}
	all := map[string]bool{"id": true}
	if archives {
		all["active"] = true
	}
	for _, w := range want {
		for n := range w {
			all[n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(all)) {
		names = append(names, name+"."+n)
	}
	return names, f.Relation, nil
}
