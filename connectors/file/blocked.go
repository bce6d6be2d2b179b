package file

import (
	"fmt"
	"strings"
	"sync"

	"syncd/connectors"
)

const (
	// maxBlocked bounds the files of a stream that cannot be read further. Each keeps its place in the cursor, so when there are so many, no more are looked at.
	maxBlocked = 50
	// maxNamed bounds the files that one error names.
	maxNamed = 3
)

// What a file is blocked for.
const (
	openQuote = "open_quote"
	badTable  = "columns"
	notText   = "not_text"
)

// blocked is a file that cannot be read further, because of what stands in it, or because the disk does not give it.
type blocked struct {
	name string
	err  *connectors.Error
}

// block ends the reading of the file at hand before a place that nobody but a person can mend. The cursor stays before it, and each round fails, once it has
// brought what can be read, until the file or the configuration changes.
func (r *round) block(e entry, code, format string, args ...any) {
	b := blocked{e.name, connectors.Errorf(connectors.Invalid, code, format, args...)}
	r.state.Blocked, r.state.Wait = true, false
	r.moved = r.moved || !r.was // so that it is remembered
	r.known.put(r.name, e, r.state.Off, b)
	r.blocked = append(r.blocked, b)
}

// failing is the error of a round that met files that cannot be read.
func (r *round) failing() error {
	first := r.blocked[0]
	for _, b := range r.blocked {
		if b.err.Class == connectors.Invalid {
			first = b
			break
		}
	}
	e := *first.err
	var others []string
	for _, b := range r.blocked {
		if b.name != first.name {
			others = append(others, b.name)
		}
	}
	if n := len(others); n > maxNamed {
		others = append(others[:maxNamed], fmt.Sprintf("%d more", n-maxNamed))
	}
	if len(others) > 0 {
		e.Message += "; also held up: " + strings.Join(others, ", ")
	}
	if len(r.blocked) >= maxBlocked {
		e.Message += "; files after these are not looked at, since there are so many"
	}
	return &e
}

// blockedFiles remembers which files were found blocked, and as what, so that they are not read again before they change. It ends with the instance, since
// another configuration may be able to read them.
type blockedFiles struct {
	mu    sync.Mutex
	files map[[2]string]blockedAt
}

// blockedAt is a file as it was when it was found blocked at a place.
type blockedAt struct {
	key uint64
	off int64
	blocked
}

func (bs *blockedFiles) put(stream string, e entry, off int64, b blocked) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if bs.files == nil || len(bs.files) >= maxFiles {
		bs.files = map[[2]string]blockedAt{}
	}
	bs.files[[2]string{stream, e.name}] = blockedAt{e.key(), off, b}
}

// at returns why a file is blocked at the place that st tells of, if it is as it was.
func (bs *blockedFiles) at(stream string, e entry, st *state) (blocked, bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b, ok := bs.files[[2]string{stream, e.name}]
	off := int64(0)
	if st != nil {
		off = st.Off
	}
	return b.blocked, ok && b.key == e.key() && b.off == off
}
