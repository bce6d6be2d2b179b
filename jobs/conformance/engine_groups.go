package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// member is a ready row of a group, with a desired state of that version.
func member(key, group string, version int64) jobs.Row {
	r := plain(key)
	r.Group, r.Desired = group, connectors.Stamp{Epoch: 1, Version: version, Observed: noon}
	return r
}

var groupSentences = []sentence{
	{"the head of a group is its first row in order that is not done", func(t *engineTest) {
		done := member("1 done", "G", 1)
		done.State = jobs.Done
		late := member("3 late", "G", 2)
		late.DueAt = noon.Add(anHour)
		t.put(member("2 behind", "G", 3), late, done, member("4 alone", "H", 9), member("5 in no group", "", 1))
		other := member("6 another flow's", "G", 1)
		other.Flow = "products"
		t.put(other)
		got := t.heads([]string{"G", "H", "G", "none", ""})
		t.same("the heads", groupsAndKeys(got), []string{"G: 3 late", "H: 4 alone"})
		late.Body = nil
		t.same("a head", got[0], late)
	}},
	{"rows of a group are in the order of their desired states, then of their keys", func(t *engineTest) {
		stamps := []connectors.Stamp{
			{Epoch: -1, Version: 9, Observed: noon}, {Version: -5}, {Version: -5, Observed: time.UnixMicro(-1).UTC()}, {Version: -5, Observed: time.UnixMicro(0).UTC()},
			{Version: -5, Observed: noon}, {Version: 10}, {Version: 1 << 53}, {Version: 1<<53 + 1}, {Epoch: 1}, {Epoch: 1, Version: 1, Observed: noon},
			{Epoch: 1, Version: 1, Observed: noon.Add(time.Microsecond)}, {Epoch: 1, Version: 1, Observed: noon.Add(time.Microsecond)},
		}
		var rows []jobs.Row
		for i, s := range stamps {
			// Keys and due times say something else, but where the states are equal.
			r := member(fmt.Sprintf("%03d", 100-i), "G", 0)
			r.Desired, r.DueAt = s, noon.Add(time.Duration(-i)*time.Minute)
			rows = append(rows, r)
		}
		last := len(rows) - 1
		rows[last].Key, rows[last-1].Key = "b", "a"
		reversed := slices.Clone(rows)
		slices.Reverse(reversed)
		t.put(reversed...)
		for _, want := range rows {
			t.same("the head", groupsAndKeys(t.heads([]string{"G"})), []string{"G: " + want.Key})
			want.State = jobs.Done
			t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{want}) })
		}
		t.same("the head of a group that is done", t.heads([]string{"G"}), []jobs.Row(nil))
	}},
	{"dead and held rows are heads unless their state is passed", func(t *engineTest) {
		rows := []jobs.Row{member("1", "G", 1), member("2", "G", 2), member("3", "G", 3), member("4", "G", 4), member("5", "H", 1)}
		rows[0].State, rows[1].State, rows[2].State, rows[4].State = jobs.Dead, jobs.Dead, jobs.Held, jobs.Dead
		t.put(rows...)
		for _, c := range []struct {
			passed []jobs.State
			want   []string
		}{
			{nil, []string{"G: 1", "H: 5"}}, {[]jobs.State{jobs.Dead}, []string{"G: 3"}}, {[]jobs.State{jobs.Held}, []string{"G: 1", "H: 5"}},
			{[]jobs.State{jobs.Dead, jobs.Held}, []string{"G: 4"}}, {[]jobs.State{jobs.Ready, jobs.Dead, jobs.Held}, nil},
		} {
			t.same(fmt.Sprint("the heads past ", c.passed), groupsAndKeys(t.heads([]string{"H", "G"}, c.passed...)), c.want)
		}
	}},
	{"heads are seen as the transaction has made them", func(t *engineTest) {
		t.put(member("1", "G", 1), member("2", "G", 2))
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			done, first := member("1", "G", 1), member("0", "G", 0)
			done.State = jobs.Done
			for _, c := range []struct {
				row  jobs.Row
				want string
			}{{done, "2"}, {first, "0"}} {
				if err := tx.PutRows(ctx, []jobs.Row{c.row}); err != nil {
					return err
				}
				got, err := tx.Heads(ctx, "orders", []string{"G"})
				if err != nil {
					return err
				}
				t.same("the head", keysOf(got), []string{c.want})
			}
			return nil
		})
	}},
	{"groups may have any name", func(t *engineTest) {
		var names, want []string
		for i, odd := range oddTexts() {
			names = append(names, odd.text)
			t.put(member(fmt.Sprintf("%02d b", i), odd.text, 2), member(fmt.Sprintf("%02d a", i), odd.text, 1))
			want = append(want, odd.text+": "+fmt.Sprintf("%02d a", i))
		}
		slices.Sort(want)
		got := groupsAndKeys(t.heads(names))
		slices.Sort(got)
		t.same("the heads", got, want)
	}},
	{"a group is remembered as it was put, of its flow", func(t *engineTest) {
		a := jobs.Group{Flow: "orders", Name: "G\x00\xff", Sent: connectors.Stamp{Epoch: 1, Version: 1 << 60, Observed: noon}, SentKey: "K\x00"}
		b, other := jobs.Group{Flow: "orders", Name: "H"}, jobs.Group{Flow: "products", Name: "H", SentKey: "P"}
		t.putGroups(a, b, other, jobs.Group{Flow: "orders", Name: "I"})
		t.same("the groups", t.groups("H", a.Name, "H", "none"), []jobs.Group{a, b})
		a.Sent, a.SentKey = connectors.Stamp{Version: 2}, "L"
		b.SentKey = "last"
		t.putGroups(a, jobs.Group{Flow: "orders", Name: "H", SentKey: "first"}, b)
		t.same("the groups after they were put again", t.groups(a.Name, "H"), []jobs.Group{a, b})
		t.same("no groups", t.groups(), []jobs.Group(nil))
	}},
}

// groupsAndKeys names rows as "group: key", in the order of the groups.
func groupsAndKeys(rows []jobs.Row) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = r.Group + ": " + r.Key
	}
	return out
}

// heads are those of groups of the flow orders, in the order of the groups.
func (t *engineTest) heads(groups []string, passed ...jobs.State) (out []jobs.Row) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Heads(ctx, "orders", groups, passed...)
		return err
	})
	slices.SortFunc(out, func(a, b jobs.Row) int { return cmp.Compare(a.Group, b.Group) })
	return out
}

func (t *engineTest) putGroups(gs ...jobs.Group) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutGroups(ctx, gs) })
}

func (t *engineTest) groups(names ...string) (out []jobs.Group) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Groups(ctx, "orders", names)
		return err
	})
	slices.SortFunc(out, func(a, b jobs.Group) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
