package postgres

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// process says which process holds the lease, well enough for another process of
// the same machine to tell whether it still lives.
type process struct {
	host string
	// bootID changes with each start of the machine; "" when it cannot be read.
	bootID string
	// pidSpace is the name space in which pid means something: containers have their
	// own, and each has a process 1. "" when it cannot be read.
	pidSpace string
	pid      int64
	// started is the process's start in clock ticks since the machine's; 0 when it
	// cannot be read. It tells a process from a later one of the same number.
	started int64
}

func thisProcess() process {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	p := process{host: host, pid: int64(os.Getpid()), started: startOf(os.Getpid())}
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		p.bootID = strings.TrimSpace(string(b))
	}
	if name, err := os.Readlink("/proc/self/ns/pid"); err == nil {
		p.pidSpace = name
	}
	return p
}

// gone reports that p has ended for certain, as seen by the process me. It is
// false whenever that cannot be known.
func (p process) gone(me process) bool {
	if p.bootID == "" || p.bootID != me.bootID || p.pidSpace == "" || p.pidSpace != me.pidSpace || p.pid <= 0 {
		return false
	}
	// The signal 0 only asks. A process of another user answers EPERM; /proc may be
	// mounted so that it does not show those.
	if errors.Is(syscall.Kill(int(p.pid), 0), syscall.ESRCH) {
		return true
	}
	now := startOf(int(p.pid))
	return p.started > 0 && now > 0 && now != p.started
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
