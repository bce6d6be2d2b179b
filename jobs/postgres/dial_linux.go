package postgres

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// unacknowledged is how long sent bytes may stay unacknowledged before the
// connection is given up. The kernel's own limit is a quarter of an hour.
const unacknowledged = 30 * time.Second

func boundUnacknowledged(network, _ string, c syscall.RawConn) error {
	if len(network) < 3 || network[:3] != "tcp" {
		return nil
	}
	var err error
	if e := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledged.Milliseconds()))
	}); e != nil {
		return e
	}
	return err
}
