package postgres_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"syncd/internal/pgtest"
	"syncd/internal/process"
	"syncd/jobs"
	"syncd/jobs/postgres"
)

// olderDaemon makes a journal of the version before leases, which a daemon of this
// process has, and returns a session to it.
func olderDaemon(t *testing.T, change string) (dsn string) {
	t.Helper()
	dsn = pgtest.DSN(t)
	postgres.MakeOlder(t, dsn, 2)
	s := session(t, dsn)
	p := process.This()
	do(t, s, `UPDATE syncd.daemons SET token = 'theirs', host = $1, boot_id = $2, pid_space = $3, pid = $4, started = $5, since = clock_timestamp(),
		renewed_at = clock_timestamp(), expires_at = clock_timestamp() + interval '30 s'`, p.Host, p.BootID, p.PIDSpace, p.PID, p.Started)
	do(t, s, `INSERT INTO syncd.jobs SELECT 1, 0, 1, 0, 0, '-infinity', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, false, false, false,
		'orders', 'A', 'erp', 'sale', 'S', 'ready', '', NULL, NULL, '', '', '', '', '', '', ''`)
	if change != "" {
		do(t, s, `UPDATE syncd.daemons SET `+change)
	}
	return dsn
}

func TestAnOlderDaemonAtWorkKeepsANewOneOut(t *testing.T) {
	t.Parallel()
	gone := exec.Command("/bin/true")
	if err := gone.Run(); err != nil {
		t.Fatal(err)
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, change string
		free         bool
	}{
		{"it lives", ``, false},
		{"it gave the journal back", `token = '', expires_at = 'epoch'`, true},
		{"its lease lapsed", `expires_at = clock_timestamp() - interval '1 s'`, true},
		{"it ended", fmt.Sprintf(`pid = %d`, gone.Process.Pid), true},
		{"its number was given to another process", `started = started - 1`, true},
		{"its start is not known and its number is in use", `started = 0`, false},
		{"it ran on another machine, or before this one was started anew", fmt.Sprintf(`pid = %d, boot_id = 'another'`, gone.Process.Pid), false},
		{"it ran in another container", fmt.Sprintf(`pid = %d, pid_space = 'pid:[1]'`, gone.Process.Pid), false},
		{"its machine is not known", fmt.Sprintf(`pid = %d, boot_id = ''`, gone.Process.Pid), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := olderDaemon(t, c.change)
			s := session(t, dsn)
			e, err := postgres.Open(t.Context(), dsn, exclusive)
			version := ask[int](t, s, `SELECT max(version_id) FROM syncd.goose_db_version`)
			if !c.free {
				want := fmt.Sprintf("open the journal: in use by another daemon: process %s on %s has it since ", ask[string](t, s, `SELECT pid::text FROM syncd.daemons`), host)
				if !errors.Is(err, jobs.ErrInUse) || !strings.HasPrefix(err.Error(), want) ||
					!strings.HasSuffix(err.Error(), "; the journal has to be brought up to date, so stop that daemon first, or wait until then if it is dead") {
					t.Errorf("the new daemon got %v", err)
				}
				if version != 2 || ask[string](t, s, `SELECT token FROM syncd.daemons`) != "theirs" {
					t.Errorf("the schema is version %d now, or the lease was changed", version)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = e.Close() }()
			if n := count(t, e); version != 3 || n != 1 {
				t.Errorf("the schema is version %d with %d rows, want 3 with 1", version, n)
			}
			// What an older daemon asks for before it writes, and before it takes the journal over.
			if ask[bool](t, s, `SELECT EXISTS (SELECT FROM syncd.daemons WHERE token = 'theirs')`) {
				t.Error("the older daemon may still write")
			}
			if !ask[bool](t, s, `SELECT token <> '' AND expires_at > clock_timestamp() FROM syncd.daemons WHERE name = 'journal'`) {
				t.Error("an older daemon that saw the old version may take the journal")
			}
			opened(t, dsn, exclusive)
		})
	}
}

// A daemon that is stopped in the middle of a transaction, as by SIGSTOP, keeps the lease's row locked, also when the lease has lapsed.
func TestAnOlderJournalHeldByAnOpenTransactionIsInUse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, change, want string }{
		{"it has not lapsed", ``, "so stop that daemon first, or wait until then if it is dead"},
		{"it has lapsed", `expires_at = clock_timestamp() - interval '1 s'`, "; stop that daemon, or wait: the server ends such a transaction after a minute"},
		{"it was given back", `token = '', expires_at = 'epoch'`, "in use by another daemon: a transaction of another session holds its lease; try again when that has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dsn := olderDaemon(t, c.change)
			s := session(t, dsn)
			do(t, s, `BEGIN`)
			do(t, s, `SELECT FROM syncd.daemons FOR KEY SHARE`)
			_, err := postgres.Open(t.Context(), dsn, exclusive)
			if !errors.Is(err, jobs.ErrInUse) || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("a new daemon got %v", err)
			}
			do(t, s, `ROLLBACK`)
		})
	}
}

func TestADaemonOfThisVersionAtWorkKeepsThoseOutThatChangeTheSchema(t *testing.T) {
	t.Parallel()
	dsn := made(t)
	s := session(t, dsn)
	do(t, s, `DELETE FROM syncd.goose_db_version WHERE version_id = 3`)
	do(t, s, `UPDATE syncd.daemons SET token = '', expires_at = 'epoch'`)
	do(t, s, `INSERT INTO syncd.members VALUES (clock_timestamp(), clock_timestamp() + interval '30 s', false, 'd', '{"host":"elsewhere","pid":7}', '[]')`)
	_, err := postgres.Open(t.Context(), dsn, exclusive)
	if !errors.Is(err, jobs.ErrInUse) || !strings.HasPrefix(err.Error(), "open the journal: in use by another daemon: process 7 on elsewhere has it since ") {
		t.Errorf("a new daemon got %v", err)
	}
	do(t, s, `UPDATE syncd.members SET expires_at = clock_timestamp()`)
	if _, err = postgres.Open(t.Context(), dsn, exclusive); err == nil || errors.Is(err, jobs.ErrInUse) {
		t.Errorf("after it lapsed a new daemon got %v, want it to have tried", err)
	}
}
