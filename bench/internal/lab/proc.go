package lab

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// tick is the unit of processor times in /proc: USER_HZ, which is 100 on every
// platform that Go runs on (https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html).
const tick = 10 * time.Millisecond

// Stat is what /proc tells of a process.
type Stat struct {
	// Parent is the process that started it.
	Parent int
	// CPU is its own processor time, CPUOfDead that of its children that ended.
	CPU, CPUOfDead time.Duration
}

// ReadStat looks at a process.
func ReadStat(pid int) (Stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Stat{}, err
	}
	// The name stands in brackets and may hold anything.
	f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	if len(f) < 15 {
		return Stat{}, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(f))
	}
	var n [5]int64
	for i, at := range []int{1, 11, 12, 13, 14} {
		if n[i], err = strconv.ParseInt(f[at], 10, 64); err != nil {
			return Stat{}, fmt.Errorf("/proc/%d/stat: %w", pid, err)
		}
	}
	return Stat{Parent: int(n[0]), CPU: time.Duration(n[1]+n[2]) * tick, CPUOfDead: time.Duration(n[3]+n[4]) * tick}, nil
}

// ServerCPU is the processor time that a PostgreSQL server has used up to now,
// that of all its processes together. c is any connection to it.
func ServerCPU(ctx context.Context, c *pgx.Conn) (time.Duration, error) {
	var backend int
	if err := c.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&backend); err != nil {
		return 0, fmt.Errorf("find the server's processes: %w", err)
	}
	st, err := ReadStat(backend)
	if err != nil {
		return 0, fmt.Errorf("find the server's processes: %w", err)
	}
	master := st.Parent
	if st, err = ReadStat(master); err != nil {
		return 0, fmt.Errorf("find the server's processes: %w", err)
	}
	sum := st.CPU + st.CPUOfDead
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("find the server's processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		// One that ended meanwhile is counted by its parent next time.
		if st, err := ReadStat(pid); err == nil && st.Parent == master {
			sum += st.CPU
		}
	}
	return sum, nil
}

// Memory reads one line of /proc/PID/status, in bytes: VmHWM is the most that a
// process ever had in memory, VmRSS what it has now. rusage will not do: its peak
// begins with that of the process that forked.
func Memory(pid int, line string) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	for l := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(l, line+":"); ok {
			n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
			}
			return n << 10, nil
		}
	}
	return 0, fmt.Errorf("read the memory of process %d: no line %s", pid, line)
}
