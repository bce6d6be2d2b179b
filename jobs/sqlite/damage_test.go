package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"syncd/jobs"
	"syncd/jobs/sqlite"
)

// filled is the path of a closed journal with rows in many pages.
func filled(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	e, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	rows := make([]jobs.Row, 1000)
	for i := range rows {
		key := fmt.Sprintf("K%04d", i)
		rows[i] = jobs.Row{RowID: jobs.RowID{Flow: "orders", Key: key}, Client: "erp", Entity: "order", SourceID: key, State: jobs.Done,
			Generation: 1, Hash: jobs.HashBody([]byte(key)), Body: fmt.Appendf(nil, `{"key":%q,"text":%q}`, key, strings.Repeat(key, 40))}
	}
	if err := e.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), rows) }); err != nil {
		t.Fatal(err)
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// spoil overwrites the file from an offset on, to its end when n is 0.
func spoil(t *testing.T, path string, at, n int) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n == 0 {
		n = len(b) - at
	}
	copy(b[at:], bytes.Repeat([]byte{0xff}, n))
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

const page = 4096

func isLost(e *sqlite.Engine) bool {
	select {
	case <-e.Lost():
		return true
	default:
		return false
	}
}

func TestDamageThatIsMetLosesTheJournal(t *testing.T) {
	t.Parallel()
	list := func(tx jobs.Tx) error {
		_, err := tx.List(context.Background(), jobs.Filter{Limit: 10_000})
		return err
	}
	for name, meet := range map[string]func(e *sqlite.Engine) error{
		"by who looks":   func(e *sqlite.Engine) error { return e.View(context.Background(), list) },
		"by who changes": func(e *sqlite.Engine) error { return e.Update(context.Background(), list) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filled(t)
			spoil(t, path, 40*page, 0)
			e := opened(t, path, sqlite.Options{Exclusive: true})
			err := meet(e)
			if !errors.Is(err, jobs.ErrDamaged) || !strings.Contains(err.Error(), path+" cannot be relied on any more; stop syncd, keep the file") {
				t.Fatalf("the error is %v", err)
			}
			if !isLost(e) || !errors.Is(e.LostWhy(), jobs.ErrDamaged) {
				t.Error("the daemon is not told")
			}
			err = e.Update(context.Background(), func(jobs.Tx) error { t.Error("a damaged journal is written on"); return nil })
			if !errors.Is(err, jobs.ErrDamaged) {
				t.Errorf("the next change: %v", err)
			}
		})
	}
}

func TestLookingThroughFindsDamageWherever(t *testing.T) {
	t.Parallel()
	whole := filled(t)
	info, err := os.Stat(whole)
	if err != nil {
		t.Fatal(err)
	}
	e := opened(t, whole, sqlite.Options{Exclusive: true})
	if err := e.Verify(t.Context()); err != nil || isLost(e) {
		t.Fatalf("a whole one: %v", err)
	}
	pages := int(info.Size()) / page
	if pages < 60 {
		t.Fatalf("only %d pages", pages)
	}
	for _, at := range []int{pages / 3, pages / 2, pages - 2} {
		t.Run(fmt.Sprint("page ", at), func(t *testing.T) {
			t.Parallel()
			path := filled(t)
			spoil(t, path, at*page, page)
			for _, o := range []sqlite.Options{{ReadOnly: true}, {Exclusive: true}} {
				e, err := sqlite.Open(context.Background(), path, o)
				if err == nil {
					err = errors.Join(e.Verify(context.Background()), e.Close())
				}
				if !errors.Is(err, jobs.ErrDamaged) {
					t.Errorf("%+v: %v", o, err)
				}
			}
		})
	}
}

func TestDamagedBeginningIsNoReasonToGoOn(t *testing.T) {
	t.Parallel()
	path := filled(t)
	spoil(t, path, 0, page)
	_, err := sqlite.Open(t.Context(), path, sqlite.Options{Exclusive: true})
	if err == nil || !strings.Contains(err.Error(), "restore it from a backup if this was it") {
		t.Errorf("the error is %v", err)
	}
}
