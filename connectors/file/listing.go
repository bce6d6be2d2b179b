package file

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"syncd/connectors"
)

// maxName bounds the path of a file below dir, in bytes.
const maxName = 512

// list finds the files of a stream, in the order of their names. Its notes tell of files that were passed over.
func (s *Stream) list(root *os.Root) (entries []entry, notes []string, err error) {
	names := []string{s.Path}
	pattern := strings.ContainsAny(s.Path, `*?[`)
	if pattern {
		if names, err = fs.Glob(root.FS(), s.Path); err != nil {
			return nil, nil, fmt.Errorf("look for %s: %w", s.Path, plain(err))
		}
		slices.Sort(names)
	}
	hidden := strings.HasPrefix(path.Base(s.Path), ".")
	for _, name := range names {
		if strings.HasPrefix(path.Base(name), ".") && !hidden {
			continue
		}
		if len(name) > maxName || !utf8.ValidString(name) {
			notes = append(notes, fmt.Sprintf("file %.60q is passed over: its name is not UTF-8 or longer than %d bytes", name, maxName))
			continue
		}
		info, err := root.Stat(name)
		switch {
		case pattern && errors.Is(err, fs.ErrNotExist):
			continue // gone since the look
		case err != nil && !pattern:
			return nil, nil, fmt.Errorf("look at %s: %w", name, plain(err))
		case err != nil:
			notes = append(notes, fmt.Sprintf("file %s is passed over: %v", name, plain(err)))
			continue
		case pattern && info.IsDir():
			continue
		case !info.Mode().IsRegular() && !pattern:
			return nil, nil, fmt.Errorf("%s is not a regular file", name)
		case !info.Mode().IsRegular():
			notes = append(notes, fmt.Sprintf("file %s is passed over: it is not a regular file", name))
			continue
		}
		entries = append(entries, entry{name: name, inode: inode(info), size: info.Size(), changed: info.ModTime().UnixNano()})
	}
	if len(entries) > maxFiles {
		return nil, nil, connectors.Errorf(connectors.Invalid, "too_many_files",
			"%d files match %s and at most %d can be looked after; move away those that are done, or split the stream by narrower patterns", len(entries), s.Path, maxFiles)
	}
	return entries, notes, nil
}

// plain is the cause in an error of package os, without the path, which the caller names already.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// open opens a listed file for reading.
func open(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, openFlags, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, plain(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("open %s: %w", name, plain(err))
	}
	return f, nil
}

// prefixLen is how much of a file's beginning is remembered to tell it from another, in bytes.
const prefixLen = 4096

// prefix is the hash of the first n bytes of a file.
func prefix(f io.ReaderAt, n int) (uint64, error) {
	b := make([]byte, n)
	if got, err := f.ReadAt(b, 0); got < n {
		if err == io.EOF {
			return 0, nil // shorter than it was: not the same file
		}
		return 0, fmt.Errorf("read its beginning: %w", plain(err))
	}
	return hashOf(b), nil
}

func hashOf(b []byte) uint64 {
	h := fnv.New64a()
	_, _ = h.Write(b)
	return h.Sum64()
}
