package postgres

import (
	"encoding/json"
	"fmt"
	"testing"

	"syncd/connectors"
)

const parties = `CREATE TABLE p (id serial PRIMARY KEY, ref text UNIQUE, name text, vat text UNIQUE, active boolean NOT NULL DEFAULT true, v bigint, seen timestamptz);
CREATE TABLE a (party int REFERENCES p (id), kind text, city text, PRIMARY KEY (party, kind))`

func party(e *Entity) {
	e.Table, e.Key, e.Link, e.Version, e.Observed = "p", []string{"ref"}, []string{"id"}, "v", "seen"
	e.Gone = Gone{Column: "active", Value: "false"}
	e.Children = map[string]*Child{"addresses": child(func(c *Child) { c.Table, c.Parent, c.Key = "a", []string{"party"}, []string{"kind"} })}
}

func TestCreateRefusesADuplicateAsOne(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	b.same(brief(e.Create(t.Context(), write("R1", `{"name":"Ada","vat":"X","addresses":[{"kind":"bill","city":"Berlin"}]}`, 1))), "applied 1")
	o := e.Create(t.Context(), write("R1", `{"name":"Ada","addresses":[{"kind":"bill","city":"Bonn"}]}`, 1))
	b.same(brief(o), "invalid/sqlstate_23505")
	if !o.MaybeDuplicate || o.Message != "another row already has a value that must be unique (constraint p_ref_key of table p)" {
		t.Errorf("got %+v", o)
	}
	if o := e.Create(t.Context(), write("R2", `{"vat":"X"}`, 1)); !o.MaybeDuplicate {
		t.Errorf("got %+v", o)
	}
	if o := e.Create(t.Context(), write("R2", `{"nam":"X"}`, 1)); o.Class != connectors.Invalid || o.MaybeDuplicate {
		t.Errorf("got %+v", o)
	}
	b.want("SELECT ref, name, v, city FROM p JOIN a ON party = id", "R1 Ada 1 Berlin")
}

