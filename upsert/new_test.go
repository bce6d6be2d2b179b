package upsert_test

import (
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/upsert"
)

const at = "flow orders, entity thing of client erp: "

func TestFlowsThatAnEntityCannotCarryAreRefused(t *testing.T) {
	bare := func(info connectors.EntityInfo) func(*faketarget.Entity) connectors.Entity {
		return func(*faketarget.Entity) connectors.Entity {
			info.Name = "thing"
			return described{info: info}
		}
	}
	carries := func(ss ...connectors.Strategy) connectors.EntityInfo {
		var i connectors.EntityInfo
		for _, s := range ss {
			i.Strategies = append(i.Strategies, connectors.StrategyInfo{Strategy: s})
		}
		return i
	}
	tests := map[string]struct {
		strategy connectors.Strategy
		change   func(*jobs.Flow)
		options  faketarget.Options
		less     func(*faketarget.Entity) connectors.Entity
		want     string
	}{
		"a strategy that the entity has not": {
			strategy: connectors.ExternalRef,
			want:     at + "it cannot carry strategy external_ref; it can carry natural_key (by key, its primary key), lookup (by ref), at_most_once (by ref)",
		},
		"an entity that carries nothing": {
			strategy: connectors.Lookup, less: bare(connectors.EntityInfo{}),
			want: at + "it cannot carry strategy lookup; it can carry none",
		},
		"an unknown strategy": {
			strategy: "hope", less: bare(carries("hope")),
			want: at + "strategy hope is not known; the strategies are natural_key, external_ref, idempotency_key, lookup and at_most_once",
		},
		"a connector without the primitives of its strategy": {
			strategy: connectors.Lookup, less: bare(carries(connectors.Lookup)),
			want: at + "it says that it carries strategy lookup, but it cannot look records up by key; this is a defect of the connector\n" +
				at + "it says that it carries strategy lookup, but it cannot create records; this is a defect of the connector\n" +
				at + "it says that it carries strategy lookup, but it cannot update records; this is a defect of the connector",
		},
		"a natural key without upsert": {
			strategy: connectors.NaturalKey, less: bare(carries(connectors.NaturalKey)),
			want: at + "it says that it carries strategy natural_key, but it cannot create or update in one step; this is a defect of the connector",
		},
		"children that every write adds to": {
			strategy: connectors.NaturalKey,
			options: faketarget.Options{Children: map[string]connectors.ChildMode{
				"notes": connectors.Appends, "lines": connectors.Replaces, "comments": connectors.Appends}},
			want: at + "each write adds to comments, notes again, so no strategy that may send a record twice can carry it; at_most_once can",
		},
		"a refusal of existing records without look-up": {
			strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.OnExisting = "refuse" },
			less: func(e *faketarget.Entity) connectors.Entity { return onlyUpsert{e, e} },
			want: at + "on_existing: refuse needs to look records up by key, and this entity cannot; take on_existing: adopt",
		},
		"create_only over an entity that only upserts": {
			strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.CreateOnly = true },
			less: func(e *faketarget.Entity) connectors.Entity { return onlyUpsert{e, e} },
			want: at + "create_only needs to look records up and to create them, and this entity can only create or update in one step; take create_only out, or another strategy",
		},
		"a removal that the entity cannot do": {
			strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.OnDelete = "delete" },
			less: func(e *faketarget.Entity) connectors.Entity {
				i := e.Info()
				i.Removals = []connectors.Removal{connectors.Archive}
				return struct {
					described
					connectors.Upserter
				}{described{info: i}, e}
			},
			want: at + "it cannot delete records; on_delete can be ignore, archive",
		},
		"a removal that the connector only claims": {
			strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.OnDelete = "archive" },
			less: func(e *faketarget.Entity) connectors.Entity { return onlyUpsert{e, e} },
			want: at + "it says that it can archive records, but it has no way to; this is a defect of the connector",
		},
		"create_only with removals and renames": {
			strategy: connectors.Lookup, change: func(f *jobs.Flow) { f.CreateOnly, f.OnDelete, f.OnRename = true, "archive", "rename" },
			want: at + "create_only never changes a record that is there, so on_delete must be ignore\n" +
				at + "create_only never changes a record that is there, so on_rename cannot be rename",
		},
		"a rename that the entity cannot do": {
			strategy: connectors.NaturalKey, change: func(f *jobs.Flow) { f.OnRename = "rename" },
			less: func(e *faketarget.Entity) connectors.Entity { return upsertRemove{e, e, e} },
			want: at + "it cannot change the key of a record; on_rename can be recreate or refuse",
		},
		"policies that are not given": {
			strategy: connectors.NaturalKey,
			change:   func(f *jobs.Flow) { f.OnExisting, f.OnDelete, f.SettleTime = "", "hide", -time.Second },
			want: at + "settle_time -1s is negative\n" +
				at + `on_existing is ""; it must be adopt or refuse` + "\n" +
				at + `on_delete is "hide"; it must be ignore, archive or delete`,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := defaults(tt.strategy)
			if tt.change != nil {
				tt.change(f)
			}
			_, err := newWorld(f, tt.options, tt.less)
			if err == nil {
				t.Fatal("it was accepted")
			}
			if err.Error() != tt.want {
				t.Errorf("the error is\n%s\nand should be\n%s", err, tt.want)
			}
		})
	}
}

