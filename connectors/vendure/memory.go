package vendure

import (
	"hash/maphash"
	"sync"
)

const (
	// mostMarks bounds what is remembered of a stream, in records; some 20 MB.
	// Records beyond it are delivered by each sweep.
	mostMarks = 200_000
	// mostReaders bounds how many readers are remembered.
	mostReaders = 16
)

// memory is what sweeps have found, in the process only. After a restart, the
// first sweep delivers everything again, and the journal drops what it knows.
//
// Marks are set when a page is made, which is before it is stored. So they hold
// only for the cursor that followed that page: when an older one comes, the
// page was not stored, and its reader begins with an empty memory.
type memory struct {
	mu    sync.Mutex
	most  int
	seed  maphash.Seed
	turn  uint64
	slots map[string]*slot
}

type slot struct {
	// turn is the number of the pull that has the marks, or had them last.
	turn  uint64
	next  string
	marks map[string]mark
	known bool
}

// mark is what a record was like when a sweep saw it last.
type mark struct {
	sum   uint64
	sweep int64
}

func newMemory() *memory {
	return &memory{most: mostMarks, seed: maphash.MakeSeed(), slots: map[string]*slot{}}
}

// lease is a pull's exclusive use of its reader's marks.
type lease struct {
	m      *memory
	reader string
	turn   uint64
	marks  map[string]mark
	// known says that most of what was swept last was as remembered.
	known bool
}

// take gives a pull the marks that belong to its cursor. Another pull of the
// same reader, begun before its end, gets none.
func (m *memory) take(reader, cursor string) *lease {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	s := m.slots[reader]
	if s == nil {
		m.evict()
		s = &slot{}
		m.slots[reader] = s
	}
	l := &lease{m: m, reader: reader, turn: m.turn}
	if s.next == cursor {
		l.marks, l.known = s.marks, s.known
	}
	if l.marks == nil {
		l.marks = map[string]mark{}
	}
	s.turn, s.next, s.marks, s.known = l.turn, "", nil, false
	return l
}

// evict makes room by forgetting the reader that was here least recently.
func (m *memory) evict() {
	if len(m.slots) < mostReaders {
		return
	}
	var oldest string
	for name, s := range m.slots {
		if oldest == "" || s.turn < m.slots[oldest].turn {
			oldest = name
		}
	}
	delete(m.slots, oldest)
}

// give returns the marks, which hold for the cursor next and no other.
func (l *lease) give(next string) {
	l.m.mu.Lock()
	defer l.m.mu.Unlock()
	if s := l.m.slots[l.reader]; s != nil && s.turn == l.turn {
		s.next, s.marks, s.known = next, l.marks, l.known
	}
}

// same reports whether a record is as it was when a sweep saw it last.
func (l *lease) same(id, text string) bool {
	old, ok := l.marks[id]
	return ok && old.sum == maphash.String(l.m.seed, text)
}

// note marks a record as seen by a sweep.
func (l *lease) note(id, text string, sweep int64) {
	if _, ok := l.marks[id]; ok || len(l.marks) < l.m.most {
		l.marks[id] = mark{maphash.String(l.m.seed, text), sweep}
	}
}

// ended drops the records that a sweep, now at its end, has not seen.
func (l *lease) ended(sweep int64) {
	for id, mk := range l.marks {
		if mk.sweep != sweep {
			delete(l.marks, id)
		}
	}
}
