package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// audited reads what demo --json printed and wants all to be well.
func audited(t *testing.T, r result) demoJSON {
	t.Helper()
	var d demoJSON
	if err := json.Unmarshal([]byte(r.out), &d); err != nil {
		t.Fatalf("exit code %d, %v: %s%s", r.code, err, r.out, r.errout)
	}
	if r.code != exitOK || !d.OK || !d.Audit.OK() || d.StillOpen != 0 || r.errout != "" {
		t.Fatalf("exit code %d: %s%s", r.code, r.out, r.errout)
	}
	return d
}

func TestDemoEndsWithEveryRecordInTheERPOnce(t *testing.T) {
	inFull(t)
	t.Parallel()
	d := audited(t, call(t, t.TempDir(), nil, "demo", "--for", "5s", "--json"))
	if d.Seed == 0 || d.Audit.Expected < 10 || d.Outcomes["applied"] < 10 {
		t.Errorf("the demo showed next to nothing: %+v", d)
	}
}

func TestDemoOfMuchTradeCatchesUp(t *testing.T) {
	t.Parallel()
	d := audited(t, call(t, t.TempDir(), nil, "demo", "--for", "5s", "--changes", "100", "--seed", "202", "--json"))
	if d.Seed != 202 || d.Audit.Expected < 150 {
		t.Errorf("seed %d, %d records", d.Seed, d.Audit.Expected)
	}
}

func TestDemoInterruptedGoesOnToItsAudit(t *testing.T) {
	inFull(t)
	t.Parallel()
	dir := t.TempDir()
	p, out := startDemo(t, dir, "--for", "1h", "--dir", "kept")
	p.signal(syscall.SIGINT)
	if code := p.wait(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	text := out()
	if !strings.Contains(text, "audit, read from the ERP") || !strings.Contains(text, "every record is in the ERP once, in its newest state") {
		t.Errorf("no audit after Ctrl-C:\n%s", text)
	}
	// What was kept can be looked at from anywhere, as the last line says.
	config := filepath.Join(dir, "kept", "syncd.yaml")
	if !strings.HasSuffix(text, "look around: syncd status --config "+config+"\n") {
		t.Errorf("the last line does not say how to look around:\n%s", text)
	}
	if r := call(t, t.TempDir(), nil, "status", "--config", config); r.code != 0 || !strings.Contains(r.out, "customers") {
		t.Errorf("status of what was kept ends with %d: %s%s", r.code, r.out, r.errout)
	}
	if r := call(t, dir, nil, "demo", "--dir", "kept"); r.code != exitUsage || !strings.Contains(r.errout, "--dir kept holds a journal already; choose an empty folder") {
		t.Errorf("a second demo in the same folder ends with %d: %s", r.code, r.errout)
	}
}

func TestDemoInterruptedTwiceEnds(t *testing.T) {
	t.Parallel()
	p, _ := startDemo(t, t.TempDir(), "--for", "1h")
	until(t, "the demo has ended", func() bool {
		p.signal(syscall.SIGINT)
		select {
		case <-p.ended:
			return true
		default:
			return false
		}
	})
	if code := p.wait(); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
}

// startDemo starts a demo whose output goes to a file, and waits until it shows something.
func startDemo(t *testing.T, dir string, args ...string) (*process, func() string) {
	t.Helper()
	path := filepath.Join(dir, "out")
	p := startAs(t, dir, nil, "sh", append([]string{"-c", `exec syncd demo "$@" >out`, "sh"}, args...)...)
	read := func() string {
		b, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(b)
	}
	until(t, "the demo shows something", func() bool { return strings.Contains(read(), "in step") })
	return p, read
}
