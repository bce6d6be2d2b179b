package conformance

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

var rowSentences = []sentence{
	{"a row comes back as it was put", func(t *engineTest) {
		want := full("A-1")
		t.put(want)
		t.same("the row", t.get(want.RowID)[want.RowID], want)
	}},
	{"what is zero comes back as zero", func(t *engineTest) {
		want := jobs.Row{RowID: rid("A-1"), State: jobs.Done}
		t.put(want)
		t.same("the row", t.get(want.RowID)[want.RowID], want)
	}},
	{"times are kept to the microsecond, in UTC", func(t *engineTest) {
		r := plain("A-1")
		zone := time.FixedZone("CET", 3600)
		r.ChangedAt = time.Date(2026, 3, 29, 2, 30, 0, 123456789, zone)
		r.ReadAt = time.Date(1969, 12, 31, 23, 59, 59, 999999999, time.UTC)
		r.AppliedAt = time.Unix(0, 0)
		r.DueAt = time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)
		t.put(r)
		got := t.get(r.RowID)[r.RowID]
		for _, c := range []struct {
			name      string
			got, want time.Time
		}{
			{"another zone's", got.ChangedAt, time.Date(2026, 3, 29, 1, 30, 0, 123456000, time.UTC)},
			{"before 1970", got.ReadAt, time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC)},
			{"1970 itself, which is not zero", got.AppliedAt, time.Unix(0, 0).UTC()},
			{"far away", got.DueAt, time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		} {
			if c.got != c.want {
				t.Errorf("%s time is %v, want %v", c.name, c.got, c.want)
			}
		}
	}},
	{"integers keep all their 64 bits", func(t *engineTest) {
		for i, n := range []int64{math.MaxInt64, math.MinInt64, 9007199254740993, -1} {
			r := plain(fmt.Sprint("A-", i))
			r.Generation, r.Attempt, r.AppliedGeneration, r.KeyEpoch = n, n, n, n
			r.Desired = connectors.Stamp{Epoch: n, Version: n}
			t.put(r)
			t.same("the row", t.get(r.RowID)[r.RowID], r)
		}
	}},
	{"a body keeps every byte at every size", func(t *engineTest) {
		random := rand.NewChaCha8([32]byte{1})
		for _, n := range []int{1, 2, 94, 95, 96, 97, 1000, 70_000, 3 << 20} {
			noise := make([]byte, n)
			_, _ = random.Read(noise)
			for kind, body := range map[string][]byte{
				"zeros": bytes.Repeat([]byte{0}, n), "text": []byte(strings.Repeat(`"12345678901234567890.10", `, n/20+1)[:n]), "noise": noise,
			} {
				r := plain(fmt.Sprint(kind, n))
				r.Body = body
				t.put(r)
				if got := t.get(r.RowID)[r.RowID].Body; !bytes.Equal(got, body) {
					t.Errorf("a body of %d bytes of %s came back as %d other bytes", n, kind, len(got))
				}
			}
		}
	}},
	{"a body keeps the digits and blanks of its JSON", func(t *engineTest) {
		r := plain("A-1")
		r.Body = json.RawMessage(`{ "id": 12345678901234567890123, "price": 10.10, "e": 1E+2, "dup": 1, "dup": 2, "ü": "\u00fc\u0000" }` + strings.Repeat(" ", 200))
		t.put(r)
		if got := t.get(r.RowID)[r.RowID].Body; !bytes.Equal(got, r.Body) {
			t.Errorf("the body is %s, want %s", got, r.Body)
		}
	}},
	{"a body that is too large is refused by name and the rest is not stored", func(t *engineTest) {
		r := plain("A-1")
		r.Body = make(json.RawMessage, 64<<20+1)
		err := t.e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{plain("A-0"), r}) })
		if err == nil || !strings.Contains(err.Error(), "orders/A-1: body larger than 64 MiB") {
			t.Errorf("the error is %v, want one that names the row and the limit", err)
		}
		if got := t.get(rid("A-0")); len(got) != 0 {
			t.Errorf("the other row was stored")
		}
	}},
	{"keys and ids may hold any bytes", func(t *engineTest) {
		for _, c := range oddTexts() {
			r := plain(c.text)
			r.SourceID, r.Group, r.WaitEntity, r.WaitKey, r.RenamedFrom = c.text, c.text, "party", c.text, c.text
			if len(c.text) < 300 {
				r.Flow, r.Client, r.Entity, r.WaitEntity = c.text, c.text, c.text, c.text
			}
			t.put(r)
			t.same("the row with "+c.name, t.get(r.RowID)[r.RowID], r)
		}
	}},
	{"keys and ids may be a thousand bytes long, and a longer one is refused by name", func(t *engineTest) {
		for _, part := range []string{"x", "\xff"} {
			// Written as three bytes, where it is no text.
			long := strings.Repeat(part, jobs.MaxID/len(stored.ID(part)))
			write := func(s string) map[string]error {
				r := plain(s)
				r.SourceID, r.Group, r.WaitEntity, r.WaitKey, r.RenamedFrom = s, s, "party", s, s
				errs := map[string]error{}
				for name, do := range map[string]func(context.Context, jobs.Tx) error{
					"PutRows": func(ctx context.Context, tx jobs.Tx) error { return tx.PutRows(ctx, []jobs.Row{r}) },
					"PutSources": func(ctx context.Context, tx jobs.Tx) error {
						return tx.PutSources(ctx, "orders", []jobs.SourceRecord{{ID: s}})
					},
					"PutContender": func(ctx context.Context, tx jobs.Tx) error {
						return tx.PutContender(ctx, jobs.Contender{RowID: rid(s), SourceID: s})
					},
					"PutLinks": func(ctx context.Context, tx jobs.Tx) error {
						return tx.PutLinks(ctx, "erp", []jobs.Link{{EntityKey: jobs.EntityKey{Entity: "party", Key: s}}})
					},
					"AddRequests": func(ctx context.Context, tx jobs.Tx) error {
						return tx.AddRequests(ctx, []jobs.Request{{Client: "shop", Flow: "orders", SourceID: s, Key: s, Kind: jobs.Refresh}})
					},
					"PutPins": func(ctx context.Context, tx jobs.Tx) error {
						return tx.PutPins(ctx, []jobs.Pin{{RowID: rid(s), Operation: "create"}})
					},
					"PutGroups": func(ctx context.Context, tx jobs.Tx) error {
						return tx.PutGroups(ctx, []jobs.Group{{Flow: "orders", Name: s, SentKey: s}})
					},
				} {
					errs[name] = t.e.Update(t.Context(), func(tx jobs.Tx) error { return do(t.Context(), tx) })
				}
				return errs
			}
			for name, err := range write(long) {
				t.fail(name+" of the longest", err)
			}
			for name, err := range write(long + part) {
				if err == nil || !strings.Contains(err.Error(), "at most 1000 can be stored") {
					t.Errorf("%s of a longer one gave %v, want an error that names the limit", name, err)
				}
			}
		}
	}},
	{"keys that differ in a byte are different keys", func(t *engineTest) {
		keys := []string{"a", "A", "a ", " a", "\u00e9", "e\u0301", "ß", "ss", "1", "01", "a\x00", "a\x1a00", "\xff", "\ufffd", ""}
		for i, k := range keys {
			r := plain(k)
			r.Generation = int64(i)
			t.put(r)
		}
		for i, k := range keys {
			if got := t.get(rid(k))[rid(k)].Generation; got != int64(i) {
				t.Errorf("key %q leads to row %d, want %d", k, got, i)
			}
		}
	}},
	{"messages lose what cannot be shown, and nothing fails for it", func(t *engineTest) {
		r := plain("A-1")
		r.LastMessage, r.LastCode = "the shop said \x00\xff\u2028", "x\x00y"
		t.put(r)
		if got := t.get(r.RowID)[r.RowID].LastMessage; got != "the shop said \ufffd\u2028" {
			t.Errorf("the message is %q", got)
		}
	}},
	{"a put replaces the whole row", func(t *engineTest) {
		t.put(full("A-1"))
		want := jobs.Row{RowID: rid("A-1"), State: jobs.Ready, Body: json.RawMessage(`[]`)}
		t.put(want)
		t.same("the row", t.get(want.RowID)[want.RowID], want)
	}},
	{"a put without a body removes the body", func(t *engineTest) {
		r := full("A-1")
		t.put(r)
		r.Body = nil
		t.put(r)
		if got := t.get(r.RowID)[r.RowID].Body; got != nil {
			t.Errorf("the body is %s, want none", got)
		}
	}},
	{"a patch replaces all but the body", func(t *engineTest) {
		before := full("A-1")
		t.put(before)
		patch := jobs.Row{RowID: before.RowID, Client: "crm", State: jobs.Done, Reason: jobs.ReasonDiscarded, Generation: 99, Body: json.RawMessage(`"other"`)}
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, []jobs.Row{patch}) })
		want := patch
		want.Body = before.Body
		t.same("the row", t.get(want.RowID)[want.RowID], want)
	}},
	{"a patch of a row that is not there makes none", func(t *engineTest) {
		t.put(plain("A-1"))
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			return tx.PatchRows(ctx, []jobs.Row{plain("A-1"), plain("A-2")})
		})
		if got := t.get(rid("A-1"), rid("A-2")); len(got) != 1 {
			t.Errorf("%d rows are there, want 1", len(got))
		}
	}},
	{"of equal rows in one batch the last counts", func(t *engineTest) {
		var rows []jobs.Row
		for i := range 4 {
			for _, k := range []string{"B", "A"} {
				r := plain(k)
				r.Generation, r.Body = int64(i), json.RawMessage(fmt.Sprint(i))
				rows = append(rows, r)
			}
		}
		t.put(rows...)
		for k, r := range t.get(rid("A"), rid("B"), rid("A")) {
			if r.Generation != 3 || string(r.Body) != "3" {
				t.Errorf("row %s is generation %d with body %s, want the last", k, r.Generation, r.Body)
			}
		}
		patches := []jobs.Row{plain("A"), plain("A")}
		patches[1].Generation = 7
		t.update(func(ctx context.Context, tx jobs.Tx) error { return tx.PatchRows(ctx, patches) })
		if got := t.get(rid("A"))[rid("A")].Generation; got != 7 {
			t.Errorf("after a patch given twice the generation is %d, want the last", got)
		}
	}},
	{"rows are found by flow and key together", func(t *engineTest) {
		a, b := plain("1"), plain("2")
		b.Flow = "products"
		t.put(a, b)
		got := t.get(a.RowID, b.RowID, jobs.RowID{Flow: "orders", Key: "2"}, jobs.RowID{Flow: "products", Key: "1"})
		t.same("the rows", got, map[jobs.RowID]jobs.Row{a.RowID: a, b.RowID: b})
	}},
	{"rows come without bodies unless asked", func(t *engineTest) {
		t.put(plain("A-1"))
		t.view(func(ctx context.Context, tx jobs.Tx) error {
			rows, err := tx.Rows(ctx, []jobs.RowID{rid("A-1")}, false)
			if err == nil && (len(rows) != 1 || rows[0].Body != nil) {
				t.Errorf("got %d rows, the first with body %s", len(rows), rows[0].Body)
			}
			return err
		})
	}},
	{"a batch of thousands is stored and read", func(t *engineTest) {
		keys := numbered(7000)
		rows, ids := make([]jobs.Row, len(keys)), make([]jobs.RowID, len(keys))
		for i, k := range keys {
			rows[i], ids[i] = plain(k), rid(k)
		}
		t.put(rows...)
		t.update(func(ctx context.Context, tx jobs.Tx) error {
			for i := range rows {
				rows[i].Generation = 2
			}
			return tx.PatchRows(ctx, rows)
		})
		got := t.get(ids...)
		if len(got) != len(keys) || got[ids[6999]].Generation != 2 {
			t.Errorf("%d rows are there, the last of generation %d; want %d of generation 2", len(got), got[ids[6999]].Generation, len(keys))
		}
	}},
	{"a state that does not exist is refused", func(t *engineTest) {
		r := plain("A-1")
		r.State = "running"
		if err := t.e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{r}) }); err == nil {
			t.Error("a row in the state \"running\" was stored")
		}
	}},
	{"rows that were read are held until the transaction ends", func(t *engineTest) {
		t.put(plain("A-1"))
		const workers, rounds = 4, 15
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range rounds {
					t.fail("count", t.e.Update(t.Context(), func(tx jobs.Tx) error {
						rows, err := tx.Rows(t.Context(), []jobs.RowID{rid("A-1")}, true)
						if err != nil {
							return err
						}
						r := rows[0]
						if want := fmt.Sprint(r.Tries); r.Tries > 0 && string(r.Body) != want {
							t.Errorf("the row says %s and its body %s", want, r.Body)
						}
						r.Tries++
						r.Body = json.RawMessage(fmt.Sprint(r.Tries))
						return tx.PutRows(t.Context(), []jobs.Row{r})
					}))
				}
			})
		}
		all.Wait()
		if got := t.get(rid("A-1"))[rid("A-1")].Tries; got != workers*rounds {
			t.Errorf("%d of %d increments are left", got, workers*rounds)
		}
	}},
}

