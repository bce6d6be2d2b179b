package main

import (
	"os"
	"syscall"
)

// folder is where the server's files are best kept: in memory, if there is enough of it. A test that needs what a disk does has a server of
// its own.
func folder() string {
	const dir, enough = "/dev/shm", 4 << 30 // many databases are there at once
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil || s.Bavail*uint64(s.Bsize) < enough {
		return os.TempDir()
	}
	return dir
}
