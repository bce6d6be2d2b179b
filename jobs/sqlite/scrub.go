package sqlite

import (
	"context"
	"errors"
)

// Scrub takes what was written by now from the write-ahead log into the file and cuts the
// log to nothing: until then the log holds pages as they were before something was
// removed from them. It fails while others read for long.
func (e *Engine) Scrub(ctx context.Context) error {
	var c *conn
	select {
	case c = <-e.writer:
	case <-ctx.Done():
		return ctx.Err()
	case <-e.closed:
		return errClosed
	}
	defer func() { e.writer <- c }()
	if c == nil {
		return errors.New("the journal's connection was given up")
	}
	busy, err := checkpoint(c)
	if err == nil && busy {
		err = errors.New("others read the journal")
	}
	return err
}
