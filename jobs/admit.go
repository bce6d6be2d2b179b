package jobs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"syncd/connectors"
	"syncd/internal/mutant"
)

// ErrCursorMoved says that the page was pulled after a cursor that is no longer
// the flow's: it must be pulled again.
var ErrCursorMoved = errors.New("the flow's cursor has moved meanwhile")

// Pair is one record that an event maps to.
type Pair struct {
	Key string
	// Group is what the record is kept in order with, in a flow with order: every.
	Group string
	Body  json.RawMessage
}

// Item is one mapped event on its way into the journal.
type Item struct {
	// SourceID is the source record; "" for one that has none, with Problem set.
	SourceID string
	// Version and Versioned are those of connectors.Event.
	Version   int64
	Versioned bool
	Observed  time.Time
	ChangedAt time.Time
	Gone      bool
	// Log is StreamInfo.Log of the stream.
	Log   bool
	Pairs []Pair
	// Problem says why the event could not be mapped; Raw is then its body.
	Problem string
	Raw     json.RawMessage
	// Unread says that the source's connector has found the problem: what it read, Raw too,
	// is not the record as it stands there, and is never mapped.
	Unread bool
	// Refresh marks the answer to a Request: it makes a new generation even when
	// nothing changed.
	Refresh bool
	// Rejected is set by Admit: the event became a dead letter by it, and was none before.
	Rejected bool
	// DeadLetters are set by Admit in a flow with order: every: those that records of
	// the event became by it although they could be mapped.
	DeadLetters []DeadLetter
}

// DeadLetter names one for the log.
type DeadLetter struct{ Key, Code, Message string }

const (
	// codeMapping is an event that could not be mapped, codeUnread one that could not be read.
	codeMapping = "mapping"
	codeUnread  = "unreadable"
)

// Code is that of an event with a problem.
func (it *Item) Code() string {
	if it.Unread {
		return codeUnread
	}
	return codeMapping
}

// Unread reports whether the row stands for an event that could not be read, so that only
// its source can tell what it is.
func (r *Row) Unread() bool { return r.Unmapped() && r.LastCode == codeUnread }

// hasVersion reports whether the source gave the event a version.
func (it *Item) hasVersion() bool { return it.Versioned || it.Version != 0 }

// Admission is one page of mapped events, or a part of one.
type Admission struct {
	Flow *Flow
	// Part says that more of the page after From follows: the cursor must still be
	// From, and stays there, and so does the count of the page's beginnings.
	Part bool
	// Move says that the cursor goes from From to Next with these items.
	Move       bool
	From, Next json.RawMessage
	// Begin, with Move, says that the mapping of the page after Next begins as soon as
	// this one is admitted, and counts that as BeginPage does: one commit for both.
	Begin bool
	// Epoch is FlowState.Epoch as it was before Items were read; with Part, Move and
	// Requests it must still be so.
	Epoch int64
	Items []Item
	// End says that the source had no more behind Next; only with Move.
	End bool
	// Requests are answered by these items and are removed with them.
	Requests []int64
}

// read reports whether the items were read from the source after the epoch was.
func (ad *Admission) read() bool {
	return ad.Move || ad.Part || len(ad.Requests) > 0 && !mutant.On("answer-of-before")
}

// Admitted counts what became of the pairs of an admission.
type Admitted struct {
	// Events is the number of items, Pairs that of the records they map to.
	Events, Pairs int
	// New rows, changed rows, rows that stay as they are, items older than what is known.
	New, Changed, Unchanged, Older int
	// Gone rows, claims of a key that another record owns, items that could not be mapped.
	Gone, Collided, Rejected int
}

// Add adds o to a.
func (a *Admitted) Add(o Admitted) {
	a.Events += o.Events
	a.Pairs += o.Pairs
	a.New += o.New
	a.Changed += o.Changed
	a.Unchanged += o.Unchanged
	a.Older += o.Older
	a.Gone += o.Gone
	a.Collided += o.Collided
	a.Rejected += o.Rejected
}

