//go:build !linux

package postgres

import "syscall"

func boundUnacknowledged(string, string, syscall.RawConn) error { return nil }
