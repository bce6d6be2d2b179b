package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/ratelimit"
)

const (
	// pageBytes bounds the bodies of a page together; the record that reaches it is the page's last.
	pageBytes = 8 << 20
	// maxNotes bounds the notes of a page.
	maxNotes = 20
	// quoteRest is how long a file must have been left alone, or a quoted CSV value must have stayed open while it grew, before a value that runs over
	// line ends and has no end is taken for a mistake rather than for one that is still being written.
	quoteRest = time.Minute
)

// round is one walk over the files of a stream, from one listing. Between two pages it is kept in memory, so that going on neither
// lists the folder nor reads from the disk again; it can always be made anew from the cursor.
type round struct {
	name   string
	stream *Stream
	root   *os.Root
	now    time.Time
	memory *memory
	all    []entry // what the listing found
	files  []entry // those still to visit; the first is at hand
	noted  *noted
	notes  []string
	known  *blockedFiles
	// blocked are the files that this round could not read, or not further.
	blocked []blocked

	// Of the file at hand, when it is open.
	file      *os.File
	state     *state
	reader    *reader
	decode    decoder
	csv       bool
	delimiter byte

	page  connectors.Page
	bytes int
	limit int
	moved bool // past something in a file, be it no record; or onto a file that is newly blocked
	was   bool // the file at hand was blocked when it was last read
	over  bool // the page is the round's last
}

// decoder makes the event of one record; line is without its line end. A blank line makes none.
type decoder func(line []byte) (connectors.Event, bool)

// Pull returns the next page of a stream. Its records stand in the order of the files' names and of their lines.
func (in *instance) Pull(ctx context.Context, req connectors.PullRequest) (connectors.Page, error) {
	st, ok := in.settings.Files[req.Stream]
	if !ok {
		return connectors.Page{}, in.fail(req.Stream, connectors.Errorf(connectors.Invalid, "unknown_stream", "there is no such stream"))
	}
	pass, err := in.env.Gate.Enter(ctx, ratelimit.Ask{Shape: req.Stream})
	if err != nil {
		return connectors.Page{}, in.fail(req.Stream, gateError(err))
	}
	defer pass.Drop(true)
	observed := in.env.Now()
	r, err := in.resume(req, st)
	if err == nil {
		r.now, r.limit = observed, max(req.Limit, 1)
		err = r.run(ctx, req.Cursor == nil)
	}
	if err != nil {
		if r != nil {
			r.close()
		}
		return connectors.Page{}, in.fail(req.Stream, err)
	}
	page := r.page
	page.Observed = observed
	page.Notes = append(page.Notes, r.notes...)
	if len(page.Notes) > maxNotes {
		page.Notes = append(page.Notes[:maxNotes:maxNotes], fmt.Sprintf("and %d more", len(page.Notes)-maxNotes))
	}
	r.page, r.notes, r.bytes, r.moved = connectors.Page{}, nil, 0, false
	if page.More && !r.over {
		in.keep(req.Stream, page.Next, r)
	} else {
		r.close()
	}
	return page, nil
}

// resume returns the round that a cursor leads on with: one kept in memory, or a new one.
func (in *instance) resume(req connectors.PullRequest, st *Stream) (*round, error) {
	if r := in.kept(req.Stream, req.Cursor); r != nil {
		return r, nil
	}
	m := newMemory()
	if req.Cursor != nil {
		var err error
		if m, err = readCursor(req.Cursor); err != nil {
			return nil, connectors.Errorf(connectors.Invalid, "cursor", "%v", err)
		}
	}
	root, err := os.OpenRoot(in.dir)
	if err != nil {
		return nil, unreadable(fmt.Errorf("open the folder %s: %w", in.dir, plain(err)))
	}
	r := &round{name: req.Stream, stream: st, root: root, memory: m, noted: &in.noted, known: &in.known}
	if r.all, r.notes, err = st.list(root); err != nil {
		r.close()
		return nil, unreadable(err)
	}
	if req.Cursor == nil && !req.Start.All {
		m.from = req.Start.From.UnixMicro()
		r.passOver(req.Start.From)
	}
	// A file before At was visited in this round already. One that has vanished meanwhile needs nothing.
	if i := slices.IndexFunc(r.all, func(e entry) bool { return e.name >= m.at }); i >= 0 {
		r.files = r.all[i:]
	}
	return r, nil
}

// passOver takes files that last changed before from as read, up to their last line end.
func (r *round) passOver(from time.Time) {
	for _, e := range r.all {
		if !e.changedAt().Before(from) {
			continue
		}
		if err := r.passFile(e); err != nil {
			r.notes = append(r.notes, fmt.Sprintf("file %s is read from its beginning: %v", e.name, err))
		}
	}
}

