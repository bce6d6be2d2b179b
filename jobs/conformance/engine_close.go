package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/jobs"
)

// fitting is a row that a closing of generation 2 and attempt 6 ends, with something
// of its own in every field that it may have something in.
func fitting(key string) jobs.Row {
	r := full(key)
	r.State, r.Reason, r.Gone, r.UnresolvedAt, r.LastClass = jobs.Ready, jobs.ReasonRetry, false, time.Time{}, connectors.Unchanged
	r.Group, r.WaitEntity, r.WaitKey, r.RenamedFrom = "", "", "", ""
	return r
}

func closingOf(r *jobs.Row, class connectors.Class) jobs.Closing {
	return jobs.Closing{RowID: r.RowID, Generation: r.Generation, Attempt: r.Attempt + 1, Class: class}
}

// misfits are the ways in which a row that would fit does not.
var misfits = map[string]func(r *jobs.Row){
	"of another client":    func(r *jobs.Row) { r.Client = "erp2" },
	"of a newer state":     func(r *jobs.Row) { r.Generation++ },
	"of an older state":    func(r *jobs.Row) { r.Generation-- },
	"tried since":          func(r *jobs.Row) { r.Attempt++ },
	"not tried as often":   func(r *jobs.Row) { r.Attempt-- },
	"done":                 func(r *jobs.Row) { r.State = jobs.Done },
	"dead":                 func(r *jobs.Row) { r.State = jobs.Dead },
	"held":                 func(r *jobs.Row) { r.State = jobs.Held },
	"to be gone":           func(r *jobs.Row) { r.Gone = true },
	"in doubt":             func(r *jobs.Row) { r.UnresolvedAt = noon },
	"that failed":          func(r *jobs.Row) { r.LastClass = connectors.Transient },
	"that was lost":        func(r *jobs.Row) { r.LastClass = connectors.Lost },
	"of a group":           func(r *jobs.Row) { r.Group = "G" },
	"that waits":           func(r *jobs.Row) { r.WaitEntity = "party" },
	"whose key moves on":   func(r *jobs.Row) { r.WaitKey = "NEW" },
	"that gets a new key":  func(r *jobs.Row) { r.RenamedFrom = "OLD" },
	"of a class not known": func(r *jobs.Row) { r.LastClass = "later" },
}

