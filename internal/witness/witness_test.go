package witness

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

const journal = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

func note(mark int64) Note {
	return Note{Epoch: jobs.Epoch{Journal: journal, ID: "E", Number: 2, Mark: mark, At: time.Date(2026, 11, 30, 8, 0, 0, 1000, time.UTC)}, Place: "sqlite syncd.db"}
}

func TestTheNewestNoteIsReadAndNothingElseIsLeft(t *testing.T) {
	dir := t.TempDir()
	if n, err := Read(dir, journal); err != nil || n.Known() {
		t.Fatalf("an empty folder: %+v, %v", n, err)
	}
	for mark := range int64(3) {
		if err := Write(dir, note(mark)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := Read(dir, journal); err != nil || n != note(2) {
		t.Fatalf("read %+v, %v", n, err)
	}
	if n, err := Read(dir, strings.Repeat("B", 26)); err != nil || n.Known() {
		t.Fatalf("another journal's: %+v, %v", n, err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Fatalf("left %v", all)
	}
}

func TestANoteThatIsNoneIsRefused(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "cut": `{"journal":"AB`, "another's": `{"journal":"X","epoch":"E","number":1}`, "long": strings.Repeat(" ", 5000)} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(Path(dir, journal), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(dir, journal); err == nil || !strings.Contains(err.Error(), "is not what syncd has written there") {
				t.Fatalf("read: %v", err)
			}
		})
	}
	if _, err := Read(t.TempDir(), "../evil"); err == nil {
		t.Fatal("a name that leads elsewhere is taken")
	}
}

func TestAFolderThatCannotBeWrittenIsTold(t *testing.T) {
	if err := Write(filepath.Join(t.TempDir(), "absent"), note(1)); err == nil {
		t.Fatal("nothing was written, and nothing told")
	}
}
