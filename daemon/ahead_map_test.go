package daemon

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/jobs"
)

// stuck is a journal that takes so many transactions, and then none.
type stuck struct {
	soleEngine
	takes int
}

func (s *stuck) Update(ctx context.Context, do func(jobs.Tx) error) error {
	if s.takes--; s.takes < 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.soleEngine.Update(ctx, do)
}

// The page behind the one that is being admitted is mapped meanwhile, but not where the
// process has ended at the page before: then it has to be known which one it was.
func TestPagesAreMappedAheadUnlessOneHasEndedTheProcess(t *testing.T) {
	inWorld(t, func(w *world) {
		f := w.plan.Flows["orders"] // pages of ten
		f.Program = w.flow("orders", "order", `if .bad then error("deadly") else . end`, `.key`).Program
		for i := range 40 {
			w.shop.put(fmt.Sprint(i), 1, fmt.Sprintf(`{"key":"K%d","bad":%v}`, i, i == 25))
		}
		var reached atomic.Int64 // how often the mapping of the third page was begun
		hang := make(chan struct{})
		defer close(hang)
		redact := func(s string) string {
			if strings.Contains(s, "deadly") {
				reached.Add(1)
				<-hang // it never ends, and somebody kills the process
			}
			return s
		}
		// live runs a process that is killed while the journal takes no more.
		live := func(takes int) {
			d := New(jobs.New(&stuck{w.engine, takes}, jobs.Options{Owner: "first"}), Options{Redact: redact})
			ctx, kill := context.WithCancel(context.Background())
			defer kill()
			c, err := d.open(ctx, w.plan.Clients["shop"], nil, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			defer c.gate.Close()
			p := newPoller(d, c, f, &repeat{}, func(string) {})
			go func() { _, _ = p.drain(ctx) }()
			w.pass(time.Minute)
		}
		state := func() jobs.FlowState {
			fs, err := w.journal.Cursor(context.Background(), "orders")
			if err != nil {
				t.Fatal(err)
			}
			return fs
		}
		live(2) // the first page is begun, and admitted
		if n := reached.Load(); n != 1 {
			t.Fatalf("the third page was begun %d times while the second was admitted, want once", n)
		}
		if fs := state(); string(fs.Cursor) != "10" || fs.PageStarts != 1 {
			t.Fatalf("the cursor is %s, begun %d times", fs.Cursor, fs.PageStarts)
		}
		// The second page is under some suspicion now: the third is not begun before it is in.
		live(1) // it is begun again
		if n := reached.Load(); n != 1 {
			t.Errorf("the third page was begun although the second may have ended the process")
		}
		live(100)
		fs := state()
		if string(fs.Cursor) != "20" || fs.PageStarts != 1 || reached.Load() != 2 {
			t.Errorf("the cursor is %s, begun %d times, its mapping begun %d times in all", fs.Cursor, fs.PageStarts, reached.Load())
		}
	})
}
