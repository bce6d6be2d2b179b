package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"syncd/jobs"
)

// SQLSTATE codes, from https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	readOnlyTransaction  = "25006"
	idleInTransaction    = "25P03"
	uniqueViolation      = "23505"
	duplicateSchema      = "42P06"
	duplicateTable       = "42P07"
	duplicateObject      = "42710"
	duplicateStatement   = "42P05"
	noSuchStatement      = "26000"
	protocolViolation    = "08P01"
	invalidPassword      = "28P01"
	invalidAuthorization = "28000"
	noSuchDatabase       = "3D000"
	noPrivilege          = "42501"
	diskFull             = "53100"
	tooManyConnections   = "53300"
)

// sqlstate is the server's code of an error; "" when it is not the server's.
func sqlstate(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// fatal reports an error with which the server ended the connection.
func fatal(err error) bool {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return false
	}
	severity := e.SeverityUnlocalized
	if severity == "" {
		severity = e.Severity
	}
	return severity == "FATAL" || severity == "PANIC"
}

// unusable reports that the connection, or the server behind it, is no longer
// one to write to: shut down, lost, or a standby since a failover.
func unusable(err error) bool {
	code := sqlstate(err)
	return code == readOnlyTransaction || strings.HasPrefix(code, "57P") || strings.HasPrefix(code, "08") || fatal(err)
}

// again reports an error, from before the commit, after which the transaction can
// be run again: the server chose it to give way, or the connection broke. A server
// that cannot be reached at all is the caller's to wait for.
func again(err error) bool {
	var connect *pgconn.ConnectError
	if errors.Is(err, jobs.ErrBusy) || errors.As(err, &connect) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	switch sqlstate(err) {
	case serializationFailure, deadlockDetected, lockNotAvailable:
		return true
	case idleInTransaction:
		return false
	case "":
		return brokenConnection(err)
	}
	return unusable(err)
}

// brokenConnection reports an error of the connection itself, in the network's words.
func brokenConnection(err error) bool {
	var network net.Error
	return errors.Is(err, pgconn.ErrConnClosed) || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network)
}

// rolledBack reports an error of COMMIT that says for certain that nothing was
// committed. Every other one leaves it open.
func rolledBack(err error) bool {
	if errors.Is(err, pgx.ErrTxCommitRollback) || pgconn.SafeToRetry(err) {
		return true
	}
	return sqlstate(err) != "" && !unusable(err)
}

// raced reports that somebody else made the same schema or table at the same time.
func raced(err error) bool {
	switch sqlstate(err) {
	case uniqueViolation, duplicateSchema, duplicateTable, duplicateObject:
		return true
	}
	return false
}

// explain adds to an error of the server what a person can do about it.
func (e *Engine) explain(err error) error {
	if err == nil {
		return nil
	}
	advice := ""
	switch sqlstate(err) {
	case duplicateStatement, noSuchStatement:
		advice = "a transaction pooler seems to stand before the server; set pooler: true"
	case protocolViolation:
		if strings.Contains(err.Error(), "startup parameter") {
			advice = "a pooler stands before the server; set pooler: true"
		}
	case invalidPassword, invalidAuthorization:
		advice = "check the user, the password and pg_hba.conf"
	case noSuchDatabase:
		advice = "make the database first (CREATE DATABASE …)"
	case noPrivilege:
		advice = fmt.Sprintf("let an administrator run CREATE SCHEMA %s AUTHORIZATION and the role that syncd connects as, or make that role the owner of what is in it", e.o.Schema)
	case diskFull:
		advice = "no space is left on the database server; nothing was changed; make space; a daemon that runs goes on by itself"
	case tooManyConnections:
		advice = "raise max_connections on the server, lower journal.postgres.connections, or end other connections to it"
	}
	var connect *pgconn.ConnectError
	if advice == "" && errors.As(err, &connect) && sqlstate(err) == "" {
		advice = "check that the server runs and can be reached at " + strings.TrimPrefix(e.place, "postgresql ")
	}
	if advice == "" || errors.Is(err, jobs.ErrInUse) {
		return err
	}
	return fmt.Errorf("%s (%w)", advice, err)
}