func TestFindTellsWhatStands(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	find := func(w connectors.Write) string {
		found, err := e.Find(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%+v", found)
	}
	b.same(find(connectors.Write{Key: "R1"}), "[]")
	e.Create(t.Context(), write("R1", `{"name":"Ada","addresses":[{"kind":"bill","city":"Berlin"},{"kind":"ship"}]}`, 5))
	b.same(find(connectors.Write{Key: "R1"}), "[{Link:1 Version:5 Same:false Archived:false}]")
	for name, c := range map[string]struct {
		body string
		same bool
	}{
		"the same":         {`{"name":"Ada","addresses":[{"kind":"ship"},{"kind":"bill","city":"Berlin"}]}`, true},
		"fewer fields":     {`{"name":"Ada"}`, true},
		"other name":       {`{"name":"Bea"}`, false},
		"null name":        {`{"name":null}`, false},
		"one address less": {`{"name":"Ada","addresses":[{"kind":"bill","city":"Berlin"}]}`, false},
		"one more":         {`{"name":"Ada","addresses":[{"kind":"ship"},{"kind":"bill","city":"Berlin"},{"kind":"x"}]}`, false},
		"other city":       {`{"name":"Ada","addresses":[{"kind":"ship","city":"Bonn"},{"kind":"bill","city":"Berlin"}]}`, false},
		"no address":       {`{"addresses":[]}`, false},
	} {
		b.same(name+find(write("R1", c.body, 5)), fmt.Sprintf("%s[{Link:1 Version:5 Same:%v Archived:false}]", name, c.same))
	}
	e.Remove(t.Context(), connectors.Write{Key: "R1", Link: "1", Removal: connectors.Archive, Stamp: version(6, 0)})
	b.same(find(connectors.Write{Key: "R1"}), "[{Link:1 Version:6 Same:false Archived:true}]")
}

func TestFindNamesEveryRowWhereNothingIsUnique(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (id int PRIMARY KEY, ref text); INSERT INTO p VALUES (1, 'R'), (2, 'R'), (3, 'S')`)
	e := b.entity(func(e *Entity) { e.Table, e.Key, e.Link, e.Unique = "p", []string{"ref"}, []string{"id"}, false })
	found, err := e.Find(t.Context(), connectors.Write{Key: "R"})
	if err != nil || len(found) != 2 || found[0].Link == found[1].Link {
		t.Errorf("found %+v, %v", found, err)
	}
	if e.Info().Carries(connectors.NaturalKey) || !e.Info().Carries(connectors.Lookup) {
		t.Errorf("info %+v", e.Info())
	}
}

func TestUpdateGoesThroughTheLink(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	e.Create(t.Context(), write("R1", `{"name":"Ada","vat":"X","addresses":[{"kind":"bill","city":"Berlin"}]}`, 5))
	up := func(key, link, body string, v int64) string {
		return brief(e.Update(t.Context(), connectors.Write{Key: key, Link: link, Body: json.RawMessage(body), Stamp: version(v, 0)}))
	}
	b.same(up("R1", "1", `{"name":"Bea","addresses":[{"kind":"ship","city":"Bonn"}]}`, 6), "applied 1")
	b.same(up("R1", "1", `{"name":"Old"}`, 5), "stale/newer_in_target 1")
	b.same(up("R1", "77", `{"name":"X"}`, 9), "missing/not_there")
	b.same(up("R1", `"x"`, `{"name":"X"}`, 9), "invalid/bad_link")
	b.same(up("R1-new", "1", `{}`, 7), "applied 1")
	b.want("SELECT ref, name, vat, v, city FROM p JOIN a ON party = id", "R1-new Bea X 7 Bonn")
	e.Create(t.Context(), write("R2", `{}`, 1))
	o := e.Update(t.Context(), connectors.Write{Key: "R1-new", Link: "2", Body: json.RawMessage(`{}`), Stamp: version(2, 0)})
	if o.Class != connectors.Waiting || o.Code != "key_taken" || o.WaitKey != "R1-new" || o.WaitEntity != "e" {
		t.Errorf("got %+v", o)
	}
	b.same(up("R2", "2", `{"vat":"X"}`, 3), "invalid/sqlstate_23505")
}

func TestUpdateOfARowThatIsCalledByItsKeyLeavesTheKey(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (ref text PRIMARY KEY, name text); INSERT INTO p VALUES ('R1', 'a'), ('R2', 'b')`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "p", []string{"ref"} })
	if e.Info().Renames {
		t.Error("says that it can change the key")
	}
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R9", Link: `"R1"`, Body: json.RawMessage(`{"name":"c"}`)})), `applied "R1"`)
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R1", Link: `"R1"`, Body: json.RawMessage(`{}`)})), `applied "R1"`)
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R9", Link: `"R9"`, Body: json.RawMessage(`{}`)})), `missing/not_there`)
	b.want("SELECT * FROM p ORDER BY 1", "R1 c | R2 b")
}

func TestRemoveArchivesAndComesBackToLife(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("R1", `{"name":"Ada"}`, 1), write("R2", `{}`, 9)}))
	rm := func(w connectors.Write) string { return brief(e.Remove(t.Context(), w)) }
	b.same(rm(connectors.Write{Key: "R1", Removal: connectors.Archive, Stamp: version(2, 0)}), "applied 2")
	b.same(rm(connectors.Write{Key: "R1", Link: "2", Removal: connectors.Archive, Stamp: version(3, 0)}), "unchanged 2")
	b.same(rm(connectors.Write{Key: "R2", Removal: connectors.Archive, Stamp: version(8, 0)}), "stale/newer_in_target")
	b.same(rm(connectors.Write{Key: "R3", Removal: connectors.Archive, Stamp: version(8, 0)}), "unchanged/not_there")
	b.want("SELECT ref, active, v FROM p ORDER BY 1", "R1 f 3 | R2 t 9")
	b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("R1", `{"name":"Ada"}`, 2)})...), "stale/newer_in_target 2")
	b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("R1", `{"name":"Ada"}`, 4)})...), "applied 2")
	b.want("SELECT active, v FROM p WHERE ref = 'R1'", "t 4")
	rm(connectors.Write{Key: "R1", Removal: connectors.Archive, Stamp: version(5, 0)})
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R1", Link: "2", Body: json.RawMessage(`{}`), Stamp: version(6, 0)})), "applied 2")
	b.want("SELECT active, v FROM p WHERE ref = 'R1'", "t 6")
	b.same(brief(e.Upsert(t.Context(), []connectors.Write{write("R1", `{"active":false}`, 7)})...), "applied 2") // the record's own word
	b.want("SELECT active, v FROM p WHERE ref = 'R1'", "f 7")
}

