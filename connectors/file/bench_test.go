package file

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// shopOrder writes a line of some 4 KB.
func shopOrder(b *bytes.Buffer, id int) {
	fmt.Fprintf(b, `{"id":%d,"name":"#%d","updated_at":"2026-11-29T10:00:00Z","currency":"EUR","note":"Please leave it at the door","lines":[`, 5_000_000_000+id, id)
	for i := range 14 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(b, `{"id":%d,"sku":"SKU-%05d","title":"Blue cotton shirt, size M","quantity":%d,"price":"19.99","tax_lines":[{"title":"VAT","rate":0.19,"price":"3.19"}],"properties":{"gift":false,"engraving":null},"vendor":"acme","fulfillment_status":"unfulfilled","weight":250}`, 900000+i, i, i+1)
	}
	b.WriteString(`],"shipping_address":{"name":"Ada Example","street":"Invalidenstr. 116","zip":"10115","city":"Berlin","country":"DE"}}` + "\n")
}

// BenchmarkPull reads a file of 100,000 lines of 4 KB page by page.
func BenchmarkPull(b *testing.B) {
	for _, limit := range []int{200, 1000} {
		b.Run(fmt.Sprintf("jsonl/page=%d", limit), func(b *testing.B) {
			benchmark(b, formatJSONL, limit, func(w *bytes.Buffer, i int) { shopOrder(w, i) })
		})
	}
	b.Run("csv/page=1000", func(b *testing.B) {
		benchmark(b, formatCSV, 1000, func(w *bytes.Buffer, i int) {
			if i == 0 {
				w.WriteString("id,updated_at,sku,title,price,qty,note,city,zip,country\n")
			}
			fmt.Fprintf(w, "%d,2026-11-29T10:00:00Z,SKU-%05d,\"Blue cotton shirt, size M\",19.99,%d,Please leave it at the door,Berlin,10115,DE\n", i, i, i%7)
		})
	})
}

func benchmark(b *testing.B, format string, limit int, write func(*bytes.Buffer, int)) {
	const records = 100_000
	dir := b.TempDir()
	f, err := os.Create(filepath.Join(dir, "orders"))
	if err != nil {
		b.Fatal(err)
	}
	var buf bytes.Buffer
	for i := range records {
		write(&buf, i)
		if buf.Len() > 1<<20 || i == records-1 {
			if _, err := f.Write(buf.Bytes()); err != nil {
				b.Fatal(err)
			}
			buf.Reset()
		}
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	st := &Stream{}
	field.Declare(st)
	st.Path, st.Format, st.ID, st.Version = "orders", format, "id", "updated_at"
	in, err := (&Settings{Dir: dir, Files: map[string]*Stream{"s": st}}).Open(b.Context(), connectors.Env{Gate: &gate{}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		req := connectors.PullRequest{Stream: "s", Start: connectors.Start{All: true}, Limit: limit}
		for more := true; more; {
			p, err := in.Source().Pull(b.Context(), req)
			if err != nil {
				b.Fatal(err)
			}
			n += len(p.Events)
			req.Cursor, more = p.Next, p.More
		}
		if n != records {
			b.Fatalf("%d records", n)
		}
	}
	b.ReportMetric(float64(records)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
