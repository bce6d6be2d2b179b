package process

import (
	"os/exec"
	"testing"
)

func TestAProcessThatWasWaitedForHasEnded(t *testing.T) {
	c := exec.Command("true")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	me := This()
	child := me
	child.PID, child.Started = int64(c.Process.Pid), startOf(c.Process.Pid)
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
	if !child.Ended(me) {
		t.Error("a process that is gone is not known to have ended")
	}
}

func TestWhatCannotBeKnownHasNotEnded(t *testing.T) {
	me := This()
	if me.Ended(me) {
		t.Error("the process that asks has ended")
	}
	again := me
	again.Started++ // the number was given to another process since
	if !again.Ended(me) {
		t.Error("a process whose number another one has by now is not known to have ended")
	}
	for name, change := range map[string]func(*ID){
		"another boot":       func(p *ID) { p.BootID = "b" },
		"no boot":            func(p *ID) { p.BootID = "" },
		"another name space": func(p *ID) { p.PIDSpace = "pid:[1]" },
		"no name space":      func(p *ID) { p.PIDSpace = "" },
		"no number":          func(p *ID) { p.PID = 0 },
	} {
		p := me
		p.Started++
		change(&p)
		if p.Ended(me) {
			t.Errorf("%s: known to have ended", name)
		}
	}
}
