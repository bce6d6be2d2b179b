package postgres

import (
	"context"
	"errors"
	"fmt"
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

// outcome translates a failure. SQLSTATEs are those of https://www.postgresql.org/docs/current/errcodes-appendix.html. Of what the
// server says only names of the schema are shown: its texts quote values.
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
	return err.Error()
}

// answered translates an error that the server reported.
func (f *failure) answered(pe *pgconn.PgError) connectors.Outcome {
	o := connectors.Outcome{Class: connectors.Transient, Code: "sqlstate_" + pe.Code}
	fatal := pe.Severity == "FATAL" || pe.Severity == "PANIC" || pe.SeverityUnlocalized == "FATAL" || pe.SeverityUnlocalized == "PANIC"
	switch class := pe.Code[:min(2, len(pe.Code))]; {
	case pe.Code == "40003", f.phase == committing && (fatal || class == "08" || class == "57" || class == "58"):
		o.Class, o.Message = connectors.Unknown, "the server ended the session while the transaction was committed"
	case class == "28":
		o.Class, o.Message = connectors.Auth, "the server refuses this role: "+pe.Message+"; look at user, password and the server's pg_hba.conf"
	case pe.Code == "3D000":
		o.Class, o.Message = connectors.Auth, pe.Message+"; look at database"
	case pe.Code == "53300":
		o.Class, o.Message = connectors.Throttled, "the server has no connection left for us; raise max_connections there, or the role's limit, or lower concurrency here"
	case pe.Code == "25006":
		o.Message = "the server takes no writes: a standby, or a primary of yesterday; new connections will be made"
	case isRow(pe.Code):
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
		o.Class, o.Message = connectors.Invalid, pe.Message+"; GRANT it to this role"
	case class == "42", class == "3F", class == "0A", class == "55" && pe.Code != "55P03" && pe.Code != "55006":
		o.Class, o.Message = connectors.Invalid, pe.Message+"; look at the configuration of this entity or stream against the database"
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

// isRow reports whether an error is about the content of a row, so that the other rows of its statement can do without it.
func isRow(code string) bool {
	if len(code) != 5 {
		return false
	}
	switch code[:2] {
	case "21", "22", "23", "38", "39", "44", "54", "P0":
		return true
	}
	return code == "40002"
}

// rowMessage words an error of a row by the names of the schema alone.
func rowMessage(pe *pgconn.PgError) string {
	at := ""
	switch {
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
	if strings.HasPrefix(pe.Code, "P0") || pe.Code[0] == '3' {
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
		return !isEncoding(pe)
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
