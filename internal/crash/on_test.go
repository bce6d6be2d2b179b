//go:build torture

package crash

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be the process that dies.
func TestMain(m *testing.M) {
	if os.Getenv("CRASH_CHILD") != "" {
		for range 3 {
			At("write.sent")
			At("write.unsent")
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, env ...string) *os.ProcessState {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), append(env, "CRASH_CHILD=1")...)
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		t.Fatal(err)
	}
	return cmd.ProcessState
}

func TestProcessDiesAtTheNthPassingOfItsPointAlone(t *testing.T) {
	for order, dies := range map[string]bool{
		"": false, "write.sent": true, "write.sent:3": true, "write.sent:4": false, "read.sent": false,
	} {
		s := child(t, "TORTURE_CRASH="+order)
		w := s.Sys().(syscall.WaitStatus)
		if died := w.Signaled() && w.Signal() == syscall.SIGKILL; died != dies {
			t.Errorf("told %q the process ended with %s", order, s)
		}
	}
}

func TestPassingsDoNotCountBeforeTheFileIsThere(t *testing.T) {
	file := t.TempDir() + "/now"
	if s := child(t, "TORTURE_CRASH=write.sent", "TORTURE_CRASH_ONCE="+file); !s.Success() {
		t.Errorf("without the file the process ended with %s", s)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s := child(t, "TORTURE_CRASH=write.sent", "TORTURE_CRASH_ONCE="+file); s.Success() {
		t.Error("with the file the process lived")
	}
}

func TestOrderThatIsNotUnderstoodEndsTheProcess(t *testing.T) {
	for _, order := range []string{"nowhere", "write.sent:x", "write.sent:0"} {
		s := child(t, "TORTURE_CRASH="+order)
		if w := s.Sys().(syscall.WaitStatus); w.Signaled() || s.Success() {
			t.Errorf("told %q the process ended with %s", order, s)
		}
	}
}

func TestLeaseIsShortenedInProportion(t *testing.T) {
	old := lease
	defer func() { lease = old }()
	lease = 3 * time.Second
	if got := Shorten(10 * time.Second); got != time.Second {
		t.Errorf("10s become %s", got)
	}
}
