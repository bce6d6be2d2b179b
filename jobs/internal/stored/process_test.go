package stored

import (
	"testing"

	"syncd/jobs"
)

func TestAProcessComesBack(t *testing.T) {
	t.Parallel()
	p := jobs.Process{Host: "h", BootID: "b", PIDSpace: "pid:[1]", PID: 7, Started: 8}
	text, err := Process(p)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ParseProcess(text); err != nil || got != p {
		t.Errorf("%+v came back as %+v (%v)", p, got, err)
	}
	if p, err := ParseProcess("{"); err == nil {
		t.Errorf("a damaged form was read as %+v", p)
	}
}
