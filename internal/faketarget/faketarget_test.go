package faketarget_test

import (
	"context"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
)

var begin = time.Date(2026, 11, 29, 9, 0, 0, 0, time.UTC)

// table is a target with a clock of its own.
type table struct {
	*faketarget.Entity
	now time.Time
}

func newTable(o faketarget.Options) *table {
	tb := &table{now: begin}
	tb.Entity = faketarget.New(o, func() time.Time { return tb.now })
	return tb
}

func write(key, body string, version int64) connectors.Write {
	return connectors.Write{Key: key, Body: []byte(body), Stamp: connectors.Stamp{Version: version}}
}

func TestFaultsDoWhatTheySay(t *testing.T) {
	tests := map[faketarget.Kind]struct {
		class connectors.Class
		link  string
		done  int
		later int
	}{
		faketarget.None:        {connectors.Applied, "1", 1, 1},
		faketarget.NotSent:     {connectors.Transient, "", 0, 0},
		faketarget.Throttle:    {connectors.Throttled, "", 0, 0},
		faketarget.Refuse:      {connectors.Invalid, "", 0, 0},
		faketarget.LoseRequest: {connectors.Unknown, "", 0, 0},
		faketarget.LoseAnswer:  {connectors.Unknown, "", 1, 1},
		faketarget.Late:        {connectors.Unknown, "", 0, 1},
		faketarget.FailUndone:  {connectors.Unknown, "", 0, 0},
		faketarget.FailDone:    {connectors.Unknown, "", 1, 1},
		faketarget.NoLink:      {connectors.Applied, "", 1, 1},
		faketarget.Foreign:     {connectors.Applied, "99999", 1, 1},
		faketarget.BadClass:    {"splendid", "1", 1, 1},
		faketarget.NotThere:    {connectors.Applied, "1", 1, 1},
		faketarget.Short:       {"", "", 1, 1},
	}
	for _, k := range append(faketarget.Kinds(), faketarget.None) {
		if k == faketarget.PanicBefore || k == faketarget.PanicAfter {
			continue
		}
		t.Run(string(k), func(t *testing.T) {
			want, ok := tests[k]
			if !ok {
				t.Fatal("nothing is said of it")
			}
			tb := newTable(faketarget.Options{})
			tb.Script(faketarget.Fault{Kind: k, Delay: time.Minute})
			o := tb.Create(t.Context(), write("a", `{}`, 1))
			if o.Class != want.class || o.Link != want.link || tb.Len() != want.done {
				t.Errorf("%s link %q, %d records", o.Class, o.Link, tb.Len())
			}
			tb.now = tb.now.Add(time.Minute)
			if n := len(tb.Records("a")); n != want.later {
				t.Errorf("%d records in the end", n)
			}
		})
	}
	for k, done := range map[faketarget.Kind]int{faketarget.PanicBefore: 0, faketarget.PanicAfter: 1} {
		t.Run(string(k), func(t *testing.T) {
			tb := newTable(faketarget.Options{})
			tb.Script(faketarget.Fault{Kind: k})
			if v := panicOf(func() { tb.Create(t.Context(), write("a", `{}`, 1)) }); v == nil {
				t.Error("no panic")
			}
			if tb.Len() != done {
				t.Errorf("%d records", tb.Len())
			}
		})
	}
}

func panicOf(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func TestKeysOfAUniqueTarget(t *testing.T) {
	for unique, most := range map[bool]int{true: 1, false: 2} {
		tb := newTable(faketarget.Options{Unique: unique})
		tb.Create(t.Context(), write("a", `{}`, 1))
		o := tb.Create(t.Context(), write("a", `{}`, 1))
		if o.MaybeDuplicate != unique || tb.MostAtOnce("a") != most {
			t.Errorf("unique %v: %+v, %d at once", unique, o, tb.MostAtOnce("a"))
		}
	}
}

func TestGuardRefusesOlderStampsOfWhatIsThere(t *testing.T) {
	for guarded, back := range map[bool]bool{true: false, false: true} {
		tb := newTable(faketarget.Options{Guarded: guarded})
		tb.Script(faketarget.Fault{Kind: faketarget.Late, Delay: time.Minute})
		tb.Upsert(t.Context(), []connectors.Write{write("a", `{"v":1}`, 1)})
		tb.Upsert(t.Context(), []connectors.Write{write("a", `{"v":2}`, 2)})
		tb.now = tb.now.Add(time.Hour)
		tb.Land()
		went := false
		for _, e := range tb.Effects() {
			went = went || e.Back && e.Late
		}
		if went != back {
			t.Errorf("guarded %v: went back %v: %+v", guarded, went, tb.Effects())
		}
	}
}

func TestIndexIsBehind(t *testing.T) {
	tb := newTable(faketarget.Options{IndexLag: time.Minute})
	found := func() []connectors.Found {
		fs, err := tb.Find(context.Background(), write("a", `{"v":1}`, 1))
		if err != nil {
			t.Fatal(err)
		}
		return fs
	}
	tb.Create(t.Context(), write("a", `{"v":1}`, 1))
	if fs := found(); len(fs) != 0 {
		t.Errorf("found at once: %+v", fs)
	}
	tb.now = tb.now.Add(time.Minute)
	tb.Update(t.Context(), connectors.Write{Key: "a", Link: "1", Body: []byte(`{"v":2}`)})
	if fs := found(); len(fs) != 1 || !fs[0].Same {
		t.Errorf("a minute after the first: %+v", fs)
	}
	tb.now = tb.now.Add(time.Minute)
	tb.Drop("a")
	if fs := found(); len(fs) != 1 || fs[0].Same {
		t.Errorf("a minute after the second: %+v", fs)
	}
	tb.now = tb.now.Add(time.Minute)
	if fs := found(); len(fs) != 0 {
		t.Errorf("a minute after the deletion: %+v", fs)
	}
}

func TestRestoreGivesIDsOutAgain(t *testing.T) {
	tb := newTable(faketarget.Options{})
	s := tb.Snapshot()
	tb.Seed("a", `{}`)
	tb.Restore(s)
	if tb.Len() != 0 || tb.Seed("b", `{}`) != "1" {
		t.Error("the backup was not restored")
	}
}
