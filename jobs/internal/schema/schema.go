// Package schema reads the embedded migrations of an engine. Both engines
// number theirs alike; they run them through goose, forward only.
package schema

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
)

// Migrations returns the migrations of a folder of files named like
// 00001_journal.sql, and the highest version among them. rewrite, when it is not
// nil, is given each file's text. Each file runs as one script in one transaction.
func Migrations(files embed.FS, rewrite func(string) string) (ms []*goose.Migration, latest int64, err error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		number, _, _ := strings.Cut(path.Base(name), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, 0, fmt.Errorf("migration %s has no number: %w", name, err)
		}
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, 0, err
		}
		script := string(text)
		if rewrite != nil {
			script = rewrite(script)
		}
		ms = append(ms, goose.NewGoMigration(version, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, script)
			return err
		}}, nil))
		latest = max(latest, version)
	}
	return ms, latest, nil
}
