package file

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"unicode/utf8"

	"syncd/connectors"
	"syncd/internal/jsonscan"
)

// maxShown bounds what a dead letter keeps of a line that could not be read, in bytes.
const maxShown = 64 << 10

// read reads records from the file at hand. ended says that the file has no more for now.
func (r *round) read(e entry) (ended bool, err error) {
	if r.reader == nil {
		if ended, err := r.begin(e); ended || err != nil {
			return ended, err
		}
	}
	r.state.Wait = false
	for !r.full() {
		if r.state.Skip {
			if ended, err := r.skip(); ended || err != nil {
				return ended, err
			}
		}
		data, what, err := r.reader.next()
		if err != nil {
			return false, err
		}
		switch what {
		case record:
			r.record(data)
		case long:
			r.problem(data[:min(len(data), maxShown)], fmt.Errorf("longer than %d MiB", maxLine>>20))
			r.state.Skip = true
		case rest:
			if !r.rest(e, data) {
				r.state.Wait = true
				return true, nil
			}
		case nothing:
			return true, nil
		}
	}
	return false, nil
}

// begin finds the first record of the file at hand.
func (r *round) begin(e entry) (ended bool, err error) {
	start, err := beginning(r.file, e.size)
	if err != nil {
		return r.refuse(e, err)
	}
	cut := func(data []byte) int { return bytes.IndexByte(data, '\n') + 1 }
	r.decode = r.stream.jsonDecoder()
	if r.stream.Format == formatCSV {
		delimiter, err := r.stream.CSV.delimiter()
		if err != nil {
			return false, err
		}
		cut = func(data []byte) int { return csvEnd(data, delimiter) }
		columns := r.stream.CSV.NoHeader
		if len(columns) == 0 {
			var ended bool
			if columns, start, ended, err = r.header(e, start, cut, delimiter); ended || err != nil {
				return ended, err
			}
		}
		t, err := r.stream.newTable(columns)
		if err != nil {
			return r.refuse(e, err)
		}
		r.decode = r.stream.csvDecoder(t, delimiter)
		if len(r.stream.CSV.NoHeader) == 0 && r.state.Off < start {
			r.state.Line = 1
		}
	}
	r.state.Off = max(r.state.Off, start)
	r.reader = &reader{f: r.file, off: r.state.Off, end: e.size, cut: cut, max: maxLine}
	return false, nil
}

// beginning is where the text of a file starts: after its byte-order mark.
func beginning(f *os.File, size int64) (int64, error) {
	b := make([]byte, min(size, 3))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return 0, fmt.Errorf("read its beginning: %w", plain(err))
	}
	switch {
	case bytes.Equal(b, []byte("\ufeff")):
		return 3, nil
	case bytes.HasPrefix(b, []byte{0xff, 0xfe}), bytes.HasPrefix(b, []byte{0xfe, 0xff}):
		return 0, errors.New("written in UTF-16; write it in UTF-8")
	}
	return 0, nil
}

// header reads the header line of a CSV file. ended says that it is not there as a whole yet.
func (r *round) header(e entry, start int64, cut func([]byte) int, delimiter byte) (columns []string, end int64, ended bool, err error) {
	h := &reader{f: r.file, off: start, end: min(e.size, start+maxHeader), cut: cut, max: maxHeader}
	data, what, err := h.next()
	switch {
	case err != nil:
		return nil, 0, false, err
	case what == nothing:
		return nil, 0, true, nil
	case what == rest && e.size > h.end || what == long:
		ended, err = r.refuse(e, fmt.Errorf("its header line is longer than %d KiB, or a quote in it does not end", maxHeader>>10))
		return nil, 0, ended, err
	case what == rest && !r.stream.Complete:
		r.state.Wait = true
		return nil, 0, true, nil
	}
	columns, err = csvSplit(trimEnd(data), delimiter, nil)
	if !utf8.Valid(data) {
		err = errNotUTF8
	}
	if err != nil {
		ended, err = r.refuse(e, fmt.Errorf("its header line: %w", err))
		return nil, 0, ended, err
	}
	return columns, start + int64(len(data)), false, nil
}

