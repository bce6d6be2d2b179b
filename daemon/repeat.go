package daemon

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"sync"
	"time"

	"syncd/connectors"
)

// repeat knows the last page of a flow that left the cursor where it was. Most
// sources tell their newest records again at every poll, because a reading
// overlaps the one before; a page that says the same once more changes nothing
// and is not worth two durable writes.
type repeat struct {
	mu     sync.Mutex
	known  bool
	digest [sha256.Size]byte
	read   time.Time // when that page was read
	held   int
}

// again reports whether the page read at observed is the known one, so that it
// can be left out. Within a flow's max_age it is admitted now and then all the
// same: its records count as read then.
func (r *repeat) again(d [sha256.Size]byte, observed time.Time, maxAge time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known && r.held == 0 && r.digest == d && (maxAge == 0 || observed.Sub(r.read) < maxAge/4)
}

// admitted notes a page that is in the journal now.
func (r *repeat) admitted(d [sha256.Size]byte, observed time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known, r.digest, r.read = r.held == 0, d, observed
}

// hold keeps pages from being left out until the returned function is called:
// while a record is read by itself, each reading has to be in the journal with
// its time, because the later one wins.
func (r *repeat) hold() func() {
	r.mu.Lock()
	r.held++
	r.mu.Unlock()
	return func() {
		r.mu.Lock()
		r.held--
		r.known = false
		r.mu.Unlock()
	}
}

// digestOf identifies what a page says within a source epoch: its events, and
// nothing of when it was read.
func digestOf(epoch int64, p connectors.Page) [sha256.Size]byte {
	h := sha256.New()
	put(h, binary.LittleEndian.AppendUint64(nil, uint64(epoch)))
	for _, ev := range p.Events {
		put(h, []byte(ev.SourceID))
		put(h, binary.LittleEndian.AppendUint64(nil, uint64(ev.Version)))
		put(h, binary.LittleEndian.AppendUint64(nil, uint64(ev.ChangedAt.UnixMicro())))
		if ev.Versioned {
			put(h, []byte("versioned"))
		}
		if ev.Gone {
			put(h, []byte("gone"))
		}
		put(h, []byte(ev.Problem))
		put(h, ev.Body)
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// put writes b with its length, so that no two lists of texts look the same.
func put(h hash.Hash, b []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(b))))
	h.Write(b)
}
