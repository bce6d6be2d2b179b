package postgres

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Connector returns the entry of this package in the registry.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "postgres",
		Doc: "Reads changes from tables, views and outboxes of a PostgreSQL database (13 or newer), and writes records into its tables by their natural key, " +
			"in batches and guarded by version.",
		Settings: func() connectors.Settings { return &Settings{} },
	}
}

// maxBatch is the largest number of records in one statement: more gain nothing and hold locks longer.
const maxBatch = 500

// maxBatchBytes bounds the records of one statement together.
const maxBatchBytes = 32 << 20

// Settings are the fields of a client that is a PostgreSQL database.
type Settings struct {
	DSN         field.Secret
	Host        string
	Port        int
	Database    string
	User        string
	Password    field.Secret
	SSLMode     string
	SSLRootCert string

	Pooler           bool
	StatementTimeout time.Duration

	// Tables are the streams by name, Records the entities.
	Tables  map[string]*Stream
	Records map[string]*Entity
}

// Fields declares the settings.
func (s *Settings) Fields(f *field.Set) {
	const conn = "Connection"
	f.String(&s.Host, "host", "The server's name or address, or the folder of its socket; several with commas, of which the one that takes writes is used.",
		field.Example("db.example.com"), field.Group(conn))
	f.Int(&s.Port, "port", "The server's port.", field.Default("5432"), field.Range("1", "65535"), field.Group(conn))
	f.String(&s.Database, "database", "The database.", field.Example("erp"), field.Group(conn))
	f.String(&s.User, "user", "The role to log in as.", field.Example("syncd"), field.Group(conn))
	f.Secret(&s.Password, "password", "Its password.", field.Group(conn))
	f.String(&s.SSLMode, "sslmode", "How the connection is protected. Without it: verify-full, or prefer for a server on this machine.", field.Choices(
		field.Choice{Name: "disable", Doc: "no TLS"},
		field.Choice{Name: "prefer", Doc: "TLS if the server has it, nothing verified"},
		field.Choice{Name: "require", Doc: "TLS, nothing verified"},
		field.Choice{Name: "verify-ca", Doc: "TLS with a certificate of a known authority"},
		field.Choice{Name: "verify-full", Doc: "the same, and made out to this host"}), field.Group(conn))
	f.String(&s.SSLRootCert, "sslrootcert", "A file with the authority that signed the server's certificate, if the system does not know it.", field.Advanced(), field.Group(conn))
	f.Secret(&s.DSN, "dsn", "All of this as one URL, postgres://user:password@host:5432/database. Special characters of the password must be percent-encoded in it, "+
		"which separate fields spare you.", field.Group(conn))
	f.Bool(&s.Pooler, "pooler", "The server is a pooler in transaction mode, such as PgBouncer: use no prepared statements.", field.Default("false"), field.Group(conn))
	f.Duration(&s.StatementTimeout, "statement_timeout", "How long the server may work on one statement.", field.Default("30s"), field.Range("100ms", "1h"), field.Advanced(), field.Group(conn))
	field.Map(f, &s.Tables, "streams", "What can be read from this database.", field.Names(nameRule, nameWhat))
	field.Map(f, &s.Records, "entities", "What can be written to this database.", field.Names(nameRule, nameWhat))
}

const (
	nameRule = `[a-z0-9][a-z0-9_-]{0,62}`
	nameWhat = "a name of small letters, digits, _ and -"
)

// Validate checks the settings as a whole.
func (s *Settings) Validate(r *field.Report) {
	if !s.DSN.Empty() {
		for _, name := range []string{"host", "port", "database", "user", "password", "sslmode", "sslrootcert"} {
			if r.Given(name) {
				r.At(name).Errorf("given beside dsn, which says it already; use one of them")
			}
		}
	}
	if r.Failed("dsn") || r.Failed("host") || r.Failed("password") || r.Failed("sslmode") {
		return
	}
	if s.DSN.Empty() {
		for name, v := range map[string]string{"host": s.Host, "database": s.Database, "user": s.User} {
			if v == "" {
				r.At(name).Errorf("missing; give host, database, user and password, or dsn")
			}
		}
		return
	}
	if _, err := s.connString(); err != nil {
		r.At("dsn").Errorf("%v", err)
	}
}

// Streams lists the configured streams.
func (s *Settings) Streams() []connectors.StreamInfo {
	var infos []connectors.StreamInfo
	for _, name := range slices.Sorted(maps.Keys(s.Tables)) {
		infos = append(infos, s.Tables[name].info(name))
	}
	return infos
}

// Entities lists the configured entities.
func (s *Settings) Entities() []connectors.EntityInfo {
	var infos []connectors.EntityInfo
	for _, name := range slices.Sorted(maps.Keys(s.Records)) {
		infos = append(infos, s.Records[name].info(name, s.StatementTimeout))
	}
	return infos
}

// columnNames checks names of columns.
func columnNames(r *field.Report, at string, names ...string) {
	for _, n := range names {
		if err := badName(n); err != nil && !r.Failed(at) {
			r.At(at).Errorf("%v cannot be a column; write the column's name as the database has it, without quotes", err)
		}
	}
}

func tableSetting(r *field.Report, at, text string) {
	if r.Failed(at) {
		return
	}
	if _, err := parseTable(text); err != nil {
		r.At(at).Errorf("%v; write for example erp.orders", err)
	}
}

func list(names []string) string {
	var s string
	for i, n := range names {
		switch {
		case i > 0 && i == len(names)-1:
			s += " and "
		case i > 0:
			s += ", "
		}
		s += n
	}
	return s
}

func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return fmt.Sprintf("%ss", one)
}
