package config

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"syncd/internal/field"
)

// Journal says where the journal is: exactly one of SQLite and Postgres is used, as Engine tells.
type Journal struct {
	SQLite   SQLite
	Postgres Postgres

	postgres bool
}

// SQLite is a journal in a file.
type SQLite struct {
	// Path of the file; relative to the working folder.
	Path string
	// MinFree is how many bytes of its disk stay free; 0 for 5 % of it or 512 MiB,
	// whichever is less.
	MinFree int64
}

// Postgres is a journal in a PostgreSQL database.
type Postgres struct {
	Host     string
	Port     int
	Database string
	User     string
	Password field.Secret
	// SSLMode is disable, prefer, require, verify-ca, verify-full, or "" for what URL chooses.
	SSLMode string
	// Schema that holds the journal's tables.
	Schema string
	// Pooler says that a transaction pooler such as PgBouncer stands between, so that prepared statements cannot be used.
	Pooler bool
	// Connections bounds the connections of a daemon that are in use at once, 1 to 1000; there is one more for what may not wait.
	Connections int

	url field.Secret
}

// Engine is "sqlite" or "postgres".
func (j *Journal) Engine() string {
	if j.postgres {
		return "postgres"
	}
	return "sqlite"
}

// Fields declares the mapping form.
func (j *Journal) Fields(s *field.Set) {
	s.Struct(&j.SQLite, "sqlite", "A file. This or postgres.")
	s.Struct(&j.Postgres, "postgres", "A PostgreSQL database. This or sqlite.")
}

// Fields declares the fields of a SQLite journal.
func (q *SQLite) Fields(s *field.Set) {
	s.String(&q.Path, "path", "Path of the file, from the working folder.", field.Default("./syncd.db"))
	s.Size(&q.MinFree, "min_free", "How much of the file's disk stays free: with less, no source is read, and writing goes on. Without it 5 % of the disk, or 512MiB if that is less.",
		field.Example("2GiB"), field.Advanced())
}

// Fields declares the fields of a PostgreSQL journal.
func (p *Postgres) Fields(s *field.Set) {
	s.Secret(&p.url, "url", "A postgres:// URL that holds everything up to the password, instead of the fields from host to sslmode.",
		field.Example("${env:DATABASE_URL}"))
	s.String(&p.Host, "host", "Host name, address, or folder of a socket.", field.Example("db.example.com"))
	s.Int(&p.Port, "port", "Port.", field.Default("5432"), field.Range("1", "65535"))
	s.String(&p.Database, "database", "Name of the database.", field.Example("syncd"))
	s.String(&p.User, "user", "Name of the user.", field.Example("syncd"))
	s.Secret(&p.Password, "password", "Password of the user. Any characters; nothing needs to be encoded.", field.Example("${file:/etc/syncd/pg-password}"))
	s.String(&p.SSLMode, "sslmode", "How the connection is protected. Without it: verify-full, or prefer for a server on this machine.",
		field.Choices(field.Choice{Name: "disable", Doc: "not at all"}, field.Choice{Name: "prefer", Doc: "encrypted if the server can"},
			field.Choice{Name: "require", Doc: "encrypted"}, field.Choice{Name: "verify-ca", Doc: "encrypted, the certificate checked"},
			field.Choice{Name: "verify-full", Doc: "encrypted, certificate and host name checked"}))
	s.String(&p.Schema, "schema", "Schema for the journal's tables. It is made if it does not exist.",
		field.Default("syncd"), field.Pattern(`[a-z_][a-z0-9_]{0,62}`, "small letters, digits and _, not beginning with a digit"))
	s.Bool(&p.Pooler, "pooler", "Set it when a pooler in transaction mode, such as PgBouncer, stands before the database.", field.Default("false"))
	s.Int(&p.Connections, "connections", "How many connections to the database a daemon uses at once. There is one more for what may not wait, such as renewing leases.",
		field.Default("8"), field.Range("1", "1000"), field.Advanced())
}

var errJournal = errors.New("not a journal; write sqlite:PATH, or a mapping with postgres")

// FieldText takes the short form: sqlite:PATH or postgres://….
func (j *Journal) FieldText(text string) error {
	scheme, rest, ok := strings.Cut(text, ":")
	switch {
	case ok && scheme == "sqlite":
		if rest == "" {
			return errors.New("the path is missing; write sqlite:./syncd.db")
		}
		*j = Journal{SQLite: SQLite{Path: rest}, Postgres: j.Postgres}
		return nil
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		j.postgres = true
		return j.Postgres.takeURL(text)
	}
	return errJournal
}

// reference is a value that stands elsewhere.
var reference = regexp.MustCompile(`\$\{[^}]*\}`)

// TextSecret is the password of a URL that was written into the file.
func (j *Journal) TextSecret(text string) (secret, how string) {
	const form = "give the password as ${env:NAME}, ${file:/path} or ${credential:name}: journal: {postgres: {host: …, database: …, user: …, password: \"${file:/etc/syncd/pg-password}\"}}, or the URL as a whole: journal: \"${env:DATABASE_URL}\""
	_, rest, ok := strings.Cut(reference.ReplaceAllString(text, ""), "://")
	at := strings.LastIndexByte(rest, '@')
	if !ok || at < 0 {
		return "", ""
	}
	_, password, _ := strings.Cut(rest[:at], ":")
	return password, form
}

