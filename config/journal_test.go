package config

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"syncd/internal/field"

	"github.com/jackc/pgx/v5/pgconn"
	"pgregory.net/rapid"
)

func journal(t *testing.T, text string, env ...string) (*Journal, string) {
	t.Helper()
	c, err := load(t, "journal: "+text+"\n", env...)
	if err != nil {
		return nil, err.Error()
	}
	return &c.Journal, ""
}

func TestJournalIsGivenInShort(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"file", "sqlite:/var/lib/syncd/syncd.db", "sqlite:/var/lib/syncd/syncd.db"},
		{"file in a folder with a blank", "sqlite:/a b/c.db", "sqlite:/a b/c.db"},
		{"database", "postgres://sync@db/app", "postgres://db:5432/app, schema syncd"},
		{"database on a port", "postgresql://sync:${env:PW}@db:6432/app?sslmode=require", "postgres://db:6432/app, schema syncd"},
		{"database behind IPv6", "postgres://sync@[::1]:6432/app", "postgres://[::1]:6432/app, schema syncd"},
		{"database behind a socket", "postgres:///app?host=/var/run/postgresql", "postgres at /var/run/postgresql, database app, schema syncd"},
		{"mapping with a file", "{sqlite: {path: x.db}}", "sqlite:x.db"},
		{"mapping with a URL", `{postgres: {url: "${env:DB}", schema: other}}`, "postgres://db:5432/app, schema other"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j, problem := journal(t, c.text, "DB=postgres://sync:CANARY@db/app", "PW=pw")
			if problem != "" {
				t.Fatal(problem)
			}
			if got := j.Describe(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestABrokenJournalIsExplainedWithoutItsPassword(t *testing.T) {
	const encode = "the database URL cannot be read; percent-encode the password (# is %23, / is %2F, @ is %40, % is %25), or give the journal as a mapping with postgres, where the password needs no encoding"
	for _, c := range []struct{ name, text, want string }{
		{"hash in the password", `"postgres://sync:CANARY12#@db:5432/app"`, "1:10: journal: " + encode},
		{"per cent in the password", "postgres://sync:CANARY%pass@db/app", "1:10: journal: " + encode},
		{"slash in the password", "postgres://sync:CANARY/b@db/app", "1:10: journal: " + encode},
		{"blank and slash in the password", "postgres://sync:CANARY cool/word@db:5432/app", "1:10: journal: " + encode},
		{"question mark in the password", "postgres://sync:CANARY?b@db/app", "1:10: journal: " + encode},
		{"hash behind digits", `"postgres://sync:12#CANARY@db:5432/app"`, "1:10: journal: " + encode},
		{"question mark behind digits", "postgres://sync:12?CANARY@db/app", "1:10: journal: " + encode},
		{"slash behind digits", "postgres://sync:12/CANARY@db/app", "1:10: journal: " + encode},
		{"port that is none", "postgres://sync@db:CANARY/app", "1:10: journal: " + encode},
		{"no host", "postgres:///app", "1:10: journal: the database URL needs a host and a database: postgres://user@host:5432/database"},
		{"no database", "postgres://sync:CANARY@db", "1:10: journal: the database URL needs a host and a database: postgres://user@host:5432/database"},
		{"unknown parameter", "postgres://sync@db/app?CANARY=1", "1:10: journal: the database URL has a parameter after ? that is not known here; only sslmode and host are"},
		{"schema in the URL", "postgres://sync@db/app?search_path=x", "1:10: journal: the schema of the journal is not given in the URL; write a mapping: postgres: {url: …, schema: …}"},
		{"unknown sslmode", "postgres://sync@db/app?sslmode=CANARY", "1:10: journal: the database URL has an sslmode that is not known; use disable, prefer, require, verify-ca or verify-full"},
		{"another database", "mysql://sync:CANARY@db/app", "1:10: journal: not a journal; write sqlite:PATH, or a mapping with postgres"},
		{"a path alone", "./CANARY.db", "1:10: journal: not a journal; write sqlite:PATH, or a mapping with postgres"},
		{"no path", `"sqlite:"`, "1:10: journal: the path is missing; write sqlite:./syncd.db"},
		{"both", "{sqlite: {path: x}, postgres: {host: a, database: b, user: c}}", "1:30: journal.postgres: both sqlite and postgres are given; take one out"},
		{"incomplete", "{postgres: {host: db}}", "1:11: journal.postgres.database: missing; a PostgreSQL journal needs host, database and user, or url\nsyncd.yaml:1:11: journal.postgres.user: missing; a PostgreSQL journal needs host, database and user, or url"},
		{"literal password", "{postgres: {host: a, database: b, user: c, password: CANARY}}", "1:63: journal.postgres.password: a secret must not stand in the file; give it as ${env:NAME}, ${file:/path} or ${credential:name}"},
		{"literal URL in the mapping", `{postgres: {url: "postgres://a:CANARY@b/c"}}`, "1:27: journal.postgres.url: a secret must not stand in the file; give it as ${env:NAME}, ${file:/path} or ${credential:name}"},
		{"broken URL by reference", `{postgres: {url: "${env:DB}"}}`, "1:27: journal.postgres.url: " + encode},
		{"broken URL by reference, in short", `"${env:DB}"`, "1:10: journal: " + encode},
		{"URL and host", `{postgres: {url: "${env:OK}", host: x}}`, "1:46: journal.postgres.host: given beside url; take one of them out"},
		{"unset variable in a URL", `postgres://sync:${env:NOPE}@db/app`, "1:10: journal: the environment variable NOPE is not set; set it before syncd starts"},
		{"schema that is no name", `{postgres: {url: "${env:OK}", schema: "a;b"}}`, `1:48: journal.postgres.schema: "a;b": not accepted; expected small letters, digits and _, not beginning with a digit`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got := journal(t, c.text, "DB=postgres://sync:CANARY/x@db/app", "OK=postgres://sync:pw@db/app")
			if got != "syncd.yaml:"+c.want {
				t.Errorf("\n got: %s\nwant: syncd.yaml:%s", got, c.want)
			}
		})
	}
}

func TestAnyPasswordReachesThePostgreSQLDriver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		password := rapid.StringMatching(`[ -~éß]{1,24}`).Draw(t, "password")
		user := rapid.StringMatching(`[ -~é]{1,12}`).Draw(t, "user")
		database := rapid.StringMatching(`[a-z #%?@:é-]{1,12}`).Draw(t, "database")
		p := &Postgres{Host: "db.test", Port: 6432, Database: database, User: user, Password: field.NewSecret(password), SSLMode: "disable"}
		c, err := pgconn.ParseConfig(p.URL().Reveal())
		if err != nil {
			t.Fatalf("the driver refuses the URL of %q %q %q: %v", user, password, database, err)
		}
		if c.Password != password || c.User != user || c.Database != database || c.Host != "db.test" || c.Port != 6432 {
			t.Fatalf("the driver reads user %q, password %q, database %q, host %s:%d", c.User, c.Password, c.Database, c.Host, c.Port)
		}
	})
}

