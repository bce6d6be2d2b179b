package sqlite

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Born tells the journal's file from every copy of it, by the time at which its file
// system has made it: no program gives a copy that of its original. It is "" where
// the file system keeps no such time.
func (e *Engine) Born() string {
	var s unix.Statx_t
	if unix.Statx(unix.AT_FDCWD, e.path, 0, unix.STATX_BTIME, &s) != nil || s.Mask&unix.STATX_BTIME == 0 {
		return ""
	}
	return strconv.FormatInt(s.Btime.Sec, 10) + "." + strconv.FormatUint(uint64(s.Btime.Nsec), 10)
}
