package sqlite

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Warnings tells what an operator should know of the journal's state, a line
// each, with what to do.
func (e *Engine) Warnings(ctx context.Context) []string {
	var out []string
	info, err := os.Stat(e.path + "-wal")
	switch {
	case err == nil && info.Size() > walLimit:
		out = append(out, fmt.Sprintf("the journal's write-ahead log has grown to %d MiB: something reads the journal for very long; "+
			"end it, and the log is emptied by itself", info.Size()>>20))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		out = append(out, fmt.Sprintf("the journal's write-ahead log cannot be looked at: %v", err))
	}
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Dir(e.path), &s); err != nil {
		return append(out, fmt.Sprintf("the journal's disk cannot be looked at: %v", err))
	}
	if kind := uint32(s.Type); kind == unix.TMPFS_MAGIC || kind == unix.RAMFS_MAGIC {
		out = append(out, fmt.Sprintf("the journal %s lies in memory (tmpfs) and is lost when the machine restarts; move it to a disk", e.path))
	}
	if free := s.Bavail * uint64(s.Bsize); free < lowDisk {
		out = append(out, fmt.Sprintf("only %d MiB are free on the journal's disk; make space", free>>20))
	}
	return out
}

// LowDisk says that less is free on the journal's disk than Options.MinFree, or with
// more than that and a tenth; "" when there is enough, or the disk tells nothing.
func (e *Engine) LowDisk(more bool) string {
	var s unix.Statfs_t
	if unix.Statfs(filepath.Dir(e.path), &s) != nil {
		return "" // Warnings tells it
	}
	least := uint64(max(e.o.MinFree, 0))
	if least == 0 {
		least = min(s.Blocks*uint64(s.Bsize)/20, lowDisk)
	}
	free := s.Bavail * uint64(s.Bsize)
	if bound := least + least/10; free < least || more && free < bound {
		return fmt.Sprintf("only %d MiB are free on the journal's disk, and %d MiB are to stay free (min_free)", free>>20, least>>20)
	}
	return ""
}

// lowDisk is the free space, in bytes, below which Warnings warns.
const lowDisk = 512 << 20
