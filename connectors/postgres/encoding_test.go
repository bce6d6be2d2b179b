package postgres

import (
	"context"
	"net/url"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/connectors"
	"syncd/internal/field"
)

// newBaseIn makes a database of another encoding by running setup.
func newBaseIn(t *testing.T, encoding, setup string) *base {
	t.Helper()
	b := newBase(t, "SELECT")
	admin := b.dsn
	u, err := url.Parse(admin)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/") + "_e"
	b.exec("CREATE DATABASE " + name + " TEMPLATE template0 ENCODING '" + encoding + "' LC_COLLATE 'C' LC_CTYPE 'C'")
	u.Path = "/" + name
	b.dsn = u.String()
	b.settings.DSN = field.NewSecret(b.dsn)
	if encoding != asciiOnly {
		q := u.Query()
		q.Set("client_encoding", "UTF8")
		u.RawQuery = q.Encode()
	}
	pool, err := pgxpool.New(t.Context(), u.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		pool.Close()
		if b.in != nil {
			_ = b.in.Close()
		}
		conn, err := pgx.Connect(context.Background(), admin)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if _, err := conn.Exec(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	b.sql = pool
	b.exec(setup)
	return b
}

const encoded = `CREATE TABLE o (n text PRIMARY KEY, x text, j jsonb, updated_at timestamptz NOT NULL DEFAULT now()); CREATE INDEX ON o (updated_at, n); `

func texts(b *base) {
	s := &Stream{}
	field.Declare(s)
	s.Table, s.ID, s.Version = "o", "n", "updated_at"
	b.settings.Tables["s"] = s
}

// briefly tells events in short: their ids, and what is wrong with them.
func briefly(p connectors.Page) string {
	var got []string
	for _, e := range p.Events {
		got = append(got, strings.TrimSuffix(e.SourceID+"!"+e.Problem, "!"))
	}
	return strings.Join(got, " | ")
}

func TestTextsAreTheSameCharactersInADatabaseOfAnotherEncoding(t *testing.T) {
	t.Parallel()
	for name, pooler := range map[string]bool{"directly": false, "by a pooler": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBaseIn(t, "LATIN1", encoded+"INSERT INTO o (n, x) VALUES ('a', chr(233))")
			b.settings.Pooler = pooler
			texts(b)
			e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
			got := e.Upsert(t.Context(), []connectors.Write{write("b", `{"x":"é","j":{"k":"ü"}}`, 1), write("c", `{"x":"漢"}`, 1), write("d", `{"x":"d"}`, 1)})
			b.same(brief(got...), `applied "b", invalid/sqlstate_22P05, applied "d"`)
			b.same(got[1].Message, "a text has a character that the database's encoding lacks")
			b.want("SELECT n, length(x), ascii(x) FROM o WHERE n < 'd' ORDER BY n", "a 1 233 | b 1 233")
			b.exec("UPDATE o SET updated_at = now() - interval '1 hour'")
			p, err := b.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: connectors.Start{All: true}, Limit: 10})
			if err != nil || briefly(p) != "a | b | d" || !strings.Contains(string(p.Events[0].Body), `"x":"é"`) || !strings.Contains(string(p.Events[1].Body), `"k": "ü"`) {
				t.Errorf("read %s, %v: %+v", briefly(p), err, p.Events)
			}
		})
	}
}

func TestRowThatIsNotUTF8IsADeadLetterAndStopsNoOther(t *testing.T) {
	t.Parallel()
	b := newBaseIn(t, "SQL_ASCII", encoded+`INSERT INTO o (n, x) VALUES ('a', E'caf\xe9'), ('b', E'caf\xc3\xa9')`)
	texts(b)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	got := e.Upsert(t.Context(), []connectors.Write{write("é", `{"x":"ü"}`, 1), write("j", `{"j":{"a":"\u00fc"}}`, 1), write("k", `{"j":{"a":"ü"}}`, 1)})
	b.same(brief(got...), `applied "é", invalid/sqlstate_0A000, applied "k"`)
	b.same(got[1].Message, "a text has a character that the database cannot keep in JSON, since its encoding is SQL_ASCII; use a database in UTF8")
	b.exec("UPDATE o SET updated_at = now() - interval '1 hour'")
	p, err := b.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: connectors.Start{All: true}, Limit: 10})
	if want := "a!the record holds a text that is not UTF-8: the database's encoding is SQL_ASCII, which keeps whatever bytes it is given | b | k | é"; err != nil || briefly(p) != want {
		t.Errorf("read %s, %v\nwant %s", briefly(p), err, want)
	}
	fs := b.in.Check(t.Context(), []string{"s"}, []string{"e"})
	if !strings.Contains(fs[0].Note, "; the database's encoding is SQL_ASCII, ") || strings.Contains(said(fs), "!") {
		t.Errorf("check says %q and %s", fs[0].Note, said(fs))
	}
	// A cursor could not lead past such an id; the page is refused rather than a row passed over.
	b.exec(`INSERT INTO o (n, updated_at) VALUES (E'n\xe9', now() - interval '1 hour')`)
	_, err = b.in.Pull(t.Context(), connectors.PullRequest{Stream: "s", Start: connectors.Start{All: true}, Limit: 10})
	if want := "read stream s: invalid (not_utf8): the column n of public.o holds a text that is not UTF-8, so that the stream cannot go on after it; correct it: " +
		"the database's encoding is SQL_ASCII, which keeps whatever bytes it is given"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
