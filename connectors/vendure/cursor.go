package vendure

import (
	"bytes"
	"encoding/json"
	"fmt"

	"syncd/connectors"
)

// cursorVersion changes when older cursors can no longer be read.
const cursorVersion = 1

// cursor is how far a stream was read. Times are the shop's, in milliseconds,
// the resolution of its API.
type cursor struct {
	V int `json:"v"`
	// Reader tells apart those who read the same stream, such as two flows.
	Reader string `json:"reader"`
	// Start is the earliest change wanted, in ms; 0 for everything.
	Start int64 `json:"start,omitempty"`
	// Pass is which way of reading comes next: an index into times, or len(times) for the sweep.
	Pass int `json:"pass,omitempty"`
	// Time is, for each of times, the stamp from which a pass begins.
	Time []int64 `json:"time"`
	// Walking says that the present pass has begun; place is how far it is, High the
	// latest stamp seen in it.
	Walking bool `json:"walking,omitempty"`
	place
	High int64 `json:"high,omitempty"`
	// Swept is when, by our clock, the present sweep or the last one began; Took how
	// long the last one took.
	Swept int64 `json:"swept,omitempty"`
	Took  int64 `json:"took,omitempty"`
}

// cursor reads the request's cursor, or makes the first one.
func (s *source) cursor(k *kind, req connectors.PullRequest) (*cursor, error) {
	if len(req.Cursor) == 0 || bytes.Equal(req.Cursor, []byte("null")) {
		c := &cursor{V: cursorVersion, Reader: s.newReader(), Time: make([]int64, len(k.times))}
		if !req.Start.All {
			c.Start = req.Start.From.UnixMilli()
		}
		for i := range c.Time {
			c.Time[i] = c.Start
		}
		return c, nil
	}
	c := &cursor{}
	d := json.NewDecoder(bytes.NewReader(req.Cursor))
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil || c.V != cursorVersion || len(c.Time) != len(k.times) ||
		c.Pass < 0 || c.Pass > len(k.times) || c.Skip < 0 || c.Of < 0 {
		return nil, failed("read "+k.name, connectors.Invalid, "cursor", "the stored cursor is not one of this stream; reset it to begin again")
	}
	return c, nil
}

// newReader names a reader that begins without a cursor. The name is never
// given again: not by this source, nor by one that is opened later.
func (s *source) newReader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readers++
	return fmt.Sprintf("%x-%x", s.opened.UnixMicro(), s.readers)
}

// next ends a pass.
func (c *cursor) next() {
	c.Pass++
	c.Walking, c.place, c.High = false, place{}, 0
}
