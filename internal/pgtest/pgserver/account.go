package pgserver

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is who the server runs as. The zero value is the current user.
type account struct {
	credential *syscall.Credential
}

// serverAccount picks the account: PostgreSQL refuses to run as root, so root hands over to "postgres".
func serverAccount() (account, error) {
	if os.Geteuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return account{}, fmt.Errorf("PostgreSQL does not run as root, and this machine has no user to run it as: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user postgres has the id %q: %w", u.Uid, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return account{}, fmt.Errorf("user postgres has the group %q: %w", u.Gid, err)
	}
	return account{credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// makeFolder creates a private folder that belongs to the account, below the first of the parents that
// the account can pass through.
func (a account) makeFolder(parents ...string) (string, error) {
	parent := ""
	for _, p := range parents {
		if a.credential == nil || passable(p) {
			parent = p
			break
		}
	}
	if parent == "" {
		return "", fmt.Errorf("none of the temporary folders %q can be passed through by user postgres; set TMPDIR to one that can (chmod o+x)", parents)
	}
	dir, err := os.MkdirTemp(parent, "syncd-pg-")
	if err != nil {
		return "", fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if a.credential != nil {
		if err := os.Chown(dir, int(a.credential.Uid), int(a.credential.Gid)); err != nil {
			_ = os.Remove(dir)
			return "", fmt.Errorf("give %s to user postgres: %w", dir, err)
		}
	}
	return dir, nil
}

// passable reports whether every folder from dir up to the root can be passed through by anybody.
func passable(dir string) bool {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	for {
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm()&0o001 == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
		dir = filepath.Dir(dir)
	}
}
