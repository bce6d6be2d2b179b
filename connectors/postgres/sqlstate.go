package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/connectors"
)

// phase is how far a transaction had come when it failed.
type phase int

const (
	atGate phase = iota
	connecting
	working
	committing
)

// failure is a failed transaction, or a statement of it.
type failure struct {
	phase phase
	err   error
}

func (f *failure) Error() string { return f.err.Error() }

func (f *failure) Unwrap() error { return f.err }

// refusal is a record, or a configuration, that is found wrong before anything is sent.
type refusal struct {
	code string
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

func refuse(code, format string, args ...any) error {
	return &refusal{code, fmt.Errorf(format, args...)}
}

// outcome translates a failure. SQLSTATEs are those of https://www.postgresql.org/docs/current/errcodes-appendix.html. The texts are made here, from the
// SQLSTATE: those of the server quote values, and those that a trigger raises are its author's, who may put anything into them (see spoken and rowMessage
// for what is shown of them).
func outcome(err error) connectors.Outcome {
	var r *refusal
	if errors.As(err, &r) {
		return connectors.Fail(connectors.Invalid, r.code, "%v", r.err)
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{working, err}
	}
	if f.phase == atGate {
		return atTheGate(f.err)
	}
	var pe *pgconn.PgError
	if errors.As(f.err, &pe) {
		return f.answered(pe)
	}
	switch {
	case errors.Is(f.err, pgx.ErrTxCommitRollback):
		return connectors.Fail(connectors.Transient, "rolled_back", "the server rolled the transaction back instead of committing it")
	case f.phase == committing && !pgconn.SafeToRetry(f.err):
		return connectors.Fail(connectors.Unknown, "commit_unknown", "the connection was lost while the transaction was committed: %s", plain(f.err))
	case f.phase == connecting && errors.Is(f.err, context.DeadlineExceeded):
		return connectors.Fail(connectors.Transient, "connect", "no connection to the database: "+noAnswer)
	case f.phase == connecting:
		return connectors.Fail(connectors.Transient, "connect", "no connection to the database: %s", plain(f.err))
	}
	return connectors.Fail(connectors.Transient, "connection", "the connection was lost before the transaction was committed: %s", plain(f.err))
}

func atTheGate(err error) connectors.Outcome {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return connectors.Fail(connectors.Transient, "canceled", "not sent: %v", err)
	}
	return connectors.Fail(connectors.Paused, "paused", "%v", err)
}

// plain says what a failure of the network was, without texts that could hold more than addresses.
func plain(err error) string {
	var ce *pgconn.ConnectError
	switch {
	case errors.As(err, &ce):
		return connectText(ce)
	case errors.Is(err, context.DeadlineExceeded):
		return "the time for the request is over"
	case errors.Is(err, context.Canceled):
		return "the request was canceled"
	}
	return networkText(err)
}

// networkText is the text of the network, which can hold addresses and no more. Other texts, of the driver, may quote what it was given.
func networkText(err error) string {
	var op *net.OpError
	switch {
	case errors.As(err, &op):
		return op.Error()
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "the server closed the connection"
	case errors.Is(err, net.ErrClosed), pgconn.SafeToRetry(err):
		return "the connection was closed"
	}
	return fmt.Sprintf("the driver could not go on (%T)", err)
}

