package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"syncd/jobs"
)

// OpenAt opens the journal at a place as the daemon does.
type OpenAt func(ctx context.Context, place string) (jobs.Engine, error)

// childPlace names the environment variable that makes a test process the child
// of EngineCrash: it holds the place.
const childPlace = "SYNCD_TEST_ENGINE_CHILD"

// Main is the TestMain of a package that uses EngineCrash: in the child it writes
// to the journal until it is killed, otherwise it runs the tests, after which no
// goroutine of an engine may be left.
func Main(m *testing.M, open OpenAt) {
	if place := os.Getenv(childPlace); place != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(place, open, os.Stdout)) // it ends only by being killed, or with an error
		os.Exit(1)
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "after the tests:", err)
		code = 1
	}
	os.Exit(code)
}

// perCommit is how many rows the child writes in one transaction.
const perCommit = 20

// writeUntilKilled admits pages to the journal and reports each on out after its
// commit. It returns only with an error.
func writeUntilKilled(place string, open OpenAt, out io.Writer) error {
	ctx := context.Background()
	e, err := open(ctx, place)
	if err != nil {
		return err
	}
	for {
		var page int64
		err := e.Update(ctx, func(tx jobs.Tx) error {
			s, err := tx.LockFlow(ctx, "orders")
			if err != nil {
				return err
			}
			s.Epoch++
			page = s.Epoch
			if err := tx.PutRows(ctx, pageRows(page)); err != nil {
				return err
			}
			return tx.SaveFlow(ctx, s)
		})
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, page); err != nil {
			return err
		}
	}
}

// pageRows are the rows of a page: some of its own, and some that every page changes.
func pageRows(page int64) []jobs.Row {
	rows := make([]jobs.Row, perCommit)
	for i := range rows {
		key := fmt.Sprintf("P-%d-%d", page, i)
		if i%2 == 1 {
			key = fmt.Sprint("shared-", i)
		}
		rows[i] = plain(key)
		rows[i].Generation, rows[i].Body = page, json.RawMessage(fmt.Sprintf(`{"page":%d,"text":%q}`, page, strings.Repeat("x", 300)))
	}
	return rows
}

// EngineCrash kills a process that writes to the journal, again and again, and
// proves that what it had acknowledged is there, that a transaction is there whole
// or not at all, that a second daemon is refused while the first one lives, unless
// daemons share the journal, and that it need not wait once that is dead. The
// package's TestMain has to be Main.
func EngineCrash(t *testing.T, place string, open OpenAt, shared bool) {
	const kills = 6
	var acknowledged int64
	for round := range kills {
		c := startChild(t, place)
		// The first acknowledgement says that the child has the journal.
		acknowledged = c.read(1, acknowledged)
		e, err := open(t.Context(), place)
		if shared != (err == nil) || !shared && !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("round %d: a second daemon got %v; daemons share this journal: %v", round, err, shared)
		}
		if err == nil {
			_ = e.Close()
		}
		acknowledged = c.read(1+rand.IntN(40), acknowledged)
		acknowledged = c.kill(acknowledged)
		start := time.Now()
		e, err = open(t.Context(), place)
		if err != nil {
			t.Fatalf("round %d: after the kill: %v", round, err)
		}
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("round %d: it took %v to take over from a dead daemon", round, took)
		}
		checkPages(t, e, acknowledged)
		if err := e.Close(); err != nil {
			t.Errorf("round %d: close: %v", round, err)
		}
	}
}

// checkPages proves that the acknowledged pages are there, and all of any page.
func checkPages(t *testing.T, e jobs.Engine, acknowledged int64) {
	t.Helper()
	err := e.View(t.Context(), func(tx jobs.Tx) error {
		s, err := tx.LockFlow(t.Context(), "orders")
		if err != nil {
			return err
		}
		if s.Epoch < acknowledged {
			t.Errorf("the journal has %d pages, %d were acknowledged", s.Epoch, acknowledged)
		}
		for page := int64(1); page <= s.Epoch+1; page++ {
			if err := checkPage(t, tx, page, s.Epoch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read after the kill: %v", err)
	}
}

func checkPage(t *testing.T, tx jobs.Tx, page, newest int64) error {
	t.Helper()
	want := pageRows(page)
	ids := make([]jobs.RowID, len(want))
	bodies := map[jobs.RowID]string{}
	for i, r := range want {
		ids[i], bodies[r.RowID] = r.RowID, string(r.Body)
	}
	rows, err := tx.Rows(t.Context(), ids, true)
	if err != nil {
		return err
	}
	own := 0
	for _, r := range rows {
		shared := strings.HasPrefix(r.Key, "shared")
		switch {
		case shared && r.Generation != newest:
			t.Errorf("row %s is of page %d although page %d is there", r.RowID, r.Generation, newest)
		case !shared && string(r.Body) != bodies[r.RowID]:
			t.Errorf("row %s has another body", r.RowID)
		case !shared:
			own++
		}
	}
	if full := perCommit / 2; page <= newest && own != full || page > newest && own != 0 {
		t.Errorf("of page %d (of %d) there are %d rows", page, newest, own)
	}
	return nil
}

// child is a process that writes to the journal.
type child struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines *bufio.Scanner
	said  strings.Builder
}

func startChild(t *testing.T, place string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.CommandContext(t.Context(), self)}
	c.cmd.Env = append(os.Environ(), childPlace+"="+place)
	c.cmd.Stderr = &c.said
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.lines = bufio.NewScanner(out)
	return c
}

// read returns the page acknowledged last after n more acknowledgements.
func (c *child) read(n int, last int64) int64 {
	c.t.Helper()
	for range n {
		if !c.lines.Scan() {
			_ = c.cmd.Wait()
			c.t.Fatalf("the writing process ended by itself: %v: %s", c.cmd.ProcessState, c.said.String())
		}
		page, err := strconv.ParseInt(c.lines.Text(), 10, 64)
		if err != nil || page <= last {
			c.t.Fatalf("after page %d the writing process acknowledged %q", last, c.lines.Text())
		}
		last = page
	}
	return last
}

// kill kills the process and returns the last page that it still acknowledged.
func (c *child) kill(last int64) int64 {
	c.t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
	for c.lines.Scan() {
		if page, err := strconv.ParseInt(c.lines.Text(), 10, 64); err == nil && page > last {
			last = page
		}
	}
	_ = c.cmd.Wait()
	return last
}
