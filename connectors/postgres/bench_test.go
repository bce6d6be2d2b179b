package postgres

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

const benchTable = `CREATE TABLE erp (src text, ext_id text, version bigint not null, name text, status text, currency text, qty int, price numeric(18,4),
  updated_at timestamptz, data jsonb, PRIMARY KEY (src, ext_id))`

const existing = 200_000

// BenchmarkUpsert writes records of ten columns with 250 bytes of JSON each, 40 % new, 50 % newer and 10 % older than what is there, in a table of 200,000.
func BenchmarkUpsert(b *testing.B) {
	for _, size := range []int{1, 100, 500} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			db := newBase(b, benchTable)
			db.exec(`INSERT INTO erp SELECT 'shop','K'||lpad(i::text,9,'0'),1,'Blue cotton shirt, size M','open','EUR',1,19.99,now(),$1::jsonb FROM generate_series(0,$2::int-1) i`, benchJSON, existing)
			db.exec("VACUUM ANALYZE erp")
			e := db.entity(func(e *Entity) { e.Table, e.Key, e.Version = "erp", []string{"src", "ext_id"}, "version" })
			fresh, version := existing, int64(1)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				b.StopTimer()
				version++
				ws := make([]connectors.Write, 0, size)
				seen := map[int]bool{}
				for len(ws) < size {
					k, v := rand.IntN(existing), version
					switch d := rand.IntN(10); {
					case d < 4:
						k, fresh = fresh, fresh+1
					case d == 9:
						v = 0
					}
					if seen[k] {
						continue
					}
					seen[k] = true
					ws = append(ws, benchWrite(k, v))
				}
				b.StartTimer()
				for _, o := range e.Upsert(b.Context(), ws) {
					if !o.Class.Confirmed() {
						b.Fatalf("%s: %s", brief(o), o.Message)
					}
				}
				n += size
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

const benchJSON = `{"vendor":"acme","tags":["sale","summer"],"tax":{"rate":0.19,"name":"VAT"},"address":{"zip":"10115","city":"Berlin","street":"Invalidenstr. 116"},"lines":[{"sku":"A-1","qty":2},{"sku":"B-7","qty":1}]}`

func benchWrite(k int, v int64) connectors.Write {
	body := fmt.Sprintf(`{"name":"Blue cotton shirt, size M","status":"open","currency":"EUR","qty":%d,"price":"%d.99","updated_at":"2026-11-29T10:00:00Z","data":%s}`, k%97, k%50, benchJSON)
	return connectors.Write{Key: fmt.Sprintf(`["shop","K%09d"]`, k), Body: json.RawMessage(body), Stamp: connectors.Stamp{Version: v, Observed: day}}
}

// BenchmarkBareStatement is the same load by a statement written by hand, with typed arrays, on one connection: what there is to be had.
func BenchmarkBareStatement(b *testing.B) {
	const sql = `INSERT INTO erp AS t (src, ext_id, version, name, status, currency, qty, price, updated_at, data)
 SELECT 'shop', a, b, c, d, e, f, g::numeric, h, i::jsonb FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::int[], $7::text[], $8::timestamptz[], $9::text[]) u(a,b,c,d,e,f,g,h,i)
 ON CONFLICT (src, ext_id) DO UPDATE SET version=excluded.version, name=excluded.name, status=excluded.status,
 currency=excluded.currency, qty=excluded.qty, price=excluded.price, updated_at=excluded.updated_at, data=excluded.data WHERE excluded.version > t.version`
	const size = 500
	db := newBase(b, benchTable)
	db.exec(`INSERT INTO erp SELECT 'shop','K'||lpad(i::text,9,'0'),1,'Blue cotton shirt, size M','open','EUR',1,19.99,now(),$1::jsonb FROM generate_series(0,$2::int-1) i`, benchJSON, existing)
	db.exec("VACUUM ANALYZE erp")
	fresh, version, n := existing, int64(1), 0
	for b.Loop() {
		b.StopTimer()
		version++
		var keys, name, status, currency, price, data []string
		var versions []int64
		var qty []int32
		var at []time.Time
		seen := map[int]bool{}
		for len(keys) < size {
			k, v := rand.IntN(existing), version
			switch d := rand.IntN(10); {
			case d < 4:
				k, fresh = fresh, fresh+1
			case d == 9:
				v = 0
			}
			if seen[k] {
				continue
			}
			seen[k] = true
			keys, versions, name, status, currency = append(keys, fmt.Sprintf("K%09d", k)), append(versions, v), append(name, "Blue cotton shirt, size M"), append(status, "open"), append(currency, "EUR")
			qty, price, at, data = append(qty, int32(k%97)), append(price, "19.99"), append(at, day), append(data, benchJSON)
		}
		b.StartTimer()
		if _, err := db.sql.Exec(b.Context(), sql, keys, versions, name, status, currency, qty, price, at, data); err != nil {
			b.Fatal(err)
		}
		n += size
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
}

// BenchmarkPrepare is our own part of an upsert: from records to the statement's parameters.
func BenchmarkPrepare(b *testing.B) {
	db := newBase(b, benchTable)
	e := db.entity(func(e *Entity) { e.Table, e.Key, e.Version = "erp", []string{"src", "ext_id"}, "version" })
	var ws []connectors.Write
	for i := range 500 {
		ws = append(ws, benchWrite(i, 1))
	}
	out := make([]connectors.Outcome, len(ws))
	b.ReportAllocs()
	for b.Loop() {
		rows, p := e.prepare(b.Context(), ws, out, false)
		if sql, _ := p.upsertSQL(rows); !strings.HasPrefix(sql, "INSERT") || len(rows) != 500 {
			b.Fatal(sql)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(500*b.N), "ns/row")
}
