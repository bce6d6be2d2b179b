package rest

import (
	"encoding/binary"
	"sync"
)

// maxSeen bounds the records remembered during one reading, at some 40 bytes
// each.
const maxSeen = 500_000

// seen remembers, while a listing is read in several passes, in which pass each
// of its records was seen first, so that the passes can end when one brings
// nothing new although records change all the time. It lives in memory alone:
// after a restart everything is new once more, which costs a pass and loses
// nothing.
type seen struct {
	mu       sync.Mutex
	readings map[int64]map[uint64]uint8 // by the reading's beginning: id to pass
}

// maxReadings bounds the readings of one stream that are remembered: flows with
// cursors of their own may read it at the same time.
const maxReadings = 4

// add notes the records of a page and returns how many of them were not seen in
// an earlier pass; asking again about the same page gives the same number.
func (s *seen) add(began int64, pass int, recs []record) (fresh int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, ok := s.readings[began]
	if !ok {
		if s.readings == nil || len(s.readings) >= maxReadings {
			s.readings = map[int64]map[uint64]uint8{}
		}
		first = map[uint64]uint8{}
		s.readings[began] = first
	}
	for _, r := range recs {
		sum := hash(r.id)
		h := binary.BigEndian.Uint64(sum[:8])
		p, known := first[h]
		if !known && len(first) < maxSeen {
			first[h] = uint8(pass)
		}
		if !known || int(p) >= pass {
			fresh++
		}
	}
	return fresh
}

// forget frees the memory at the end of a reading.
func (s *seen) forget(began int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.readings, began)
}