func TestConnectionsToOtherMachinesAreVerifiedUnlessSaidOtherwise(t *testing.T) {
	for text, want := range map[string]string{
		"{host: db.test, database: d, user: u}":                     "verify-full",
		"{host: 10.0.0.1, database: d, user: u}":                    "verify-full",
		"{host: localhost.evil.test, database: d, user: u}":         "verify-full",
		"{host: db.test, database: d, user: u, sslmode: disable}":   "disable",
		"{host: localhost, database: d, user: u}":                   "prefer",
		"{host: 127.0.0.1, database: d, user: u}":                   "prefer",
		"{host: '::1', database: d, user: u}":                       "prefer",
		"{host: /run/pg, database: d, user: u}":                     "prefer",
		"{host: localhost, database: d, user: u, sslmode: require}": "require",
	} {
		j, problem := journal(t, "{postgres: "+text+"}")
		if problem != "" {
			t.Fatal(problem)
		}
		u, err := url.Parse(j.Postgres.URL().Reveal())
		if err != nil || u.Query().Get("sslmode") != want {
			t.Errorf("%s: sslmode %s, %v; want %s", text, u.Query().Get("sslmode"), err, want)
		}
	}
}

func TestASocketReachesThePostgreSQLDriver(t *testing.T) {
	j, problem := journal(t, `{postgres: {host: /run/pg, port: 6432, database: d, user: u}}`)
	if problem != "" {
		t.Fatal(problem)
	}
	c, err := pgconn.ParseConfig(j.Postgres.URL().Reveal())
	if err != nil || c.Host != "/run/pg" || c.Port != 6432 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestAnEncodedPasswordInAURLIsDecodedOnce(t *testing.T) {
	const password = `pa$w#/@:?%41 ü`
	j, problem := journal(t, `"postgres://sync:${env:PW}@db/app"`, "PW="+url.PathEscape(password))
	if problem == "" && j.Postgres.Password.Reveal() == password {
		return
	}
	// PathEscape leaves some characters that a URL's user part must encode; QueryEscape with %20 encodes all.
	j, problem = journal(t, `"postgres://sync:${env:PW}@db/app"`, "PW="+strings.ReplaceAll(url.QueryEscape(password), "+", "%20"))
	if problem != "" || j.Postgres.Password.Reveal() != password {
		t.Errorf("%s", problem)
	}
}

func TestAJournalNeverShowsItsPassword(t *testing.T) {
	j, problem := journal(t, `{postgres: {host: db, database: d, user: u, password: "${env:PW}"}}`, "PW=CANARY-journal")
	if problem != "" {
		t.Fatal(problem)
	}
	if got := fmt.Sprintf("%v %+v %#v %s %+v", j, *j, j, j.Describe(), j.Postgres.URL()); strings.Contains(got, "CANARY") {
		t.Error(got)
	}
}

func TestAPasswordMustNotStandInTheFileAsPartOfTheJournal(t *testing.T) {
	for _, c := range []struct {
		text    string
		refused bool
	}{
		{"postgres://sync:CANARY@db/app", true},
		{"postgresql://sync:CANARY@db:6432/app?sslmode=require", true},
		{"postgres://sync:x@db/app", true},
		{"postgres://sync:CANARY${env:PW}@db/app", true},
		{"postgres://${env:NAME}:CANARY@db/app", true},
		{"postgres://sync:${env:PW}@db/app", false},
		{"postgres://${env:NAME}:${env:PW}@db/app", false},
		{"${env:DB}", false},
		{"postgres://sync@db/app", false},
		{"postgres://sync:@db/app", false},
		{"postgres://sync@[::1]:6432/app", false},
		{"sqlite:/a:b@c/d.db", false},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, got := journal(t, `"`+c.text+`"`, "DB=postgres://sync:CANARY@db/app", "PW=pw", "NAME=sync")
			if refused := strings.Contains(got, "1:10: journal: a secret must not stand in the file; give the password as ${env:NAME}"); refused != c.refused || !refused && got != "" {
				t.Errorf("got %q", got)
			}
			if strings.Contains(got, "CANARY") {
				t.Errorf("shows it: %s", got)
			}
		})
	}
}
