package file

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

const (
	// maxFiles bounds the files that one stream looks after. Their memory has to fit a cursor.
	maxFiles = 4000
	// maxDetail bounds, in bytes, what a cursor says of files one by one. Of the others that are read to their end it keeps eight bytes
	// each: enough to see that they are as they were.
	maxDetail = 16 << 10
)

// state says how far one file was read. Its JSON names are short because there are many of them.
type state struct {
	Name  string `json:"n"`
	Inode uint64 `json:"i,omitempty"`
	// Off is where the next record begins, and Line the number of lines before it; -1 when they were not counted.
	Off  int64 `json:"o"`
	Line int64 `json:"l"`
	// PrefixLen and Prefix are the length and the hash of the file's beginning: a file written anew in place has another one.
	PrefixLen int    `json:"p,omitempty"`
	Prefix    uint64 `json:"h,omitempty,string"`
	// Skip says that Off lies inside a line that is too long.
	Skip bool `json:"s,omitempty"`
	// Wait says that something stands after Off that may be half written, to be looked at again although the file does not change.
	Wait bool `json:"w,omitempty"`
	// Blocked says that what stands at Off must be mended before the file can be read on.
	Blocked bool `json:"b,omitempty"`
	// Size and Changed are those of the file when it was last read to its end; 0 before.
	Size    int64 `json:"z,omitempty"`
	Changed int64 `json:"m,omitempty"` // ns since 1970
}

// cursor is what a stream remembers between two pages.
type cursor struct {
	V int `json:"v"`
	// At is the file to go on with in this round; "" begins a new one.
	At string `json:"at,omitempty"`
	// From drops records that tell an earlier time of change; µs since 1970, 0 for none.
	From int64   `json:"from,omitempty"`
	Few  []state `json:"files,omitempty"`
	Many string  `json:"done,omitempty"`
}

// memory is the cursor as we work with it.
type memory struct {
	at     string
	from   int64
	states map[string]*state
	done   map[uint64]bool
}

func readCursor(raw json.RawMessage) (*memory, error) {
	var c cursor
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("the cursor cannot be read: %w", err)
	}
	if c.V != 1 {
		return nil, fmt.Errorf("the cursor is of version %d, which this syncd does not know", c.V)
	}
	blob, err := base64.RawStdEncoding.DecodeString(c.Many)
	if err != nil || len(blob)%8 != 0 {
		return nil, errors.New("the cursor's list of files that are done cannot be read")
	}
	m := &memory{at: c.At, from: c.From, states: make(map[string]*state, len(c.Few)), done: make(map[uint64]bool, len(blob)/8)}
	for i := range c.Few {
		m.states[c.Few[i].Name] = &c.Few[i]
	}
	for ; len(blob) > 0; blob = blob[8:] {
		m.done[binary.BigEndian.Uint64(blob)] = true
	}
	return m, nil
}

func newMemory() *memory { return &memory{states: map[string]*state{}, done: map[uint64]bool{}} }

// write makes the cursor. Files read to their end are told in detail, newest first, as long as there is room; the one at hand always is.
func (m *memory) write() json.RawMessage {
	m.shorten()
	c := cursor{V: 1, At: m.at, From: m.from}
	for _, st := range m.states {
		c.Few = append(c.Few, *st)
	}
	slices.SortFunc(c.Few, func(a, b state) int { return cmp.Compare(a.Name, b.Name) })
	keys := make([]uint64, 0, len(m.done))
	for k := range m.done {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	blob := make([]byte, 0, 8*len(keys))
	for _, k := range keys {
		blob = binary.BigEndian.AppendUint64(blob, k)
	}
	c.Many = base64.RawStdEncoding.EncodeToString(blob)
	raw, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("file: write a cursor of plain fields: %v", err))
	}
	return raw
}

// shorten moves the longest unchanged files from the detailed list to the short one until the detail fits.
func (m *memory) shorten() {
	total := 0
	for _, st := range m.states {
		total += st.cost()
	}
	if total <= maxDetail {
		return
	}
	var ended []*state
	for _, st := range m.states {
		if st.Changed != 0 && st.Name != m.at && !st.Blocked { // a blocked one would be taken for read
			ended = append(ended, st)
		}
	}
	slices.SortFunc(ended, func(a, b *state) int {
		return cmp.Or(cmp.Compare(order(a.Wait), order(b.Wait)), cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Name, b.Name))
	})
	for _, st := range ended {
		if total <= maxDetail {
			return
		}
		total -= st.cost()
		m.done[doneKey(st.Name, st.Inode, st.Size, st.Changed)] = true
		delete(m.states, st.Name)
	}
}

// order puts what is not flagged first.
func order(flag bool) int {
	if flag {
		return 1
	}
	return 0
}

// cost is at least what a state takes in the cursor, in bytes.
func (st *state) cost() int { return 6*len(st.Name) + 160 }

// forget drops what is known of files that are not among present, when a round is over.
func (m *memory) forget(present []entry) {
	names := make(map[string]bool, len(present))
	keys := make(map[uint64]bool, len(m.done))
	for _, e := range present {
		names[e.name] = true
		if k := e.key(); m.done[k] {
			keys[k] = true
		}
	}
	for name := range m.states {
		if !names[name] {
			delete(m.states, name)
		}
	}
	m.done = keys
}

// doneKey stands for a file as it was when it had been read to its end.
func doneKey(name string, inode uint64, size, changed int64) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	var b [25]byte // a zero byte ends the name
	binary.BigEndian.PutUint64(b[1:], inode)
	binary.BigEndian.PutUint64(b[9:], uint64(size))
	binary.BigEndian.PutUint64(b[17:], uint64(changed))
	_, _ = h.Write(b[:])
	return h.Sum64()
}

// entry is a file of the folder as a listing found it.
type entry struct {
	name    string
	inode   uint64
	size    int64
	changed int64 // ns since 1970
}

func (e entry) key() uint64 { return doneKey(e.name, e.inode, e.size, e.changed) }

func (e entry) changedAt() time.Time { return time.Unix(0, e.changed).UTC() }
