package tryton

import (
	"encoding/json"
	"regexp"

	"syncd/connectors"
)

func fault(op string, o connectors.Outcome) *connectors.Error {
	return &connectors.Error{Outcome: o, Op: op}
}

// outcome is the outcome of an error of a call.
func outcome(err error) connectors.Outcome {
	if e, ok := err.(*connectors.Error); ok { //nolint:errorlint // do returns this very type
		return e.Outcome
	}
	return connectors.Fail(connectors.Unknown, "error", "%s", err)
}

// doubt is the outcome of a call of which nobody knows what became.
func doubt(write bool, code, message string) connectors.Outcome {
	if write {
		return connectors.Fail(connectors.Unknown, code, "%s", message)
	}
	return connectors.Fail(connectors.Transient, code, "%s", message)
}

// status corrects what an HTTP status means here. The application answers with
// 200; other statuses come from what is around it, and none speaks of a record.
func status(o connectors.Outcome) connectors.Outcome {
	switch o.Code {
	case "http_403":
		// A method that is not exposed, or a firewall.
		o.Class, o.Message = connectors.Auth, "the server forbids the call (403); a module is missing, or something before the server refuses"
	case "http_404":
		// Also what a login is answered while the database is away.
		o.Class, o.Code = connectors.Transient, "no_database"
		o.Message = "the server has no such database, or cannot reach it just now, or url is not its address (404)"
	}
	o.Answered = false
	return o
}

// exception translates the error member: a typed exception of Tryton, or the
// text of any other one.
// https://docs.tryton.org/6.0/server/ref/exceptions.html
func exception(raw json.RawMessage, write bool, hide []string) connectors.Outcome {
	var parts []json.RawMessage
	var name string
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &name) != nil {
		return doubt(write, "exception", "the server failed")
	}
	switch name {
	case "UserError":
		return connectors.Fail(connectors.Invalid, "user_error", "%s", sentence(detail(parts, 0), hide))
	case "UserWarning":
		// Its first part is a name by which a person's answer is remembered.
		return connectors.Fail(connectors.Invalid, "user_warning", "the server wants a person to confirm: %s", sentence(detail(parts, 1), hide))
	case "ConcurrencyException":
		return connectors.Fail(connectors.Conflict, "concurrency", "the record was changed meanwhile")
	case "LoginException":
		return connectors.Fail(connectors.Auth, "login", "the session is refused")
	case "RateLimitException":
		return connectors.Fail(connectors.Throttled, "rate_limit", "too many logins")
	}
	// Anything else is the text of some exception. Whether the transaction was
	// committed it does not say: work goes on after that, too.
	text := excerpt(name, hide)
	if infrastructure(name) {
		// No word of the record: it must not count against it.
		return doubt(write, "database", "the server's database failed: "+text)
	}
	o := doubt(write, "exception", "the server failed: "+text)
	o.Answered = write
	return o
}

// detail is a part of what a typed exception tells a person.
func detail(parts []json.RawMessage, n int) string {
	if len(parts) < 2 {
		return "refused"
	}
	var text string
	if json.Unmarshal(parts[1], &text) == nil {
		return text
	}
	var list []json.RawMessage
	if json.Unmarshal(parts[1], &list) == nil && len(list) > n && json.Unmarshal(list[n], &text) == nil && text != "" {
		return text
	}
	return "refused"
}

var (
	// keyText is the text of a KeyError: the name of a field or a model.
	keyText = regexp.MustCompile(`^'[A-Za-z_][A-Za-z0-9_.]*'$`)
	// troubles are words of errors that come from the way to the database, or from
	// others who use it at the same time.
	troubles = regexp.MustCompile(`(?i)\b(connections?|connect|terminat\w+|recovery|starting up|shutting down|shutdown|clients already|` +
		`locks?|locked|deadlock\w*|serializ\w+|time ?out|timed out|SSL|out of (memory|shared memory)|no space left|read-only transaction|` +
		`pool|cursor already closed|broken pipe|I/O error|could not (read|write|extend|open)|too many)\b`)
)

// infrastructure reports whether an exception's text tells of trouble that has
// nothing to do with the record.
func infrastructure(text string) bool {
	return !keyText.MatchString(text) && troubles.MatchString(text)
}
