package main

import (
	"io"
	"sync/atomic"
)

// kept is where the log goes, and counts what could not be written there: a log
// that nobody reads any more cannot say so itself.
type kept struct {
	w    io.Writer
	lost atomic.Int64
}

// Write implements io.Writer for a logger, which writes a line at a time.
func (k *kept) Write(b []byte) (int, error) {
	n, err := k.w.Write(b)
	if err != nil {
		k.lost.Add(1)
	}
	return n, err
}

// Lost is how many lines could not be written.
func (k *kept) Lost() int64 { return k.lost.Load() }