// oddTexts are texts that break what takes ids for tidy.
func oddTexts() []struct{ name, text string } {
	var all []byte
	for b := range 256 {
		all = append(all, byte(b))
	}
	return []struct{ name, text string }{
		{"blanks", "  two  blanks "}, {"quotes", `'";--\"`}, {"a backslash at the end", `x\`}, {"lines", "a\nb\r\n\tc"},
		{"braces", "{}[],{\"a\"}"}, {"percent", "%s%d%00_"}, {"NULL", "NULL"}, {"umlauts", "Größe Ñ"}, {"four bytes", "🛒𝔘"},
		{"combining", "e\u0301"}, {"right to left", "\u202eabc"}, {"NUL", "a\x00b"}, {"NUL alone", "\x00"}, {"the escape", "a\x1ab\x1a00"},
		{"broken UTF-8", "a\xffb\xc3"}, {"a surrogate", "\xed\xa0\x80"}, {"every byte", string(all)}, {"angle brackets", "<a>&amp;"}, {"line separators", "a\u2028b\u2029"},
		// Random, so that it is as long in an index as it looks.
		{"a thousand bytes", func() string {
			noise := make([]byte, 500)
			_, _ = rand.NewChaCha8([32]byte{7}).Read(noise)
			return hex.EncodeToString(noise)
		}()},
	}
}