// errURL is all that is ever said of a broken URL: what net/url says would show parts of the password.
var errURL = errors.New("the database URL cannot be read; percent-encode the password (# is %23, / is %2F, @ is %40, % is %25), or give the journal as a mapping with postgres, where the password needs no encoding")

// takeURL reads a postgres:// URL into the fields.
func (p *Postgres) takeURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || strings.Contains(text, "#") || u.Opaque != "" || strings.Count(u.Path, "/") > 1 || strings.Contains(u.RawQuery, "@") {
		return errURL
	}
	if u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return errors.New("a database URL must begin with postgres://")
	}
	database := strings.TrimPrefix(u.Path, "/")
	if u.Hostname() == "" && u.Query().Get("host") == "" || database == "" {
		return errors.New("the database URL needs a host and a database: postgres://user@host:5432/database")
	}
	p.Host, p.Database, p.User = u.Hostname(), database, u.User.Username()
	if port := u.Port(); port != "" {
		n, err := strconv.Atoi(port)
		if err != nil || n < 1 || n > 65535 {
			return errURL
		}
		p.Port = n
	}
	password, _ := u.User.Password()
	p.Password = field.NewSecret(password)
	return p.takeQuery(u.Query())
}

func (p *Postgres) takeQuery(q url.Values) error {
	for k, v := range q {
		switch k {
		case "sslmode":
			p.SSLMode = v[len(v)-1]
			switch p.SSLMode {
			case "disable", "prefer", "require", "verify-ca", "verify-full":
			default:
				return errors.New("the database URL has an sslmode that is not known; use disable, prefer, require, verify-ca or verify-full")
			}
		case "host":
			p.Host = v[len(v)-1]
		case "search_path", "schema":
			return errors.New("the schema of the journal is not given in the URL; write a mapping: postgres: {url: …, schema: …}")
		default:
			return errors.New("the database URL has a parameter after ? that is not known here; only sslmode and host are")
		}
	}
	return nil
}

// Validate checks that one engine is given, and completely.
func (j *Journal) Validate(r *field.Report) {
	sqlite, postgres := r.Given("sqlite"), r.Given("postgres")
	switch {
	case sqlite && postgres:
		r.At("postgres").Errorf("both sqlite and postgres are given; take one out")
	case postgres:
		j.postgres = true
		j.Postgres.check(r.At("postgres"))
	}
}

func (p *Postgres) check(r *field.Report) {
	if !p.url.Empty() {
		for _, name := range []string{"host", "port", "database", "user", "password", "sslmode"} {
			if r.Given(name) {
				r.At(name).Errorf("given beside url; take one of them out")
			}
		}
		if err := p.takeURL(p.url.Reveal()); err != nil {
			r.At("url").Errorf("%v", err)
		}
		return
	}
	if r.Given("url") {
		return
	}
	for _, f := range []struct{ name, value string }{{"host", p.Host}, {"database", p.Database}, {"user", p.User}} {
		if f.value == "" {
			r.At(f.name).Errorf("missing; a PostgreSQL journal needs host, database and user, or url")
		}
	}
}

// URL returns the connection's URL for a PostgreSQL driver, every part encoded. The schema and Pooler are not in it.
func (p *Postgres) URL() field.Secret {
	u := url.URL{Scheme: "postgres", Path: "/" + p.Database}
	q := url.Values{}
	if strings.HasPrefix(p.Host, "/") {
		q.Set("host", p.Host)
		q.Set("port", strconv.Itoa(p.Port))
	} else {
		u.Host = net.JoinHostPort(p.Host, strconv.Itoa(p.Port))
	}
	switch {
	case p.User != "" && !p.Password.Empty():
		u.User = url.UserPassword(p.User, p.Password.Reveal())
	case p.User != "":
		u.User = url.User(p.User)
	}
	q.Set("sslmode", cmp.Or(p.SSLMode, p.defaultSSLMode()))
	u.RawQuery = q.Encode()
	return field.NewSecret(u.String())
}

// defaultSSLMode checks the server's certificate, except on this machine, where nobody stands between and servers seldom have one.
func (p *Postgres) defaultSSLMode() string {
	if strings.HasPrefix(p.Host, "/") || p.Host == "localhost" || net.ParseIP(p.Host).IsLoopback() {
		return "prefer"
	}
	return "verify-full"
}

// Describe names the journal for people, without credentials.
func (j *Journal) Describe() string {
	if !j.postgres {
		return "sqlite:" + j.SQLite.Path
	}
	p := &j.Postgres
	if strings.HasPrefix(p.Host, "/") {
		return "postgres at " + p.Host + ", database " + p.Database + ", schema " + p.Schema
	}
	return "postgres://" + net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) + "/" + p.Database + ", schema " + p.Schema
}

// Unresolved tells whether something that a lenient Load could not read is
// needed to open the journal.
func (j *Journal) Unresolved() bool {
	if !j.postgres {
		return strings.Contains(j.SQLite.Path, field.Unresolved)
	}
	u := j.Postgres.URL()
	text, err := url.QueryUnescape(u.Reveal())
	return err != nil || strings.Contains(text, field.Unresolved)
}
