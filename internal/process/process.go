// Package process names a process so well that another one of the same machine can
// tell whether it has ended.
package process

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// ID names a process. It has a JSON form.
type ID struct {
	Host string `json:"host"`
	// BootID changes with each start of the machine; "" when it cannot be read.
	BootID string `json:"boot_id,omitempty"`
	// PIDSpace is the name space in which PID means something: containers have their
	// own, and each has a process 1. "" when it cannot be read.
	PIDSpace string `json:"pid_space,omitempty"`
	PID      int64  `json:"pid"`
	// Started is the process's start in clock ticks since the machine's; 0 when it
	// cannot be read. It tells a process from a later one of the same number.
	Started int64 `json:"started,omitempty"`
}

// This is the process that asks. It is looked up once.
func This() ID { return this() }

var this = sync.OnceValue(func() ID {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := ID{Host: host, PID: int64(os.Getpid()), Started: startOf(os.Getpid())}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.BootID = strings.TrimSpace(string(b))
	}
	if name, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		p.PIDSpace = name
	}
	return p
})

// Ended reports that p has ended for certain, as seen by the process me. It is
// false whenever that cannot be known, as for a process of another machine.
func (p ID) Ended(me ID) bool {
	if p == me {
		return false // it asks
	}
	if p.BootID == "" || p.BootID != me.BootID || p.PIDSpace == "" || p.PIDSpace != me.PIDSpace || p.PID <= 0 {
		return false
	}
	// The signal 0 only asks. A process of another user answers EPERM; /proc may be
	// mounted so that it does not show those.
	if errors.Is(syscall.Kill(int(p.PID), 0), syscall.ESRCH) {
		return true
	}
	now := startOf(int(p.PID))
	return p.Started > 0 && now > 0 && now != p.Started
}

// startOf is the start of a process, the 22nd field of /proc/PID/stat; 0 when it
// cannot be read. The second field is the program's name in brackets and may hold
// blanks and brackets itself.
func startOf(pid int) int64 {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(fields) < 20 {
		return 0
	}
	n, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return 0
	}
	return n
}
