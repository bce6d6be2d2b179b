package postgres

import (
	"fmt"
	"strings"
	"testing"

	"syncd/connectors"
)

const orderLines = `CREATE TABLE o (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, number text NOT NULL UNIQUE, total int, v bigint, seen timestamptz);
CREATE TABLE l (order_id bigint NOT NULL REFERENCES o (id), line_no int NOT NULL, sku text, qty int CHECK (qty > 0), extra text DEFAULT 'd', PRIMARY KEY (order_id, line_no))`

func withLines(set func(c *Child)) func(e *Entity) {
	return func(e *Entity) {
		e.Table, e.Key, e.Version, e.Observed, e.Link = "o", []string{"number"}, "v", "seen", []string{"id"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) {
			c.Table, c.Parent, c.Key = "l", []string{"order_id"}, []string{"line_no"}
			if set != nil {
				set(c)
			}
		})}
	}
}

const lineRows = "SELECT o.number, line_no, sku, qty FROM l JOIN o ON o.id = order_id ORDER BY 1, 2"

func TestLinesAreReplacedWithTheirRecord(t *testing.T) {
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(nil))
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{
		write("A", `{"total":1,"lines":[{"line_no":1,"sku":"x","qty":1},{"line_no":2,"sku":"y","qty":2},{"line_no":3,"sku":"z","qty":3}]}`, 1),
		write("B", `{"total":1,"lines":[{"line_no":1,"sku":"b","qty":1}]}`, 1),
		write("C", `{"total":1,"lines":[]}`, 1)}))
	b.want(lineRows, "A 1 x 1 | A 2 y 2 | A 3 z 3 | B 1 b 1")
	b.exec("UPDATE l SET extra = 'kept'")
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{
		write("A", `{"total":1,"lines":[{"line_no":2,"sku":"y2","qty":20},{"line_no":4,"qty":4}]}`, 2),
		write("B", `{"total":1}`, 2),
		write("C", `{"total":1,"lines":null}`, 2)}))
	b.want(lineRows, "A 2 y2 20 | A 4 NULL 4 | B 1 b 1")
	b.want("SELECT line_no, extra FROM l ORDER BY 1", "1 kept | 2 kept | 4 d")
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[]}`, 3)}))
	b.want(lineRows, "B 1 b 1")
}

func TestLinesOfARefusedStateAreLeftAlone(t *testing.T) {
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(nil))
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"total":5,"lines":[{"line_no":1,"qty":5}]}`, 5)}))
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"total":4,"lines":[{"line_no":1,"qty":4},{"line_no":2,"qty":4}]}`, 4), write("B", `{"total":1,"lines":[{"line_no":1,"qty":1}]}`, 1)})
	b.same(brief(got...), "stale/newer_in_target 1, applied 3")
	b.want(lineRows, "A 1 NULL 5 | B 1 NULL 1")
}

func TestKeyedLinesStayWhenTheyAreNotMentioned(t *testing.T) {
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(func(c *Child) { c.Mode = string(connectors.Keyed) }))
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"line_no":1,"qty":1},{"line_no":2,"qty":2}]}`, 1)}))
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"line_no":2,"qty":20},{"line_no":3,"qty":3}]}`, 2)}))
	b.want(lineRows, "A 1 NULL 1 | A 2 NULL 20 | A 3 NULL 3")
}

func TestLinesWithoutAKeyAreWrittenAnew(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY); CREATE TABLE l (o text, sku text, qty int)`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key = "o", []string{"n"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent = "l", []string{"o"} })}
	})
	for range 3 {
		b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"sku":"x","qty":1},{"sku":"x","qty":1}]}`, 1), write("B", `{"lines":[{"sku":"y"}]}`, 1)}))
	}
	b.want("SELECT o, sku, qty FROM l ORDER BY 1", "A x 1 | A x 1 | B y NULL")
}

func TestLinesWithAKeyOfSeveralColumns(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (shop text, no int, PRIMARY KEY (shop, no)); CREATE TABLE l (no int, shop text, sku text, place numeric(4,1), qty int, UNIQUE (sku, shop, no, place))`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key = "o", []string{"shop", "no"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"shop", "no"}, []string{"place", "sku"} })}
	})
	body := `{"lines":[{"sku":"a\"b","place":1.50,"qty":%d},{"sku":"c","place":"1.5","qty":2}]}`
	for i := range 7 {
		b.confirmed(e.Upsert(t.Context(), []connectors.Write{write(`["s",1]`, fmt.Sprintf(body, i), 1), write(`["t",1]`, fmt.Sprintf(body, i), 1)}))
	}
	b.want("SELECT shop, no, sku, place, qty FROM l ORDER BY shop, sku", `s 1 a"b 1.5 6 | s 1 c 1.5 2 | t 1 a"b 1.5 6 | t 1 c 1.5 2`)
}