func TestFlowsThatAnEntityCanCarryAreAccepted(t *testing.T) {
	tests := map[string]struct {
		strategy connectors.Strategy
		change   func(*jobs.Flow)
		less     func(*faketarget.Entity) connectors.Entity
	}{
		"upsert alone":            {connectors.NaturalKey, nil, func(e *faketarget.Entity) connectors.Entity { return onlyUpsert{e, e} }},
		"upsert and remove":       {connectors.NaturalKey, func(f *jobs.Flow) { f.OnDelete = "delete" }, func(e *faketarget.Entity) connectors.Entity { return upsertRemove{e, e, e} }},
		"create_only by key":      {connectors.NaturalKey, func(f *jobs.Flow) { f.CreateOnly = true }, nil},
		"create_only, no updates": {connectors.Lookup, func(f *jobs.Flow) { f.CreateOnly = true }, createFind},
		"everything":              {connectors.ExternalRef, func(f *jobs.Flow) { f.OnExisting, f.OnDelete, f.OnRename = "refuse", "archive", "rename" }, withAdvance},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := defaults(tt.strategy)
			if tt.change != nil {
				tt.change(f)
			}
			if _, err := newWorld(f, faketarget.Options{Unique: true}, tt.less); err != nil {
				t.Error(err)
			}
		})
	}
}

func createFind(e *faketarget.Entity) connectors.Entity {
	return struct {
		connectors.Entity
		connectors.Creator
		connectors.Finder
	}{e, e, e}
}

func TestOnlyUpsertsAreBatched(t *testing.T) {
	tests := map[string]struct {
		strategy connectors.Strategy
		batch    int
		only     bool
		want     int
	}{
		"upserts":                          {connectors.NaturalKey, 200, false, 200},
		"an entity without batches":        {connectors.NaturalKey, 0, false, 1},
		"creates under a reference":        {connectors.ExternalRef, 200, false, 1},
		"look-ups":                         {connectors.Lookup, 200, false, 1},
		"creates that leave what is there": {connectors.NaturalKey, 200, true, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := defaults(tt.strategy)
			f.CreateOnly = tt.only
			w, err := newWorld(f, faketarget.Options{Unique: true, MaxBatch: tt.batch}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.s.MaxBatch(); got != tt.want {
				t.Errorf("MaxBatch is %d, not %d", got, tt.want)
			}
		})
	}
}

func TestTheEntitysSettleTimeServesFlowsWithoutOne(t *testing.T) {
	f := defaults(connectors.ExternalRef)
	f.SettleTime = 0
	w, err := newWorld(f, faketarget.Options{Unique: true}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.careless = true
	w.want("a", `{"v":1}`)
	w.target.Script(faketarget.Fault{Kind: faketarget.LoseRequest})
	w.run(t.Context(), false, "a")
	w.wait(time.Second)
	o := w.run(t.Context(), false, "a")[0]
	if o.Code != jobs.CodeSettling || o.RetryAfter != settleTime-time.Second {
		t.Errorf("one second after a write in doubt: %+v", o)
	}
}

func TestLookUpNamesEveryRecordOfAKey(t *testing.T) {
	w, err := newWorld(defaults(connectors.Lookup), faketarget.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.target.Seed("one", `{}`)
	for range 12 {
		w.target.Seed("many", `{}`)
	}
	w.target.Edit("3", func(r *faketarget.Record) { r.Archived = true })
	tests := map[string]struct {
		key   string
		fault faketarget.Kind
		link  string
		found bool
		want  string
		class connectors.Class
	}{
		"one record": {key: "one", link: "1", found: true},
		"no record":  {key: "none"},
		"several": {key: "many", class: connectors.Invalid,
			want: "look up thing many: invalid (ambiguous): 12 records of thing carry the key many: " +
				"2, 3 (archived), 4, 5, 6, 7, 8, 9, 10, 11 and 2 more; leave the key to one of them, then replay this job"},
		"a failed read":     {key: "one", fault: faketarget.FailUndone, class: connectors.Transient, want: "look up thing one: transient (http_500): find failed"},
		"a throttled read":  {key: "one", fault: faketarget.Throttle, class: connectors.Throttled, want: "look up thing one: throttled (http_429): too many requests"},
		"a panic in a read": {key: "one", fault: faketarget.PanicBefore, class: connectors.Transient, want: "look up thing one: transient (panic): a defect of the connector: it panicked in find (string)"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w.target.Script(faketarget.Fault{Kind: tt.fault})
			link, found, err := upsert.LookUp(t.Context(), w.target, tt.key)
			if link != tt.link || found != tt.found {
				t.Errorf("found %q, %v", link, found)
			}
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			e, ok := err.(*connectors.Error)
			if !ok || e.Class != tt.class || err.Error() != tt.want {
				t.Errorf("the error is\n%v\nand should be\n%s", err, tt.want)
			}
		})
	}
}

func TestLookUpOfAnEntityThatCannotFind(t *testing.T) {
	w, err := newWorld(defaults(connectors.NaturalKey), faketarget.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = upsert.LookUp(t.Context(), onlyUpsert{w.target, w.target}, "one")
	if err == nil || !strings.Contains(err.Error(), "entity thing cannot be looked up by key") {
		t.Errorf("the error is %v", err)
	}
}
