package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"syncd/connectors"
)

const (
	// connectTimeout bounds the making of a connection; Env.Timeout does, too.
	connectTimeout = 15 * time.Second
	// pingTimeout bounds the test of a pooled connection that has been idle. Without it, a half-open one would use up the whole timeout.
	pingTimeout = 3 * time.Second
	// idleInTransaction makes the server end a transaction that we have lost, and with it its locks.
	idleInTransaction = time.Minute
)

// errDSN says that the URL cannot be read, and shows no part of it: what the parsers say quotes pieces of the password.
var errDSN = errors.New("not a URL such as postgres://user:password@host:5432/database; percent-encode the password (# is %23, / is %2F, % is %25), " +
	"or give host, database, user and password in fields of their own")

// connString makes the connection string, with sslmode decided.
func (s *Settings) connString() (string, error) {
	if s.DSN.Empty() {
		return s.fieldsString()
	}
	dsn := s.DSN.Reveal()
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" || u.Opaque != "" || u.Fragment != "" {
		return "", errDSN
	}
	q := u.Query()
	if q.Get("sslmode") == "" {
		q.Set("sslmode", defaultSSL(strings.Split(u.Host, ","), q.Get("host")))
		u.RawQuery = q.Encode()
	}
	// pgx is asked to read it here, so that what it says is never seen.
	if _, err := pgx.ParseConfig(u.String()); err != nil {
		return "", errDSN
	}
	return u.String(), nil
}

// fieldsString makes a connection string in the form name='value'. Every value is given, so that no environment variable of libpq has a say.
func (s *Settings) fieldsString() (string, error) {
	mode := s.SSLMode
	if mode == "" {
		mode = defaultSSL(strings.Split(s.Host, ","), "")
	}
	settings := [][2]string{{"host", s.Host}, {"port", strconv.Itoa(s.Port)}, {"dbname", s.Database}, {"user", s.User}, {"sslmode", mode}}
	if !s.Password.Empty() {
		settings = append(settings, [2]string{"password", s.Password.Reveal()})
	}
	if s.SSLRootCert != "" {
		if _, err := os.ReadFile(s.SSLRootCert); err != nil {
			return "", fmt.Errorf("sslrootcert: %w", err)
		}
		settings = append(settings, [2]string{"sslrootcert", s.SSLRootCert})
	}
	if strings.Contains(s.Host, ",") {
		settings = append(settings, [2]string{"target_session_attrs", "prefer-standby"})
		if len(s.Records) > 0 {
			settings[len(settings)-1][1] = "read-write"
		}
	}
	var b strings.Builder
	for _, kv := range settings {
		if strings.ContainsRune(kv[1], 0) {
			return "", fmt.Errorf("%s holds the character U+0000", kv[0])
		}
		fmt.Fprintf(&b, "%s='%s' ", kv[0], strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(kv[1]))
	}
	if _, err := pgx.ParseConfig(b.String()); err != nil {
		return "", errors.New("the connection settings cannot be used; look at host, port, sslmode, and whether the file of sslrootcert holds a certificate")
	}
	return b.String(), nil
}

// defaultSSL verifies the server unless every host is this machine.
func defaultSSL(hosts []string, query string) string {
	for _, h := range append(hosts, strings.Split(query, ",")...) {
		if name, _, err := net.SplitHostPort(h); err == nil {
			h = name
		}
		h = strings.Trim(h, "[]")
		if h == "" || h == "localhost" || strings.HasPrefix(h, "/") || net.ParseIP(h).IsLoopback() {
			continue
		}
		return "verify-full"
	}
	return "prefer"
}

// poolConfig prepares the pool. Nothing is connected yet.
func (s *Settings) poolConfig(env connectors.Env) (*pgxpool.Config, error) {
	text, err := s.connString()
	if err != nil {
		return nil, err
	}
	c, err := pgxpool.ParseConfig(text)
	if err != nil {
		return nil, errDSN
	}
	c.MaxConns = int32(min(max(env.Concurrency, 1), 1000))
	c.MinConns, c.MinIdleConns = 0, 0
	c.MaxConnLifetime, c.MaxConnLifetimeJitter = time.Hour, 10*time.Minute
	c.MaxConnIdleTime = 5 * time.Minute
	c.PingTimeout = pingTimeout
	c.ConnConfig.ConnectTimeout = connectTimeout
	if env.Timeout > 0 {
		c.ConnConfig.ConnectTimeout = min(connectTimeout, env.Timeout)
	}
	p := c.ConnConfig.RuntimeParams
	p["application_name"] = "syncd " + env.Client
	// A pooler passes on these few only; the rest is then set in each transaction.
	p["TimeZone"], p["DateStyle"] = "UTC", "ISO, YMD"
	if s.Pooler {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		return c, nil
	}
	c.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "set client_encoding = '"+encodingFor(conn)+"'")
		return err
	}
	for name, v := range s.sessionSettings() {
		p[name] = v
	}
	return c, nil
}

// sessionSettings hold for all our statements. Compiling a plan costs more than any of them takes.
func (s *Settings) sessionSettings() map[string]string {
	return map[string]string{
		"statement_timeout":                   strconv.FormatInt(max(s.StatementTimeout.Milliseconds(), 1), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt(idleInTransaction.Milliseconds(), 10),
		"jit":                                 "off",
	}
}

// asciiOnly is the encoding of a database that keeps bytes and does not know what characters they are
// (https://www.postgresql.org/docs/current/multibyte.html).
const asciiOnly = "SQL_ASCII"

// encodingFor is the encoding in which the server is to take and give texts. Left to itself it takes them for texts in its own, so that a database in
// LATIN1 would keep two characters for one. A database in SQL_ASCII translates nothing, and asked for UTF-8 it would refuse a whole page for one byte.
func encodingFor(conn *pgx.Conn) string {
	if conn.PgConn().ParameterStatus("server_encoding") == asciiOnly {
		return asciiOnly
	}
	return "UTF8"
}

// begin is the statement that opens a transaction on a connection. It never asks for read write: that would write to a server which was made read-only
// to keep writers out, and a standby refuses it with a code that says nothing of why.
func (s *Settings) begin(readOnly bool, conn *pgx.Conn) string {
	sql := "begin isolation level read committed"
	if readOnly {
		sql += " read only"
	}
	if s.Pooler {
		for name, v := range s.sessionSettings() {
			sql += "; set local " + name + " = '" + v + "'"
		}
		sql += "; set local client_encoding = '" + encodingFor(conn) + "'"
	}
	return sql
}