func (r *round) passFile(e entry) error {
	f, err := open(r.root, e.name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	end, err := lastLineEnd(f, e.size)
	if err != nil {
		return err
	}
	st := &state{Name: e.name, Inode: e.inode, Off: end, Line: -1, Size: e.size, Changed: e.changed}
	if r.stream.Complete {
		st.Off = e.size
	}
	if err := st.remember(f); err != nil {
		return err
	}
	r.memory.states[e.name] = st
	return nil
}

// run fills a page. A round that met files which cannot be read brings what there is in the others, says that there is more, and fails when it has nothing
// left to bring. first says that there is no cursor yet: then there is always a page, for the start that it keeps.
func (r *round) run(ctx context.Context, first bool) error {
	for len(r.files) > 0 && !r.full() && len(r.blocked) < maxBlocked {
		if err := ctx.Err(); err != nil {
			return gateError(err)
		}
		r.memory.at = r.files[0].name
		if err := r.visit(r.files[0]); err != nil {
			if r.stream.one() {
				return unreadable(err)
			}
			if errors.Is(err, fs.ErrNotExist) { // it has gone since the listing, and with it what stood in it
				r.notes = append(r.notes, fmt.Sprintf("file %s vanished before it was read", r.files[0].name))
				r.leave()
				continue
			}
			r.blocked = append(r.blocked, blocked{r.files[0].name, unreadable(fmt.Errorf("file %s cannot be read: %w", r.files[0].name, err))})
			r.leave()
		}
	}
	if r.over = len(r.files) == 0 || len(r.blocked) >= maxBlocked; r.over {
		r.memory.at = ""
		r.memory.forget(r.all)
		if len(r.blocked) > 0 && len(r.page.Events) == 0 && !r.moved && !first {
			return r.failing()
		}
	}
	r.page.More = !r.over || len(r.blocked) > 0
	r.page.Next = r.memory.write()
	return nil
}

func (r *round) full() bool { return len(r.page.Events) >= r.limit || r.bytes >= pageBytes }

// leave goes on to the next file.
func (r *round) leave() {
	if r.file != nil {
		_ = r.file.Close()
	}
	r.file, r.state, r.reader, r.decode = nil, nil, nil, nil
	r.files = r.files[1:]
}

func (r *round) close() {
	if r.file != nil {
		_ = r.file.Close()
		r.file = nil
	}
	_ = r.root.Close()
}

// one reports whether the stream is a single named file.
func (s *Stream) one() bool { return !bytes.ContainsAny([]byte(s.Path), `*?[`) }

// visit reads from one file until the page is full or the file is at its end.
func (r *round) visit(e entry) error {
	if r.file == nil {
		something, err := r.open(e)
		if err != nil {
			return err
		}
		if !something {
			r.leave()
			return nil
		}
	}
	ended, err := r.read(e)
	if err != nil && !errors.Is(err, errShorter) {
		return err
	}
	if err == nil {
		if err = r.state.remember(r.file); err != nil {
			return err
		}
	}
	switch {
	case err != nil:
		// It was cut, or is being written anew: the next round sees which.
		r.leave()
	case ended:
		r.state.Size, r.state.Changed = e.size, e.changed
		r.leave()
	}
	return nil
}

// open opens a file if there is anything new in it, and finds where to go on.
func (r *round) open(e entry) (something bool, err error) {
	st := r.memory.states[e.name]
	unchanged := st != nil && st.Inode == e.inode && st.Size == e.size && st.Changed == e.changed
	if r.memory.done[e.key()] || unchanged && !st.Wait && !st.Blocked {
		return false, nil
	}
	if b, ok := r.known.at(r.name, e, st); ok {
		r.blocked = append(r.blocked, b)
		return false, nil
	}
	f, err := open(r.root, e.name)
	if err != nil {
		return false, err
	}
	same := unchanged
	if !same {
		same, err = st.same(e, f)
	}
	if err != nil {
		_ = f.Close()
		return false, err
	}
	if !same {
		st = &state{Name: e.name, Inode: e.inode}
	}
	r.memory.states[e.name] = st
	r.file, r.state = f, st
	return true, nil
}

// same reports whether a listed file is the one that the state tells of, perhaps grown. If not, it is read from its beginning; records
// that come a second time by that do no harm.
func (st *state) same(e entry, f *os.File) (bool, error) {
	if st == nil || st.Inode != e.inode || e.size < st.Off {
		return false, nil
	}
	if st.Size == e.size && st.Changed != 0 {
		return false, nil // as long as it was and yet written to
	}
	h, err := prefix(f, st.PrefixLen)
	return h == st.Prefix || st.PrefixLen == 0, err
}

// remember keeps the hash of the beginning of the file, as far as it was read.
func (st *state) remember(f *os.File) error {
	n := int(min(st.Off, prefixLen))
	if n == st.PrefixLen && n > 0 {
		return nil
	}
	h, err := prefix(f, n)
	if err != nil {
		return err
	}
	st.PrefixLen, st.Prefix = n, h
	return nil
}

// lastLineEnd returns the position after the last line end in the first size bytes of a file.
func lastLineEnd(f *os.File, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for end := size; end > 0; {
		n := int(min(end, int64(len(buf))))
		if got, err := f.ReadAt(buf[:n], end-int64(n)); got < n {
			return 0, fmt.Errorf("look for its last line end: %w", plain(err))
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - int64(n) + int64(i) + 1, nil
		}
		end -= int64(n)
	}
	return 0, nil
}

// unreadable makes an error of a source out of one of the disk. What cannot be read now may be readable later: a share that comes back, a
// file put in place.
func unreadable(err error) *connectors.Error {
	var e *connectors.Error
	if errors.As(err, &e) {
		return e
	}
	code := "io"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		code = "not_found"
	case errors.Is(err, fs.ErrPermission):
		code = "permission"
	}
	e = connectors.Errorf(connectors.Transient, code, "%v", err)
	e.Err = err
	return e
}
