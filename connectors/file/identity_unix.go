//go:build unix

package file

import (
	"io/fs"
	"syscall"
)

// inode tells one file from another of the same name. The device is left out: its number may change when a machine
// starts anew, and dir lies on one device.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}

// openFlags keep the opening of a named pipe from waiting for its writer.
const openFlags = syscall.O_RDONLY | syscall.O_NONBLOCK