// answered translates an error that the server reported.
func (f *failure) answered(pe *pgconn.PgError) connectors.Outcome {
	o := connectors.Outcome{Class: connectors.Transient, Code: "sqlstate_" + pe.Code}
	fatal := pe.Severity == "FATAL" || pe.Severity == "PANIC" || pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC"
	switch class := pe.Code[:min(2, len(pe.Code))]; {
	case pe.Code == "40003", f.phase == committing && (fatal || class == "08" || class == "57" || class == "58"):
		o.Class, o.Message = connectors.Unknown, "the server ended the session while the transaction was committed"
	case class == "28":
		o.Class, o.Message = connectors.Auth, "the server refuses this role"+f.spoken(": ", pe)+"; look at user, password and the server's pg_hba.conf"
	case pe.Code == "3D000":
		o.Class, o.Message = connectors.Auth, "the server has no such database"+f.spoken(": ", pe)+"; look at database"
	case pe.Code == "53300":
		o.Class, o.Message = connectors.Throttled, "the server has no connection left for us; raise max_connections there, or the role's limit, or lower concurrency here"
	case pe.Code == "25006":
		o.Message = "the server takes no writes: a standby, or a primary of yesterday; new connections will be made"
	case isRow(pe):
		o.Class, o.Message = connectors.Invalid, rowMessage(pe)
	case pe.Code == "42P05", pe.Code == "26000":
		o.Message = "a prepared statement of another session: there is a pooler in between; set pooler: true"
	case pe.Code == "0A000" && strings.Contains(pe.Routine, "RevalidateCachedQuery"):
		o.Message = "the table was changed while it was written to"
	case isEncoding(pe):
		o.Class, o.Message = connectors.Invalid, "a text has a character that the database cannot keep in JSON, since its encoding is "+asciiOnly+"; use a database in UTF8"
	case isSecured(pe):
		o.Class, o.Message = connectors.Invalid, "row-level security refuses the row, or hides the one that has its key; look at the table's policies for this role"
	case pe.Code == "42501":
		o.Class, o.Message = connectors.Invalid, "this role lacks a right"+f.spoken(": ", pe)+"; GRANT it to this role"
	case class == "42", class == "3F", class == "0A", class == "55" && pe.Code != "55P03" && pe.Code != "55006":
		o.Class, o.Message = connectors.Invalid, "the database refuses the statement"+f.spoken(": ", pe)+"; look at the configuration of this entity or stream against the database"
	case pe.Code == "57014":
		o.Message = "the statement took longer than statement_timeout, or was canceled, and was rolled back"
	default:
		o.Message = transientMessage(pe.Code)
	}
	return o
}

func transientMessage(code string) string {
	switch code {
	case "40001":
		return "rolled back, because other transactions changed the same rows"
	case "40P01":
		return "rolled back to end a deadlock"
	case "55P03":
		return "rolled back, because a lock was not to be had"
	case "57P01", "57P02", "57P03", "57P05":
		return "the server is shutting down or starting; nothing was committed"
	case "53100":
		return "the server's disk is full"
	}
	return "the server gave up the transaction, and rolled it back"
}

// isEncoding reports whether a record holds an escape such as \u00fc in JSON, which a database in SQL_ASCII cannot translate.
func isEncoding(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "0A000" && pe.Routine == "pg_unicode_to_server"
}

// isSecured reports whether row-level security refused a row: this is about its content, not about the role.
func isSecured(err error) bool {
	var pe *pgconn.PgError
	return errors.As(err, &pe) && pe.Code == "42501" && pe.Routine == "ExecWithCheckOptions"
}

// spoken is the server's own text after lead, where it cannot hold a value: while a connection is made, where nothing of a record was sent; from the check of
// rights, which names an object that is there (aclcheck_error of
// https://github.com/postgres/postgres/blob/master/src/backend/catalog/aclchk.c); and where it points at a place in our statement, in which values are
// parameters. Whatever comes from inside a function has a context. Else it is "".
func (f *failure) spoken(lead string, pe *pgconn.PgError) string {
	class := pe.Code[:min(2, len(pe.Code))]
	ours := (class == "42" || class == "3F" || class == "0A") && pe.Position > 0 && pe.Where == "" && pe.InternalPosition == 0 && pe.InternalQuery == ""
	if pe.Message == "" || f.phase != connecting && !ours && !isACL(pe) {
		return ""
	}
	return lead + pe.Message
}

// isACL reports whether the server's check of rights speaks. Its file and routine cannot be given by RAISE.
func isACL(pe *pgconn.PgError) bool {
	return pe.Code == "42501" && pe.File == "aclchk.c" && strings.HasPrefix(pe.Routine, "aclcheck_error")
}

