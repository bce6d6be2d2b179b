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
		r.was, r.state.Blocked = r.state.Blocked, false
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
			if r.astray(data) {
				r.stop(e, data, "which ends over a line end and is followed by something else than the next value")
				return true, nil
			}
			r.record(data)
		case long:
			if r.csv && bytes.IndexByte(data, '\n') >= 0 {
				r.stop(e, data, fmt.Sprintf("which does not end within %d MiB", maxLine>>20))
				return true, nil
			}
			r.problem(data[:min(len(data), maxShown)], fmt.Errorf("longer than %d MiB", maxLine>>20))
			r.state.Skip = true
		case rest:
			if taken, ended := r.rest(e, data); !taken {
				r.state.Wait = !ended
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
	var not notTextError
	switch {
	case errors.As(err, &not):
		r.block(e, notText, "%s: %v", e.name, err)
		return true, nil
	case err != nil:
		return false, err
	}
	cut := func(data []byte) int { return bytes.IndexByte(data, '\n') + 1 }
	r.decode = r.stream.jsonDecoder()
	if r.stream.Format == formatCSV {
		delimiter, err := r.stream.CSV.delimiter()
		if err != nil {
			return false, err
		}
		r.csv, r.delimiter = true, delimiter
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
			r.block(e, badTable, "%s: %v", e.name, err)
			return true, nil
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

// foreign are the beginnings of files that are no text, and what to say of them.
var foreign = []struct{ begins, is string }{
	{"\xff\xfe", "written in UTF-16; write it in UTF-8"},
	{"\xfe\xff", "written in UTF-16; write it in UTF-8"},
	{"\x1f\x8b", "compressed by gzip; unpack it"},
	{"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it"},
	{"\xfd7zXZ\x00", "compressed by xz; unpack it"},
	{"BZh", "compressed by bzip2; unpack it"},
	{"PK\x03\x04", "a ZIP archive or a spreadsheet; unpack it, or save it as CSV in UTF-8"},
}

// notTextError says that a file is no text that can be read.
type notTextError string

func (e notTextError) Error() string { return string(e) }

// beginning is where the text of a file starts: after its byte-order mark.
func beginning(f *os.File, size int64) (int64, error) {
	b := make([]byte, min(size, 512))
	if n, err := f.ReadAt(b, 0); n < len(b) {
		return 0, fmt.Errorf("read its beginning: %w", plain(err))
	}
	for _, k := range foreign {
		if bytes.HasPrefix(b, []byte(k.begins)) {
			return 0, notTextError(k.is)
		}
	}
	if 4*bytes.Count(b, []byte{0}) > len(b) {
		return 0, notTextError("not a text in UTF-8: it holds the character U+0000, as UTF-16 does; write it in UTF-8")
	}
	if bytes.HasPrefix(b, []byte("\ufeff")) {
		return 3, nil
	}
	return 0, nil
}

// header reads the header line of a CSV file. ended says that it is not there as a whole yet.
func (r *round) header(e entry, start int64, cut func([]byte) int, delimiter byte) (columns []string, end int64, ended bool, err error) {
	h := &reader{f: r.file, off: start, end: min(e.size, start+maxHeader), cut: cut, max: maxHeader}
	data, what, err := h.next()
	refused := func(why error) ([]string, int64, bool, error) {
		r.block(e, badTable, "%s: %v", e.name, why)
		return nil, 0, true, nil
	}
	finished := r.stream.Complete || r.rested(e)
	switch {
	case err != nil:
		return nil, 0, false, err
	case what == nothing:
		return nil, 0, true, nil
	case what == rest && finished && bytes.IndexByte(data, '\n') >= 0:
		return refused(errors.New("its header line: a quote in it does not end"))
	case what == rest && e.size > h.end || what == long:
		return refused(fmt.Errorf("its header line is longer than %d KiB, or a quote in it does not end", maxHeader>>10))
	case finished && bytes.IndexByte(trimEnd(data), '\r') >= 0 && bytes.IndexByte(data, '"') < 0:
		return refused(errOnlyCR)
	case what == rest && !r.stream.Complete:
		r.endsWithin(e)
		r.state.Wait = true
		return nil, 0, true, nil
	}
	columns, err = csvSplit(trimEnd(data), delimiter, nil)
	switch {
	case !utf8.Valid(data):
		err = errNotUTF8
	case err == nil && len(columns) == 1 && columns[0] == "":
		err = errors.New("it is empty; name the columns in the first line, or in no_header")
	}
	if err != nil {
		return refused(fmt.Errorf("its header line: %w", err))
	}
	return columns, start + int64(len(data)), false, nil
}

var errOnlyCR = errors.New("its lines end in CR alone, as no program of today writes them; write it with LF or CRLF")

// rested reports whether a file was left alone for so long that what stands in it is finished.
func (r *round) rested(e entry) bool { return r.now.Sub(e.changedAt()) >= quoteRest }

// endsWithin tells once of a file that ends within a line and has rested.
func (r *round) endsWithin(e entry) {
	if r.rested(e) && r.noted.first(e) {
		r.notes = append(r.notes, fmt.Sprintf("file %s ends within a line, which waits for its line end; set complete: true if such files are finished", e.name))
	}
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
	r.state.Off, r.moved = r.reader.off, true
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
	r.moved = r.moved || r.state.Off != r.reader.off
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

// rest deals with what stands after the last line end. taken says that it could be used, ended that the file can go no further as it is.
func (r *round) rest(e entry, data []byte) (taken, ended bool) {
	if bytes.IndexByte(data, '\n') >= 0 { // a quoted CSV value that has no end
		if r.stream.Complete || r.was || r.rested(e) || r.noted.open(e.name, r.reader.off, r.now) >= quoteRest {
			r.stop(e, data, "which does not end")
			return false, true
		}
		return false, false
	}
	if (r.stream.Complete || r.rested(e)) && bytes.IndexByte(data[:len(data)-1], '\r') >= 0 && !(r.csv && bytes.IndexByte(data, '"') >= 0) {
		r.block(e, notText, "%s: %v", r.where(), errOnlyCR)
		return false, true
	}
	switch {
	case r.stream.Complete:
		r.record(data)
		return true, false
	case r.stream.Format == formatJSONL:
		// A whole object cannot become another one by what is written after it.
		if ev, ok := r.decode(trimEnd(data)); ok && jsonscan.Valid(data) == nil {
			r.add(ev)
			r.taken(data)
			return true, false
		}
	}
	r.endsWithin(e)
	return false, false
}

// astray reports whether a CSV record runs over line ends by a quote that closes where no value can end: then it is likely that an earlier quote was never
// closed, and that the lines between are records.
func (r *round) astray(data []byte) bool {
	data = trimEnd(data)
	return r.csv && bytes.IndexByte(data, '\n') >= 0 && quoteAstray(data, r.delimiter) >= 0
}

// stop ends the reading of a file before a record in which a quote leads astray: which of the lines that follow are records, and which are text, only a person
// can tell.
func (r *round) stop(e entry, data []byte, how string) {
	at := quoteAstray(data, r.delimiter)
	r.block(e, openQuote, "%s: a quote opens a value here %s; nothing from this record on is read until the file is mended: take the quote out, or double it inside a quoted value",
		r.place(data, at), how)
}

// place names a place in the record at hand: its line, and the character in it.
func (r *round) place(data []byte, at int) string {
	if at < 0 {
		return r.where()
	}
	if r.state.Line < 0 {
		return fmt.Sprintf("%s, byte %d", r.state.Name, r.reader.off+int64(at))
	}
	before := data[:at]
	line := r.state.Line + 1 + int64(bytes.Count(before, []byte{'\n'}))
	return fmt.Sprintf("%s, line %d, column %d", r.state.Name, line, utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])+1)
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