// Admit stores a page: every pair upserted by key, keys that a source record no
// longer maps to as gone, the cursor moved; all of it or nothing.
func (j *Journal) Admit(ctx context.Context, ad Admission) (Admitted, error) {
	var sum Admitted
	if mutant.On("cursor-first") {
		j.moveAlone(ctx, &ad)
	}
	err := j.under(ctx, LaneID{Client: ad.Flow.SourceClient}, func(tx Tx, _ string) error {
		fs, err := tx.LockFlow(ctx, ad.Flow.Name)
		if err != nil {
			return err
		}
		if (ad.Move || ad.Part) && !cursorsEqual(fs.Cursor, ad.From) || ad.read() && fs.Epoch != ad.Epoch {
			return ErrCursorMoved
		}
		if err := j.asSplit(ctx, tx, ad.Flow); err != nil {
			return err
		}
		a := &admission{ctx: ctx, tx: tx, flow: ad.Flow, epoch: fs.Epoch, now: j.Now(), doubt: fs.Restored.doubt(j.Now()),
			rows: map[string]*Row{}, sources: map[string]*SourceRecord{}, puts: map[string]bool{},
			patches: map[string]bool{}, touched: map[string]bool{}, waiting: map[string]*claimants{}}
		// What is answered goes first, so that it can be asked again.
		if err := tx.DeleteRequests(ctx, ad.Requests); err != nil {
			return err
		}
		if err := a.load(ad.Items); err != nil {
			return err
		}
		if err := a.lineUp(ad.Items); err != nil {
			return err
		}
		for i := range ad.Items {
			before := a.sum.Rejected
			if err := a.item(&ad.Items[i]); err != nil {
				return err
			}
			ad.Items[i].Rejected = a.sum.Rejected > before
		}
		if err := a.store(); err != nil {
			return err
		}
		sum = a.sum
		news := sum.New+sum.Changed+sum.Gone+sum.Rejected > 0
		if news {
			fs.MovedAt = a.now
		}
		switch {
		case ad.Part && news:
			return tx.SaveFlow(ctx, fs)
		case !ad.Move:
			return nil
		}
		fs.PageStarts, fs.Suspect = 0, ""
		if ad.Begin {
			fs.PageStarts = 1
		}
		fs.ReadAt, fs.Failing = a.now, Failing{}
		if ad.End {
			fs.readToTheEnd(a.now, a.now) // by this daemon, which has begun after the restore
		}
		if !cursorsEqual(fs.Cursor, ad.Next) {
			fs.Cursor = ad.Next
		}
		return tx.SaveFlow(ctx, fs)
	})
	if mutant.On("cursor-alone") {
		j.moveAlone(ctx, &ad)
	}
	if errors.Is(err, ErrCursorMoved) {
		return Admitted{}, ErrCursorMoved
	}
	return sum, wrap(err, "admit a page of flow %s", ad.Flow.Name)
}

// admission is the working set of one page.
type admission struct {
	ctx   context.Context
	tx    Tx
	flow  *Flow
	epoch int64
	now   time.Time
	sum   Admitted
	// doubt is when the journal was put back from a backup, while a row that opens may
	// have been written unknown to it; zero for never.
	doubt time.Time

	rows    map[string]*Row
	sources map[string]*SourceRecord
	puts    map[string]bool  // rows to be stored whole
	patches map[string]bool  // rows to be stored but for their body
	touched map[string]bool  // source records to be stored
	lines   map[string]*line // the groups of the page's events, in a flow with order: every
	claims  map[RowID]int64  // the newest attempt that a claim names; nil until needed
	// waiting are those who claim keys that were let go, in the order in which they get them: read
	// once for a key, because there may be very many, of whom one after the other lets it go.
	waiting map[string]*claimants
}

func (a *admission) load(items []Item) error {
	ids := make([]string, 0, len(items))
	for i := range items {
		if items[i].SourceID != "" && FitsID(items[i].SourceID) {
			ids = append(ids, items[i].SourceID)
		}
	}
	slices.Sort(ids)
	srcs, err := a.tx.Sources(a.ctx, a.flow.Name, slices.Compact(ids))
	if err != nil {
		return err
	}
	var keys []string
	for i := range srcs {
		a.sources[srcs[i].ID] = &srcs[i]
		keys = append(keys, srcs[i].Keys...)
	}
	for i := range items {
		it := &items[i]
		if !FitsID(it.SourceID) {
			it = it.withoutID()
		}
		if it.Problem != "" {
			keys = append(keys, UnmappedKey(it.SourceID, it.Raw))
		}
		for _, p := range it.Pairs {
			keys = append(keys, p.Key)
		}
	}
	return a.loadRows(keys)
}