// isRow reports whether an error is about the content of a row, so that the other rows of its statement can do without it.
func isRow(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) || len(pe.Code) != 5 {
		return false
	}
	switch pe.Code[:2] {
	case "21", "22", "23", "38", "39", "44", "54", "P0":
		return true
	case "42", "3F":
		return inRow(pe)
	}
	return pe.Code == "40002"
}

// inRow reports whether an error of class 42 or 3F came up while a row was worked on, and not when our statement was read: from inside a function, such as a
// trigger that makes a tsquery of a name; or from a type whose input looks for words or objects in the text: tsvector, tsquery, regclass. What is wrong with
// the statement has a position in it, except for the codes named here.
func inRow(pe *pgconn.PgError) bool {
	switch pe.Code {
	case "42P05":
		return false
	case "42501", "42P10", "428C9":
		return pe.Where != ""
	}
	return pe.Where != "" || pe.Position == 0
}

// named are the files of the server that name constraints, columns and types from its catalog. RAISE gives such names too, and may make them of values.
var named = []string{"execMain.c", "execIndexing.c", "execPartition.c", "execExprInterp.c", "nbtinsert.c", "ri_triggers.c", "domains.c"}

// rowMessage words an error of a row by the names of the schema alone.
func rowMessage(pe *pgconn.PgError) string {
	at := ""
	switch {
	case !slices.Contains(named, pe.File):
	case pe.ConstraintName != "":
		at = fmt.Sprintf(" (constraint %s", pe.ConstraintName)
	case pe.ColumnName != "":
		at = fmt.Sprintf(" (column %s", pe.ColumnName)
	case pe.DataTypeName != "":
		at = fmt.Sprintf(" (type %s", pe.DataTypeName)
	}
	if pe.TableName != "" && at != "" {
		at += " of table " + pe.TableName
	}
	if at != "" {
		at += ")"
	}
	if pe.Routine == "ExecFindPartition" {
		return "no partition of the table takes it; create one" + at
	}
	switch pe.Code {
	case "23502":
		return "a column that must have a value would be null" + at
	case "23503":
		return "it refers to a row that is not there, or one that refers to it would be left alone" + at
	case "23505":
		return "another row already has a value that must be unique" + at
	case "23514", "44000":
		return "the database's check refuses it" + at
	case "23P01":
		return "it conflicts with another row" + at
	case "22001":
		return "a text is longer than its column" + at
	case "22003":
		return "a number is outside its column's range" + at
	case "22P02", "22007", "22008", "22P03":
		return "a value is not of its column's type" + at
	case "22021", "22P05":
		return "a text has a character that the database's encoding lacks" + at
	case "21000":
		return "two records of the batch have the same key"
	case "54000":
		return "a value is too large for an index" + at
	}
	if pe.Where == "" && pe.Code[:2] == "42" {
		return "a value cannot be read as its column's type, or names an object that is not there" + at
	}
	if strings.HasPrefix(pe.Code, "P0") || pe.Code[0] == '3' || pe.Where != "" && pe.Code[:2] == "42" {
		return "a trigger or function of the database refuses it" + at
	}
	return "the database refuses its content" + at
}

// stale reports whether an error may come from a catalog read before the table was changed.
func stale(err error) bool {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return false
	}
	switch pe.Code {
	case "42703", "42P01", "42P10", "42704", "42804", "428C9", "0A000", "3F000":
		return !isEncoding(pe) && !isRow(pe)
	}
	return false
}

// lost reports whether the session that gave an error is of no more use, and why others of the pool are not either.
func lost(err error) (session, all bool) {
	var pe *pgconn.PgError
	if !errors.As(err, &pe) {
		return false, false // pgx has closed it, if it was the connection's fault
	}
	switch {
	case pe.Code == "25006":
		// After a switch-over, the whole pool is connected to the server that was the primary.
		return true, true
	case strings.HasPrefix(pe.Code, "57P") || strings.HasPrefix(pe.Code, "08") || pe.Code == "42P05" || pe.Code == "26000":
		return true, false
	}
	return false, false
}
