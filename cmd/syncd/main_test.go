package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"flag"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/rogpeppe/go-internal/testscript"

	"syncd/internal/pgtest"
)

// TestMain makes this test program serve as syncd too: tests and scripts start
// it by that name, as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"syncd": main})
}

//go:embed testdata/syncd.yaml
var scriptConfig string

var update = flag.Bool("update", false, "rewrite the texts that scripts expect")

// TestScripts runs the scripts of testdata; each proves what its first lines say.
// They are mostly commands that look or act once and end, so -short, which is for
// the race detector, leaves them out.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: scripts show what commands print; the daemon's tests run")
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			// A mount of a script's own ends with its process.
			unshare := "unshare -m"
			if os.Getuid() != 0 {
				unshare = "unshare -rm"
			}
			e.Setenv("UNSHARE", unshare)
			e.Setenv("LC_ALL", "C.UTF-8")
			// Scripts that need no configuration of their own take this one.
			path := filepath.Join(e.WorkDir, "syncd.yaml")
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				return os.WriteFile(path, []byte(scriptConfig), 0o600)
			}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  cmdCode,
			"norm":  cmdNorm,
			"seed":  cmdSeed,
			"newer": cmdNewer,
			"pg":    cmdPG,
			"sql":   cmdSQL,
			"taken": cmdTaken,
			"serve": cmdServe,
		},
	})
}

// inFull leaves out with -short, which is for the race detector, a test that takes long for commands that run one after the other.
func inFull(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: the daemon's other tests have the same things run at once")
	}
}

// cmdCode runs a command and wants an exit code: code 3 syncd check.
func cmdCode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N COMMAND ...")
	}
	got := "0"
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s", got, args[0])
	}
}

// vary are the parts of a text that differ from run to run.
var vary = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "TIME"},
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:PORT"},
	{regexp.MustCompile(`\(in [0-9hms.]+\)`), "(in DURATION)"},
	{regexp.MustCompile(`process \d+`), "process PID"},
	{regexp.MustCompile(`process PID on \S+`), "process PID on HOST"},
	{regexp.MustCompile(`/t_[0-9a-f]{16}`), "/DATABASE"},
	{regexp.MustCompile(`PostgreSQL \d+\.\d+`), "PostgreSQL VERSION"},
	{regexp.MustCompile(`go1\.[0-9.]+, \w+/\w+`), "GO, PLATFORM"},
}

func normal(text, work string) string {
	text = strings.ReplaceAll(text, work, "$WORK")
	for _, v := range vary {
		text = v.re.ReplaceAllString(text, v.with)
	}
	return text
}

// cmdNorm writes a text without what differs from run to run: norm stderr got.
func cmdNorm(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: norm stdout|stderr|FILE FILE")
	}
	text := normal(ts.ReadFile(args[0]), ts.Getenv("WORK"))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// cmdNewer makes a journal look as if a newer syncd had written it: newer FILE.
func cmdNewer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: newer FILE")
	}
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	defer db.Close()
	_, err = db.Exec("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	ts.Check(err)
}

// cmdPG makes a PostgreSQL database and names its URL: pg VARIABLE. With
// "locked" the server is the script's own, and knows a user ann whose password
// is right-password.
func cmdPG(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: pg VARIABLE [locked]")
	}
	tb := scriptTB{ts: ts}
	if len(args) == 1 {
		ts.Setenv(args[0], pgtest.DSN(tb))
		return
	}
	url := pgtest.Cluster(tb).DSN("ann")
	statement(ts, url, "CREATE ROLE ann LOGIN PASSWORD 'right-password'")
	var hba string
	conn, err := pgx.Connect(context.Background(), url)
	ts.Check(err)
	defer conn.Close(context.Background())
	ts.Check(conn.QueryRow(context.Background(), "SHOW hba_file").Scan(&hba))
	rules, err := os.ReadFile(hba)
	ts.Check(err)
	ts.Check(os.WriteFile(hba, append([]byte("host all ann 127.0.0.1/32 scram-sha-256\n"), rules...), 0o600))
	statement(ts, url, "SELECT pg_reload_conf()")
	ts.Setenv(args[0], strings.Replace(url, "postgres@", "ann:WRONG-CANARY@", 1))
}

// cmdSQL runs a statement: sql URL STATEMENT.
func cmdSQL(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sql URL STATEMENT")
	}
	statement(ts, args[0], args[1])
}

func statement(ts *testscript.TestScript, url, text string) {
	conn, err := pgx.Connect(context.Background(), url)
	ts.Check(err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), text)
	ts.Check(err)
}

// cmdTaken takes a port until the script ends: taken ADDRESS.
func cmdTaken(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: taken VARIABLE")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[0], l.Addr().String())
}

// scriptTB lets helpers that want a testing.TB work for a script.
type scriptTB struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptTB) Helper()                           {}
func (s scriptTB) Context() context.Context          { return context.Background() }
func (s scriptTB) Cleanup(f func())                  { s.ts.Defer(f) }
func (s scriptTB) Fatalf(format string, args ...any) { s.ts.Fatalf(format, args...) }
func (s scriptTB) Errorf(format string, args ...any) { s.ts.Fatalf(format, args...) }

// write puts a file into a folder.
func write(t testing.TB, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
