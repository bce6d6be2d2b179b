package main

import (
	"flag"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"syncd/internal/pgtest"
)

// TestMain makes this test program serve as syncd too: tests and scripts start
// it by that name, as a process of its own.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"syncd": main})
}

var update = flag.Bool("update", false, "rewrite the texts that scripts expect")

// TestScripts runs the scripts of testdata; each proves what its first lines say.
func TestScripts(t *testing.T) {
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
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"code":  cmdCode,
			"norm":  cmdNorm,
			"seed":  cmdSeed,
			"pg":    cmdPG,
			"taken": cmdTaken,
			"serve": cmdServe,
		},
	})
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

// cmdPG makes a PostgreSQL database: pg DATABASE_URL.
func cmdPG(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: pg VARIABLE")
	}
	ts.Setenv(args[0], pgtest.DSN(scriptTB{ts: ts}))
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
