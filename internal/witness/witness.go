// Package witness keeps in a folder beside the journal where the journal stood when a
// daemon saw it last, so that one that was put back from a backup is noticed. It
// decides nothing and never opens a journal; the command line calls it.
package witness

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"syncd/jobs"
)

// Note is what is kept of one journal.
type Note struct {
	jobs.Epoch
	// Place names the journal for people, without credentials.
	Place string `json:"place"`
}

// named is what a journal is called for good: its first epoch's id.
var named = regexp.MustCompile(`^[A-Z0-9]{20,40}$`)

// mostNote bounds a note, in bytes.
const mostNote = 4096

// Path is the file that keeps the note of a journal in a folder.
func Path(dir, journal string) string { return filepath.Join(dir, "journal-"+journal+".json") }

// Read returns the note of a journal; a zero one when there is none.
func Read(dir, journal string) (Note, error) {
	var n Note
	if !named.MatchString(journal) {
		return n, fmt.Errorf("the journal's name %q is not what was written", journal)
	}
	path := Path(dir, journal)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case err != nil:
		return n, err
	case info.Size() > mostNote:
		return n, broken(path, fmt.Errorf("it has %d bytes", info.Size()))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return n, err
	}
	if err := json.Unmarshal(b, &n); err != nil {
		return Note{}, broken(path, err)
	}
	if n.Journal != journal || n.ID == "" || n.Number < 1 {
		return Note{}, broken(path, errors.New("it does not name the journal"))
	}
	return n, nil
}

func broken(path string, err error) error {
	return fmt.Errorf("%s is not what syncd has written there (%w); if nobody has put the journal back from a backup, remove the file", path, err)
}

// Write keeps a note, in place of the one that is there. It is durable when it returns:
// after a power cut the file holds this note or the one before.
func Write(dir string, n Note) (err error) {
	if !named.MatchString(n.Journal) {
		return fmt.Errorf("the journal's name %q is not what was written", n.Journal)
	}
	b, err := json.Marshal(n)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".journal-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Rename(f.Name(), Path(dir, n.Journal)); err != nil {
		return err
	}
	d, derr := os.Open(dir)
	if derr != nil {
		return nil // the note is there; its name is durable a little later
	}
	_ = d.Sync()
	return d.Close()
}
