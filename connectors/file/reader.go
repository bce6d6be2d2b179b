package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	// maxLine bounds one record, in bytes with its line end.
	maxLine = 16 << 20
	// slab is how much is read from the disk at once, in bytes.
	slab = 1 << 20
)

// What a piece of a file is.
type piece int

const (
	// record is a whole record with its line end.
	record piece = iota
	// rest is what stands after the last line end.
	rest
	// long is the beginning of a line of more than maxLine bytes.
	long
	// nothing means that the end was reached.
	nothing
)

// reader cuts a file into records. What it returns stays valid: each slab is memory of its own, and records are slices of it.
type reader struct {
	f   io.ReaderAt
	off int64 // of buf[0] in the file
	end int64 // how far to read: the size when the file was listed
	buf []byte
	// cut returns the length of the first record in its argument with its line end, or 0.
	cut func(data []byte) int
	// max is maxLine; tests make it smaller.
	max int
}

var errShorter = errors.New("the file became shorter while it was read")

// next returns the next piece without moving past it; take does that.
func (r *reader) next() ([]byte, piece, error) {
	for {
		if len(r.buf) > 0 {
			if n := r.cut(r.buf); n > 0 && n <= r.max {
				return r.buf[:n:n], record, nil
			}
			if len(r.buf) > r.max {
				return r.buf, long, nil
			}
		}
		if r.off+int64(len(r.buf)) >= r.end {
			if len(r.buf) == 0 {
				return nil, nothing, nil
			}
			return r.buf, rest, nil
		}
		if err := r.fill(); err != nil {
			return nil, nothing, err
		}
	}
}

// take moves past n bytes.
func (r *reader) take(n int) {
	r.buf = r.buf[n:]
	r.off += int64(n)
}

// fill reads more into a new slab that begins with what is left of the old one.
func (r *reader) fill() error {
	left := len(r.buf)
	size := min(int64(max(slab, 2*left)), r.end-r.off)
	b := make([]byte, size)
	copy(b, r.buf)
	if n, err := r.f.ReadAt(b[left:], r.off+int64(left)); n < len(b)-left {
		if err == io.EOF {
			return errShorter
		}
		return fmt.Errorf("read at byte %d: %w", r.off+int64(left), plain(err))
	}
	r.buf = b
	return nil
}

// skipLine moves past the next line end, and tells whether there was one.
func (r *reader) skipLine() (bool, error) {
	for {
		if n := bytes.IndexByte(r.buf, '\n'); n >= 0 {
			r.take(n + 1)
			return true, nil
		}
		r.take(len(r.buf))
		if r.off >= r.end {
			return false, nil
		}
		if err := r.fill(); err != nil {
			return false, err
		}
	}
}
