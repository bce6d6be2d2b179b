package connectors

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"syncd/connectors/httpx"
)

// FromHTTP translates a failure of package httpx into an outcome, by the rules
// that hold for every platform. write says whether the request was meant to
// change something: the same timeout leaves a write in doubt and has merely
// failed a read. What only a platform's own codes can tell (a duplicate behind
// a 500, a throttling behind a 400, a 403 that concerns one record) its
// connector looks up first. err must not be nil.
func FromHTTP(err error, write bool) Outcome {
	var own *Error
	if errors.As(err, &own) {
		return own.Outcome
	}
	var e *httpx.Error
	if !errors.As(err, &e) {
		// Nobody said how far the request came.
		return inDoubt(Outcome{Code: "error", Message: err.Error()}, write)
	}
	o := Outcome{Code: e.Code, Message: e.Detail, RetryAfter: e.RetryAfter}
	switch e.Kind {
	case httpx.NotSent:
		o.Class = Transient
	case httpx.Throttled:
		o.Class = Throttled
	case httpx.Paused:
		o.Class = Paused
	case httpx.Auth:
		o.Class = Auth
	case httpx.Redirect:
		o.Class, o.Code = Invalid, "redirect"
		if write && e.Status == http.StatusSeeOther {
			// "The answer to what you sent is elsewhere": it may well have been done.
			// https://www.rfc-editor.org/rfc/rfc9110#section-15.4.4
			o.Class = Unknown
		}
	case httpx.TooLarge, httpx.Invalid:
		o.Class = Invalid
		if write && e.Sent {
			o.Class = Unknown
		}
	case httpx.Canceled:
		o.Class = Transient
		if write && e.Sent {
			o.Class = Unknown
		}
	case httpx.Status:
		return fromStatus(o, e.Status, write)
	default: // Unknown, BadBody, and whatever may be added
		o = inDoubt(o, write)
		o.Answered = o.Class == Unknown && e.Status == http.StatusInternalServerError && hasBody(e)
	}
	return o
}

// HTTPError is FromHTTP for a read, as an error. op says what was attempted on
// what: "list orders".
func HTTPError(op string, err error) *Error {
	return &Error{Outcome: FromHTTP(err, false), Op: op, Err: err}
}

// fromStatus classifies an answer by which the server says that it refused.
func fromStatus(o Outcome, status int, write bool) Outcome {
	if o.Code == "" {
		o.Code = "http_" + strconv.Itoa(status)
	}
	switch {
	case o.Code == httpx.CodeTooDear: // with whatever status; no pause helps
		o.Class = Invalid
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden:
		o.Class = Auth
	case status == http.StatusConflict, status == http.StatusPreconditionFailed, status == http.StatusLocked:
		o.Class = Conflict
	case status == http.StatusTooManyRequests, status == 509: // 509 Bandwidth Limit Exceeded, in no standard
		o.Class = Throttled
	case status == http.StatusRequestTimeout:
		o = inDoubt(o, write)
	case status == http.StatusTooEarly: // RFC 8470: not processed, to be sent again later
		o.Class = Transient
	case status == http.StatusNotImplemented, status == http.StatusHTTPVersionNotSupported:
		o.Class = Invalid
	case status >= 500:
		o = inDoubt(o, write)
	case status >= 300 && status < 400:
		o.Class, o.Code = Invalid, "redirect"
	default:
		o.Class = Invalid
	}
	return o
}

func inDoubt(o Outcome, write bool) Outcome {
	o.Class = Transient
	if write {
		o.Class = Unknown
	}
	return o
}

func hasBody(e *httpx.Error) bool {
	r := e.Response()
	return r != nil && len(strings.TrimSpace(string(r.Body))) > 0
}

// ThroughLink makes of a 404 or 410 to a request that went to a record's own
// address, under the target's own id, what it means there: the record is gone.
func ThroughLink(o Outcome) Outcome {
	if o.Class == Invalid && (o.Code == "http_404" || o.Code == "http_410") {
		o.Class = Missing
	}
	return o
}

// OnCreate marks a refused create that may have been refused because the
// record exists already. Servers say that with 409, but also with 400, 422 and
// even 500, mostly in words that must not be parsed; looking the key up costs
// one read.
func OnCreate(o Outcome) Outcome {
	switch o.Code {
	case "http_400", "http_409", "http_422", "http_500":
		o.MaybeDuplicate = o.Class == Invalid || o.Class == Conflict || o.Class == Unknown
	}
	return o
}
