package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"syncd/jobs"
	"syncd/jobs/postgres"
)

var exclusive = postgres.Options{Exclusive: true, MaxConns: 2}

func TestOneDaemonHasAJournal(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	first := opened(t, dsn, exclusive)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	_, err = postgres.Open(t.Context(), dsn, exclusive)
	want := fmt.Sprintf("open the journal: in use by another daemon: process %d on %s has it since ", os.Getpid(), host)
	if !errors.Is(err, jobs.ErrInUse) || !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "; stop that daemon first, or wait until then if it is dead") {
		t.Errorf("a second daemon got %v", err)
	}
	command := opened(t, dsn, postgres.Options{})
	put(t, command, "by a command")
	put(t, first, "by the daemon")
	if until := time.Until(first.TrustedUntil()); until < 20*time.Second || until > 28*time.Second {
		t.Errorf("the daemon trusts its lease for %v, want somewhat less than 30 s", until)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	opened(t, dsn, exclusive)
}

func TestALeaseThatLapsedIsTakenOverAndItsHolderLocksItselfOut(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	old := opened(t, dsn, exclusive)
	put(t, old, "before")
	do(t, session(t, dsn), `UPDATE syncd.daemons SET expires_at = clock_timestamp() - interval '1 s'`)
	// Nobody has taken it: the holder may go on, and renew it.
	put(t, old, "lapsed")
	if err := postgres.Renew(t, old); err != nil {
		t.Errorf("renew a lease that lapsed and that nobody took: %v", err)
	}
	do(t, session(t, dsn), `UPDATE syncd.daemons SET expires_at = clock_timestamp() - interval '1 s'`)
	successor := opened(t, dsn, exclusive)
	put(t, successor, "after")
	select {
	case <-old.Lost():
		t.Error("the old daemon knows before it asked")
	default:
	}
	for i, act := range []func() error{
		func() error {
			return old.Update(t.Context(), func(tx jobs.Tx) error { return tx.PutRows(t.Context(), []jobs.Row{row("too late")}) })
		},
		func() error {
			return old.Update(t.Context(), func(jobs.Tx) error { t.Error("a transaction was run"); return nil })
		},
		func() error { return postgres.Renew(t, old) },
	} {
		if err := act(); !errors.Is(err, jobs.ErrInUse) {
			t.Errorf("step %d: the old daemon got %v, want jobs.ErrInUse", i, err)
		}
	}
	select {
	case <-old.Lost():
	default:
		t.Error("the old daemon does not know that it lost the journal")
	}
	if !old.TrustedUntil().IsZero() {
		t.Error("the old daemon trusts its lease still")
	}
	if n := count(t, old); n != 3 {
		t.Errorf("%d rows are there, want 3: reading goes on, writing does not", n)
	}
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	put(t, successor, "after the other closed")
}

func TestATransactionUnderWayHoldsTheLeaseAgainstATakeover(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	old := opened(t, dsn, exclusive)
	took := make(chan error, 1)
	if err := old.Update(t.Context(), func(tx jobs.Tx) error {
		if err := tx.PutRows(t.Context(), []jobs.Row{row("A")}); err != nil {
			return err
		}
		do(t, session(t, dsn), `UPDATE syncd.daemons SET expires_at = clock_timestamp() - interval '1 s'`)
		go func() {
			e, err := postgres.Open(t.Context(), dsn, exclusive)
			if err == nil {
				err = e.Close()
			}
			took <- err
		}()
		// The takeover waits for the row that this transaction holds.
		watcher := session(t, dsn)
		until(t, "the takeover waits or is done", func() bool {
			return len(took) > 0 || ask[int](t, watcher, `SELECT count(*) FROM pg_locks WHERE NOT granted`) > 0
		})
		if len(took) > 0 {
			t.Error("the journal was taken over within a transaction of the old daemon")
		}
		return nil
	}); err != nil {
		t.Errorf("the transaction that held the lease: %v", err)
	}
	if err := <-took; err != nil {
		t.Errorf("take over: %v", err)
	}
}

func TestTheLeaseOfAProcessThatEndedForCertainIsTakenAtOnce(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, change string
		free         bool
	}{
		{"it lives", `pid = pid`, false},
		{"it ended", fmt.Sprintf(`pid = %d`, gone.Process.Pid), true},
		{"its number was given to another process", `started = started - 1`, true},
		{"its start is not known and its number is in use", `started = 0`, false},
		{"it ran on another machine, or before this one was started anew", fmt.Sprintf(`pid = %d, boot_id = 'another'`, gone.Process.Pid), false},
		{"it ran in another container", fmt.Sprintf(`pid = %d, pid_space = 'pid:[1]'`, gone.Process.Pid), false},
		{"its machine is not known", fmt.Sprintf(`pid = %d, boot_id = ''`, gone.Process.Pid), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := postgres.Open(t.Context(), dsn, exclusive)
			if err != nil {
				t.Fatal(err)
			}
			postgres.Abandon(t, e)
			s := session(t, dsn)
			do(t, s, `UPDATE syncd.daemons SET `+c.change)
			next, err := postgres.Open(t.Context(), dsn, exclusive)
			if err == nil {
				defer func() { _ = next.Close() }()
			}
			if free := err == nil; free != c.free || err != nil && !errors.Is(err, jobs.ErrInUse) {
				t.Errorf("the next daemon got %v; want it to get the journal: %v", err, c.free)
			}
			do(t, s, `UPDATE syncd.daemons SET token = ''`)
		})
	}
}

// A daemon that is stopped in the middle of a transaction, as by SIGSTOP, keeps the lease's row locked, also when the lease has lapsed.
func TestALeaseHeldByAnOpenTransactionIsInUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, change, want string }{
		{"it has not lapsed", `token = token`, "; stop that daemon first, or wait until then if it is dead"},
		{"it has lapsed", `expires_at = clock_timestamp() - interval '1 s'`, "; stop that daemon, or wait: the server ends such a transaction after a minute"},
		{"it was given back", `token = '', expires_at = 'epoch'`, "in use by another daemon: a transaction of another session holds its lease; try again when that has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := made(t)
			postgres.Abandon(t, opened(t, dsn, exclusive))
			s := session(t, dsn)
			do(t, s, `UPDATE syncd.daemons SET `+c.change)
			do(t, s, `BEGIN`)
			do(t, s, `SELECT FROM syncd.daemons FOR KEY SHARE`)
			_, err := postgres.Open(t.Context(), dsn, exclusive)
			if !errors.Is(err, jobs.ErrInUse) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("a second daemon got %v", err)
			}
			do(t, s, `ROLLBACK`)
		})
	}
}