func (a *admission) loadRows(keys []string) error {
	slices.Sort(keys)
	var ids []RowID
	for _, k := range slices.Compact(keys) {
		if _, ok := a.rows[k]; !ok {
			ids = append(ids, RowID{a.flow.Name, k})
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := a.tx.Rows(a.ctx, ids, false)
	if err != nil {
		return err
	}
	for i := range rows {
		a.rows[rows[i].Key] = &rows[i]
	}
	return nil
}

func (a *admission) store() error {
	// Ids are put in order and not rows: a row is some 600 bytes to move.
	put := make([]Row, 0, len(a.puts))
	for _, k := range slices.Sorted(maps.Keys(a.puts)) {
		a.rows[k].Shard = ShardOf(a.rows[k].EntityKey(), a.flow.Shards)
		put = append(put, *a.rows[k])
	}
	var patch []Row
	for _, k := range slices.Sorted(maps.Keys(a.patches)) {
		if !a.puts[k] {
			a.rows[k].Shard = ShardOf(a.rows[k].EntityKey(), a.flow.Shards)
			patch = append(patch, *a.rows[k])
		}
	}
	srcs := make([]SourceRecord, 0, len(a.touched))
	for _, id := range slices.Sorted(maps.Keys(a.touched)) {
		srcs = append(srcs, *a.sources[id])
	}
	if err := a.tx.PutSources(a.ctx, a.flow.Name, srcs); err != nil {
		return err
	}
	if err := a.tx.PutRows(a.ctx, put); err != nil {
		return err
	}
	return a.tx.PatchRows(a.ctx, patch)
}

// UnmappedKey is the key under which an event that could not be mapped is kept.
// Keys of records never begin with "@".
func UnmappedKey(sourceID string, raw []byte) string {
	if sourceID != "" && len(sourceID) <= 400 {
		return "@" + sourceID
	}
	h := sha256.Sum256(append([]byte(sourceID+"\x00"), raw...))
	return "@?" + hex.EncodeToString(h[:8])
}

// FitsID reports whether an engine can store an id: see MaxID.
func FitsID(id string) bool {
	n := 0
	for i := 0; i < len(id); {
		r, size := utf8.DecodeRuneInString(id[i:])
		if r == utf8.RuneError && size <= 1 || r == 0 || r == 0x1a {
			n += 3 * size
		} else {
			n += size
		}
		i += size
	}
	return n <= MaxID
}

// withoutID is the item of a record whose id cannot be stored: a dead letter
// like that of a record without one.
func (it *Item) withoutID() *Item {
	bad := *it
	bad.SourceID, bad.Pairs, bad.Gone = "", nil, false
	bad.Problem = fmt.Sprintf("the record's id is too long: it has %d bytes, and at most %d can be stored", len(it.SourceID), MaxID)
	if len(bad.Raw) == 0 {
		bad.Raw, _ = json.Marshal(it.SourceID) // a string always has a JSON form
	}
	return &bad
}

// HashBody identifies a canonical body.
func HashBody(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:16]
}

// goneHash stands for the state "not there"; no body has it.
var goneHash = HashBody([]byte("gone"))

// item admits one event.
func (a *admission) item(it *Item) error {
	a.sum.Events++
	a.sum.Pairs += len(it.Pairs)
	if it.SourceID != "" && !FitsID(it.SourceID) {
		it = it.withoutID()
	}
	if it.SourceID == "" {
		a.reject(it, connectors.Stamp{Epoch: a.epoch, Version: it.Version, Observed: micro(it.Observed)})
		return nil
	}
	src, known := a.sources[it.SourceID]
	if !known {
		src = &SourceRecord{ID: it.SourceID, Stamp: connectors.Stamp{Epoch: a.epoch}}
		a.sources[it.SourceID] = src
	}
	if a.flow.Every() {
		return a.event(it, src, known)
	}
	stamp, older := a.stamp(it, src, known)
	if older {
		a.sum.Older++
		return nil
	}
	if it.Problem != "" {
		key := a.reject(it, stamp)
		keys := src.Keys
		if !slices.Contains(keys, key) {
			keys = append(slices.Clone(keys), key)
		}
		a.remember(src, stamp, false, keys)
		return nil
	}
	keys := make([]string, len(it.Pairs))
	for i, p := range it.Pairs {
		keys[i] = p.Key
	}
	old := src.Keys
	renamed, err := a.rename(it, src, stamp, keys)
	if err != nil {
		return err
	}
	switch renamed {
	case renameRefused:
		// Both keys stay this record's, so that the refusal is not forgotten.
		keys = append(keys, a.realKeys(old, it.SourceID)...)
		if err := a.letGo(old, keys, it, stamp); err != nil {
			return err
		}
	default:
		for _, k := range old {
			if !slices.Contains(keys, k) {
				if err := a.vanish(k, it, stamp); err != nil {
					return err
				}
			}
		}
		for _, p := range it.Pairs {
			if err := a.desire(p, it, stamp); err != nil {
				return err
			}
		}
	}
	a.remember(src, stamp, it.Gone, keys)
	return nil
}

// letGo ends what a source record has besides its real keys when it maps again: its
// dead letters, a key that was refused before, and claims to keys of others.
func (a *admission) letGo(old, keys []string, it *Item, stamp connectors.Stamp) error {
	for _, k := range old {
		if !slices.Contains(keys, k) {
			if err := a.vanish(k, it, stamp); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *admission) remember(src *SourceRecord, stamp connectors.Stamp, gone bool, keys []string) {
	if src.Stamp == stamp && src.Gone == gone && slices.Equal(src.Keys, keys) && len(keys) > 0 {
		return
	}
	src.Stamp, src.Gone, src.Keys = stamp, gone, keys
	a.touched[src.ID] = true
}

// stamp places an event in the order of its record's states, and says whether
// it is older than what is known.
//
// A missing version counts as the known one, so that the later reading wins. A
// record seen gone takes the greatest version known, and comes back when it is
// read alive later, even at a lower version (an undelete moves no timestamp), and
// never by a reading from before, whatever its version: it was gone since. An
// entry of a log comes back only by its version.
func (a *admission) stamp(it *Item, src *SourceRecord, known bool) (connectors.Stamp, bool) {
	st := connectors.Stamp{Epoch: a.epoch, Version: it.Version, Observed: micro(it.Observed)}
	if !known {
		return st, false
	}
	if !it.hasVersion() && st.Epoch == src.Stamp.Epoch {
		st.Version = src.Stamp.Version
	}
	if st.Epoch == src.Stamp.Epoch && src.Gone && !it.Gone && !it.Log {
		switch st.Observed.Compare(src.Stamp.Observed) {
		case +1:
			st.Version = max(st.Version, src.Stamp.Version)
		case -1:
			return st, true
		}
	}
	return st, st.Compare(src.Stamp) < 0 && !mutant.On("no-version-guard")
}

// reject keeps an event that could not be mapped as a dead row of its own.
func (a *admission) reject(it *Item, stamp connectors.Stamp) string {
	key := UnmappedKey(it.SourceID, it.Raw)
	hash := HashBody(append([]byte(it.Problem+"\x00"), it.Raw...))
	row := a.rows[key]
	if row != nil && bytes.Equal(row.Hash, hash) && row.State != Done && !it.Refresh {
		a.sum.Unchanged++
		return key
	}
	if row != nil && bytes.Equal(row.Hash, hash) && row.Reason == ReasonDiscarded && row.Desired.Version >= stamp.Version {
		a.sum.Unchanged++
		return key
	}
	if row == nil {
		row = &Row{RowID: RowID{a.flow.Name, key}, Client: a.flow.Client, Entity: a.flow.Entity}
		a.rows[key] = row
	}
	row.SourceID = it.SourceID
	row.Generation++
	row.Desired, row.ChangedAt, row.ReadAt = stamp, micro(it.ChangedAt), stamp.Observed
	row.Hash, row.Body, row.Gone = hash, it.Raw, false
	row.State, row.Reason = Dead, ReasonMapping
	row.LastClass, row.LastCode, row.LastMessage, row.LastAt = connectors.Invalid, it.Code(), clip(it.Problem), a.now
	row.OpenSince, row.DueAt = a.now, a.now
	a.puts[key] = true
	a.sum.Rejected++
	return key
}