func TestBadLineRefusesItsRecordAlone(t *testing.T) {
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(nil))
	for name, c := range map[string]struct{ lines, want string }{
		"unknown field":    {`[{"line_no":1,"qty":1,"colour":"x"}]`, `unknown_field: element 0 of "lines": field "colour": the table public.l has no such column`},
		"no number":        {`[{"line_no":1,"qty":1},{"qty":1}]`, `no_key: element 1 of "lines": the key column line_no has no value`},
		"null number":      {`[{"line_no":null,"qty":1}]`, `no_key: element 0 of "lines": the key column line_no has no value`},
		"not a whole one":  {`[{"line_no":1.5,"qty":1}]`, `bad_value: element 0 of "lines": field "line_no" is not a whole number (column line_no, integer)`},
		"twice":            {`[{"line_no":1,"qty":1},{"line_no":"1","qty":2}]`, `children_twice: field "lines" has two elements with the same line_no`},
		"an object":        {`{"0":{"line_no":1}}`, `bad_children: field "lines" is not an array`},
		"a number":         {`[7]`, `bad_children: element 0 of "lines" is not an object`},
		"parent given":     {`[{"line_no":1,"order_id":7}]`, `bad_children: element 0 of "lines": field "order_id": the column order_id is set to point at the record; take the field out`},
		"check of a table": {`[{"line_no":1,"qty":1},{"line_no":2,"qty":0}]`, `sqlstate_23514: the database's check refuses it (constraint l_qty_check of table l)`},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.Upsert(t.Context(), []connectors.Write{write("good", `{"lines":[{"line_no":1,"qty":1}]}`, 1), write("bad", `{"lines":`+c.lines+`}`, 1), write("well", `{"lines":[{"line_no":1,"qty":1}]}`, 1)})
			if got[0].Class != connectors.Applied || got[2].Class != connectors.Applied || got[1].Code+": "+got[1].Message != c.want {
				t.Errorf("got %s: %s\nwant %s", brief(got...), got[1].Message, c.want)
			}
			b.want("SELECT count(*) FROM o WHERE number = 'bad'", "0")
		})
	}
}

func TestTooManyLinesAreRefused(t *testing.T) {
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(nil))
	lines := strings.TrimSuffix(strings.Repeat(`{"line_no":1},`, maxChildren+1), ",")
	if got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[`+lines+`]}`, 1)}); got[0].Code != "too_many_children" {
		t.Errorf("got %s: %s", brief(got...), got[0].Message)
	}
}

func TestLinesOfABigBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: large, and one after the other")
	}
	t.Parallel()
	b := newBase(t, orderLines)
	e := b.entity(withLines(nil))
	batch := func(v int64, first int) []connectors.Write {
		var ws []connectors.Write
		for i := range maxBatch {
			var ls []string
			for n := first; n < first+10; n++ {
				ls = append(ls, fmt.Sprintf(`{"line_no":%d,"sku":"s","qty":%d}`, n, v))
			}
			ws = append(ws, write(numbered(i), `{"lines":[`+strings.Join(ls, ",")+`]}`, v))
		}
		return ws
	}
	b.confirmed(e.Upsert(t.Context(), batch(1, 1)))
	b.confirmed(e.Upsert(t.Context(), batch(2, 6)))
	b.want("SELECT count(*), min(line_no), max(line_no), min(qty) FROM l", "5000 6 15 2")
}

func TestForeignKeySaysWhatLinesPointAt(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (id serial PRIMARY KEY, number text NOT NULL UNIQUE); CREATE TABLE l (order_no text REFERENCES o (number), line_no int, PRIMARY KEY (order_no, line_no))`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key, e.Link = "o", []string{"number"}, []string{"id"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"order_no"}, []string{"line_no"} })}
	})
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"line_no":1}]}`, 1)}))
	b.want("SELECT * FROM l", "A 1")
}

func TestLineWithAKeyOfItsOwnMovesToAnotherRecord(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY); CREATE TABLE l (id bigint PRIMARY KEY, o text NOT NULL, qty int)`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key = "o", []string{"n"}
		e.Children = map[string]*Child{"lines": child(func(c *Child) { c.Table, c.Parent, c.Key = "l", []string{"o"}, []string{"id"} })}
	})
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("A", `{"lines":[{"id":900,"qty":1}]}`, 1)}))
	b.confirmed(e.Upsert(t.Context(), []connectors.Write{write("B", `{"lines":[{"id":900,"qty":2}]}`, 1)}))
	b.want("SELECT * FROM l", "900 B 2")
}
