package conformance

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"syncd/jobs"
)

// pin is a pin in which every field is set.
func pin(id jobs.RowID, operation string) jobs.Pin {
	return jobs.Pin{RowID: id, Operation: operation, Epoch: 1 << 40, Key: "key of " + operation + "\x00\xff",
		Body:       json.RawMessage(`{ "total": 10.10, "id": 12345678901234567890, "text": "` + strings.Repeat("ü", 100) + `"}`),
		Generation: 9007199254740993, Hash: []byte{0, 255, 1}, FirstSentAt: noon}
}

var pinSentences = []sentence{
	{"pins come back as they were put, one per row and operation", func(t *engineTest) {
		a, b := pin(rid("A"), "create"), pin(rid("A"), "confirm\x00")
		other := pin(jobs.RowID{Flow: "products", Key: "A"}, "create")
		bare := jobs.Pin{RowID: rid("B"), Operation: "create"}
		t.putPins(a, b, other, bare, pin(rid("C"), "create"))
		t.same("the pins of a row", t.pins(rid("A"), rid("A")), []jobs.Pin{b, a})
		t.same("the pins of others", t.pins(rid("B"), other.RowID, rid("Z")), []jobs.Pin{bare, other})
		t.same("no row's", t.pins(), []jobs.Pin(nil))
	}},
	{"a pin keeps the very bytes that were sent", func(t *engineTest) {
		p := pin(rid("A"), "create")
		for _, body := range []string{`{"a":1,"a":2, "e":1E+2}`, " [1.0]\n", `"\u00fc\u0000"`, string(bytes.Repeat([]byte{0xff, 0}, 200_000))} {
			p.Body = json.RawMessage(body)
			t.putPins(p)
			if got := t.pins(rid("A")); len(got) != 1 || !bytes.Equal(got[0].Body, p.Body) {
				t.Errorf("%d pins are there, for a body of %d bytes", len(got), len(body))
			}
		}
	}},
	{"a pin is replaced whole, and of equal ones in a batch the last counts", func(t *engineTest) {
		t.putPins(pin(rid("A"), "create"), pin(rid("A"), "confirm"))
		want := jobs.Pin{RowID: rid("A"), Operation: "create", Key: "other", FirstSentAt: noon.Add(time.Second)}
		t.putPins(pin(rid("A"), "create"), want)
		t.same("the pins", t.pins(rid("A")), []jobs.Pin{pin(rid("A"), "confirm"), want})
	}},
	{"pins go with all operations of a row", func(t *engineTest) {
		t.putPins(pin(rid("A"), "create"), pin(rid("A"), "confirm"), pin(rid("B"), "create"), pin(jobs.RowID{Flow: "products", Key: "A"}, "create"))
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.DeletePins(ctx, []jobs.RowID{rid("A"), rid("Z"), {Flow: "products", Key: "B"}, rid("A")})
		})
		t.same("the pins left", t.pins(rid("A"), rid("B"), jobs.RowID{Flow: "products", Key: "A"}),
			[]jobs.Pin{pin(rid("B"), "create"), pin(jobs.RowID{Flow: "products", Key: "A"}, "create")})
	}},
	{"pins stay when their row is put, patched, and loses its body", func(t *engineTest) {
		t.put(plain("A"))
		t.putPins(pin(rid("A"), "create"))
		t.put(full("A"))
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			if err := tx.PatchRows(ctx, []jobs.Row{plain("A")}); err != nil {
				return err
			}
			_, err := tx.DropBodies(ctx, []jobs.RowID{rid("A")})
			return err
		})
		t.same("the pins", t.pins(rid("A")), []jobs.Pin{pin(rid("A"), "create")})
	}},
	{"pins of hundreds of rows are stored and read", func(t *engineTest) {
		var ps []jobs.Pin
		var ids []jobs.RowID
		for i, k := range numbered(700) {
			p := pin(rid(k), "create")
			p.Body = json.RawMessage(fmt.Sprint(i))
			ps, ids = append(ps, p), append(ids, rid(k))
		}
		slices.Reverse(ps)
		t.putPins(ps...)
		slices.Reverse(ps)
		t.same("the pins", t.pins(ids...), ps)
	}},
}

func (t *engineTest) putPins(ps ...jobs.Pin) {
	t.Helper()
	t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PutPins(ctx, ps) })
}

// pins are those of rows, in the order of their ids.
func (t *engineTest) pins(ids ...jobs.RowID) (out []jobs.Pin) {
	t.Helper()
	t.view(func(ctx context.Context, tx jobs.Tx) (err error) {
		out, err = tx.Pins(ctx, ids)
		return err
	})
	slices.SortFunc(out, func(a, b jobs.Pin) int {
		return cmp.Or(cmp.Compare(a.Flow, b.Flow), cmp.Compare(a.RowID.Key, b.RowID.Key), cmp.Compare(a.Operation, b.Operation))
	})
	return out
}