func TestRemovalInABatch(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("R1", `{}`, 1), write("R2", `{}`, 1)}))
	got := e.Upsert(t.Context(), []connectors.Write{write("R3", `{}`, 1), {Key: "R1", Removal: connectors.Delete, Stamp: version(2, 0)}, write("R2", `{"name":"x"}`, 2)})
	b.confirmed(got)
	b.want("SELECT ref FROM p ORDER BY 1", "R2 | R3")
}

func TestRemoveDeletesTheRecordWithItsChildren(t *testing.T) {
	t.Parallel()
	b := newBase(t, parties)
	e := b.entity(party)
	e.Create(t.Context(), write("R1", `{"addresses":[{"kind":"bill"}]}`, 5))
	e.Create(t.Context(), write("R2", `{"addresses":[{"kind":"bill"}]}`, 5))
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R1", Removal: connectors.Delete, Stamp: version(4, 0)})), "stale/newer_in_target")
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R1", Removal: connectors.Delete, Stamp: version(6, 0)})), "applied 1")
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R1", Removal: connectors.Delete, Stamp: version(6, 0)})), "unchanged/not_there")
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R1", Link: "1", Removal: connectors.Delete, Stamp: version(6, 0)})), "unchanged/not_there")
	b.want("SELECT ref, kind FROM p JOIN a ON party = id", "R2 bill")
}

func TestTimeOfRemovalIsKept(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (ref text PRIMARY KEY, at timestamptz); CREATE TABLE q (ref text PRIMARY KEY, at date); INSERT INTO p VALUES ('R'); INSERT INTO q VALUES ('R')`)
	for _, table := range []string{"p", "q"} {
		e := b.entity(func(e *Entity) { e.Table, e.Key, e.Gone.Column = table, []string{"ref"}, "at" })
		for i, want := range []string{"applied", "unchanged"} {
			b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R", Removal: connectors.Archive, Stamp: version(0, i)})), want+` "R"`)
		}
	}
	b.want("SELECT p.at AT TIME ZONE 'UTC', q.at FROM p, q", "2026-11-29 10:00:00 2026-11-29")
}

func TestRemovalThatTheEntityCannotDoIsRefused(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (ref text PRIMARY KEY)`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "p", []string{"ref"} })
	o := e.Remove(t.Context(), connectors.Write{Key: "R", Removal: connectors.Archive})
	if o.Class != connectors.Invalid || o.Message != "entity e cannot archive; name a column in gone, or say on_delete: delete" {
		t.Errorf("got %+v", o)
	}
}

func TestLinkOfSeveralColumnsLeadsBack(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (shop text, no numeric, name text, PRIMARY KEY (shop, no))`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "p", []string{"shop", "no"} })
	got := e.Upsert(t.Context(), []connectors.Write{write(`["a,\"b",1.5]`, `{"name":"x"}`, 1)})
	b.same(brief(got...), `applied "[\"a,\\\"b\",1.5]"`)
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: `["a,\"b",1.5]`, Link: got[0].Link, Body: json.RawMessage(`{"name":"y"}`)})), "applied "+got[0].Link)
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "whatever", Link: got[0].Link, Removal: connectors.Delete})), "applied "+got[0].Link)
	o := e.Remove(t.Context(), connectors.Write{Key: "not an array", Removal: connectors.Delete})
	b.same(o.Message, "the key column shop has no value: give it as a field, or make the flow's key a JSON array of the values of shop and no")
}

func TestRemoveUnderAPartialIndexLeavesThePastAlone(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE p (ref text NOT NULL, name text, gone boolean NOT NULL DEFAULT false); CREATE UNIQUE INDEX ON p (ref) WHERE NOT gone;
INSERT INTO p VALUES ('R', 'past', true), ('R', 'now', false)`)
	e := b.entity(func(e *Entity) { e.Table, e.Key, e.Gone.Column = "p", []string{"ref"}, "gone" })
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R", Link: `"R"`, Body: json.RawMessage(`{"name":"new"}`)})), `applied "R"`)
	b.want("SELECT name FROM p ORDER BY 1", "new | past")
	b.same(brief(e.Remove(t.Context(), connectors.Write{Key: "R", Removal: connectors.Delete})), `applied "R"`)
	b.want("SELECT name FROM p ORDER BY 1", "past")
	b.same(brief(e.Update(t.Context(), connectors.Write{Key: "R", Link: `"R"`, Body: json.RawMessage(`{"name":"x"}`)})), `missing/not_there`)
}