// refuse passes over a file that cannot be read as a whole, until it changes, and says so in one event.
func (r *round) refuse(e entry, why error) (ended bool, err error) {
	r.page.Events = append(r.page.Events, connectors.Event{Problem: fmt.Sprintf("%s: %v", e.name, why)})
	r.state.Off, r.state.Line = e.size, -1
	return true, nil
}

// record makes an event of one record, if it is one.
func (r *round) record(data []byte) {
	if e, ok := r.decode(trimEnd(data)); ok {
		r.add(e)
	}
	r.taken(data)
}

func (r *round) add(e connectors.Event) {
	if e.Problem != "" {
		e.Problem = r.where() + ": " + e.Problem
	} else if r.memory.from != 0 && !e.ChangedAt.IsZero() && e.ChangedAt.UnixMicro() < r.memory.from {
		return
	}
	r.page.Events = append(r.page.Events, e)
	r.bytes += len(e.Body)
}

func (r *round) taken(data []byte) {
	r.reader.take(len(data))
	r.state.Off = r.reader.off
	if r.state.Line >= 0 {
		r.state.Line += int64(bytes.Count(data, []byte{'\n'}))
	}
}

// where names the place of the record at hand.
func (r *round) where() string {
	if r.state.Line < 0 {
		return fmt.Sprintf("%s, byte %d", r.state.Name, r.reader.off)
	}
	return fmt.Sprintf("%s, line %d", r.state.Name, r.state.Line+1)
}

// problem adds an event for a line that is no record.
func (r *round) problem(line []byte, why error) {
	r.add(broken(line, why))
}

func broken(line []byte, why error) connectors.Event {
	shown := line[:min(len(line), maxShown)]
	return connectors.Event{Body: jsonscan.AppendQuoted(nil, string(shown)), Problem: why.Error()}
}

// skip moves past the rest of a line that is too long.
func (r *round) skip() (ended bool, err error) {
	found, err := r.reader.skipLine()
	r.state.Off = r.reader.off
	if !found || err != nil {
		return !found, err
	}
	r.state.Skip = false
	if r.state.Line >= 0 {
		r.state.Line++
	}
	return false, nil
}

// rest deals with what stands after the last line end, and reports whether it could be used.
func (r *round) rest(e entry, data []byte) bool {
	quoted := bytes.IndexByte(data, '\n') >= 0 // a quoted CSV value that has no end
	rested := r.now.Sub(e.changedAt()) >= quoteRest
	switch {
	case quoted && (r.stream.Complete || rested):
		line := data[:bytes.IndexByte(data, '\n')+1]
		r.problem(trimEnd(line), errors.New("a quoted value does not end"))
		r.taken(line)
		return true
	case r.stream.Complete:
		r.record(data)
		return true
	case r.stream.Format == formatJSONL:
		// A whole object cannot become another one by what is written after it.
		if ev, ok := r.decode(trimEnd(data)); ok && jsonscan.Valid(data) == nil {
			r.add(ev)
			r.taken(data)
			return true
		}
	}
	if rested && r.noted.first(e) {
		r.notes = append(r.notes, fmt.Sprintf("file %s ends within a line, which waits for its line end; set complete: true if such files are finished", e.name))
	}
	return false
}

// trimEnd takes the line end off a record.
func trimEnd(data []byte) []byte {
	data = bytes.TrimSuffix(data, []byte{'\n'})
	return bytes.TrimSuffix(data, []byte{'\r'})
}

func (s *Stream) jsonDecoder() decoder {
	tree := s.paths()
	return func(line []byte) (connectors.Event, bool) {
		line = bytes.Trim(line, " \t\r")
		if len(line) == 0 {
			return connectors.Event{}, false
		}
		var f fields
		if err := tree.pick(line, &f); err != nil {
			return broken(line, fmt.Errorf("not a JSON object: %w", err)), true
		}
		return s.event(&f, line), true
	}
}

func (s *Stream) csvDecoder(t *table, delimiter byte) decoder {
	return func(line []byte) (connectors.Event, bool) {
		if len(line) == 0 {
			return connectors.Event{}, false
		}
		var f fields
		body, err := t.record(line, delimiter, &f)
		if err != nil {
			return broken(line, err), true
		}
		return s.event(&f, body), true
	}
}
