package pgserver

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// ErrNoBinaries means that this machine has no PostgreSQL server programs.
var ErrNoBinaries = errors.New("the PostgreSQL server programs (initdb, pg_ctl, postgres) were found neither in " +
	debianGlob + " nor in PATH; on Debian or Ubuntu: apt-get install postgresql")

// debianGlob is where Debian and Ubuntu put each major version's programs. They are not in PATH there.
const debianGlob = "/usr/lib/postgresql/*/bin"

// FindBinaries returns the folder that holds the newest PostgreSQL server programs of this machine:
// Debian's folders first, then PATH. It returns ErrNoBinaries if there are none.
func FindBinaries() (string, error) {
	return findBinaries(debianGlob, filepath.SplitList(os.Getenv("PATH")))
}

func findBinaries(glob string, path []string) (string, error) {
	dirs, err := filepath.Glob(glob)
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL in %s: %w", glob, err)
	}
	best, bestVersion := "", -1
	for _, dir := range dirs {
		// .../postgresql/15/bin; versions before 10 had two numbers and are too old for us.
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil || version <= bestVersion || !complete(dir) {
			continue
		}
		best, bestVersion = dir, version
	}
	if best != "" {
		return best, nil
	}
	for _, dir := range path {
		if strings.HasPrefix(dir, "/") && complete(dir) {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

// complete reports whether a folder has all the programs that a private server needs. A machine with
// only the client package has psql and pg_dump, but none of these.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, name)); err != nil {
			return false
		}
	}
	return true
}