var closeSentences = []sentence{
	{"rows that fit are ended where they are", func(t *engineTest) {
		now := noon.Add(time.Hour)
		var rows []jobs.Row
		var cs []jobs.Closing
		want := map[jobs.RowID]jobs.Row{}
		for i, class := range []connectors.Class{connectors.Applied, connectors.Unchanged, connectors.AlreadyApplied, connectors.Applied} {
			for j, last := range []connectors.Class{"", connectors.Applied, connectors.Unchanged, connectors.AlreadyApplied, connectors.Stale} {
				r := fitting(fmt.Sprint("\xff\x00", i, j))
				r.LastClass = last
				rows = append(rows, r)
				c := closingOf(&r, class)
				cs = append(cs, c)
				c.Close(&r, now)
				want[r.RowID] = r
			}
		}
		t.put(rows...)
		closed, rest := t.close("erp", cs, now)
		if len(closed) != len(rows) || len(rest) != 0 {
			t.Errorf("%d rows were closed and %d came back, want all %d closed", len(closed), len(rest), len(rows))
		}
		var ids []jobs.RowID
		for _, r := range rows {
			ids = append(ids, r.RowID)
		}
		t.same("the rows", t.get(ids...), want)
	}},
	{"a row that does not fit comes back as it is", func(t *engineTest) {
		var rows []jobs.Row
		var cs []jobs.Closing
		add := func(key string, spoil func(*jobs.Row)) {
			r := fitting(key)
			c := closingOf(&r, connectors.Applied)
			spoil(&r)
			rows, cs = append(rows, r), append(cs, c)
		}
		for name, spoil := range misfits {
			add(name, spoil)
		}
		add("only held", func(*jobs.Row) {})
		cs[len(cs)-1].Class = ""
		t.put(rows...)
		// One that fits and one that is not there go along.
		fits := fitting("fits")
		t.put(fits)
		none := fitting("none")
		cs = append(cs, closingOf(&fits, connectors.Unchanged), closingOf(&none, connectors.Applied))
		closed, rest := t.close("erp", cs, noon)
		t.same("what was closed", closed, []jobs.RowID{fits.RowID})
		want, got := map[jobs.RowID]jobs.Row{}, map[jobs.RowID]jobs.Row{}
		var ids []jobs.RowID
		for _, r := range rows {
			ids = append(ids, r.RowID)
			want[r.RowID] = r
		}
		t.same("the rows that are stored", t.get(ids...), want)
		for _, r := range rest {
			got[r.RowID] = r
		}
		for id, r := range want {
			r.Body = nil
			want[id] = r
		}
		t.same("the rows that came back", got, want)
	}},
	{"a row that was closed is due no more, and one whose closing was undone is", func(t *engineTest) {
		r := fitting("A-1")
		r.Shard, r.DueAt = 0, noon
		other := plain("A-2")
		t.put(r, other)
		undone := errors.New("undone")
		for _, end := range []error{undone, nil} {
			err := t.e.Update(t.Context(), func(tx jobs.Tx) error {
				_, _, err := tx.CloseRows(t.Context(), "erp", []jobs.Closing{closingOf(&r, connectors.Applied)}, noon)
				if err != nil {
					return err
				}
				return end
			})
			if !errors.Is(err, end) {
				t.Fatal(err)
			}
			t.update(func(ctx context.Context, tx jobs.Tx) error {
				rows, err := tx.Due(ctx, jobs.LaneID{Client: "erp"}, noon.Add(time.Hour), 10)
				want := []string{"A-2"}
				if end != nil {
					want = []string{"A-1", "A-2"}
				}
				t.same("what is due", keysOf(rows), want)
				return err
			})
		}
	}},
	{"closing nothing is no work, and a View closes nothing", func(t *engineTest) {
		closed, rest := t.close("erp", nil, noon)
		if len(closed)+len(rest) > 0 {
			t.Errorf("%v was closed and %v came back", closed, rest)
		}
		r := fitting("A-1")
		t.put(r)
		err := t.e.View(t.Context(), func(tx jobs.Tx) error {
			_, _, err := tx.CloseRows(t.Context(), "erp", []jobs.Closing{closingOf(&r, connectors.Applied)}, noon)
			return err
		})
		if err == nil {
			t.Error("a View closed a row")
		}
		t.same("the row", t.get(r.RowID)[r.RowID], r)
	}},
	{"rows are stored whole whatever they have in common", func(t *engineTest) {
		// Each field differs between two rows that are alike in all others, and is
		// replaced by that of rows which are full, then by that of rows which are not.
		for name, change := range differences() {
			for _, base := range []func(string) jobs.Row{plain, full, plain} {
				a, b := base("A-"+name), base("B-"+name)
				change(&b)
				t.put(a, b)
				t.same("with another "+name, t.get(a.RowID, b.RowID), map[jobs.RowID]jobs.Row{a.RowID: a, b.RowID: b})
			}
		}
	}},
}

// differences change one field of a row each, by its name.
func differences() map[string]func(*jobs.Row) {
	out := map[string]func(*jobs.Row){}
	var walk func(t reflect.Type, name string, at []int)
	walk = func(t reflect.Type, name string, at []int) {
		for i := range t.NumField() {
			f := t.Field(i)
			at := append(slices.Clone(at), i)
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[time.Time]() {
				walk(f.Type, name+f.Name+".", at)
				continue
			}
			out[name+f.Name] = func(r *jobs.Row) { change(reflect.ValueOf(r).Elem().FieldByIndex(at)) }
		}
	}
	walk(reflect.TypeFor[jobs.Row](), "", nil)
	return out
}

func change(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = noon.Add(99 * time.Hour)
	case *jobs.State:
		*x = jobs.Dead
	case *[]byte:
		*x = []byte("other")
	case *json.RawMessage:
		*x = nil
	default:
		switch v.Kind() {
		case reflect.String:
			v.SetString(v.String() + "+")
		case reflect.Bool:
			v.SetBool(!v.Bool())
		default:
			v.SetInt(v.Int() + 1)
		}
	}
}

// close closes rows in a transaction of its own.
func (t *engineTest) close(client string, cs []jobs.Closing, now time.Time) (closed []jobs.RowID, rest []jobs.Row) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) (err error) {
		closed, rest, err = tx.CloseRows(ctx, client, cs, now)
		return err
	})
	return closed, rest
}
