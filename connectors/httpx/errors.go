package httpx

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Kind says how far a request came.
type Kind string

// Kinds of errors.
const (
	// NotSent: nothing that the server could act upon was sent. The name could
	// not be resolved, no connection or TLS session was made, no token could be had.
	NotSent Kind = "not_sent"
	// Unknown: the request was or may have been sent, and what came back does not
	// tell what became of it: nothing, a 408, a 5xx, an answer that was cut. For a
	// write that means that it may have been done; a read has merely failed.
	Unknown Kind = "unknown"
	// Throttled: refused for quota. The gate knows.
	Throttled Kind = "throttled"
	// Paused: the gate let nothing out.
	Paused Kind = "paused"
	// Auth: the credentials are refused, by the server after a refresh where one
	// is possible, or by the token endpoint.
	Auth Kind = "auth"
	// Status: the server answered with another status than was asked for, and the
	// answer says that it refused. What it refused, and why, the connector tells
	// from Response.
	Status Kind = "status"
	// Redirect: the server, or a link it gave, points elsewhere. The setting of the
	// client's URL has to be changed, or the server's.
	Redirect Kind = "redirect"
	// TooLarge: the answer to a read, or with Sent false the body to be sent,
	// exceeds its limit.
	TooLarge Kind = "too_large"
	// BadBody: the answer to a read was received whole and makes no sense.
	BadBody Kind = "bad_body"
	// Canceled: the caller's context ended, before anything was sent or during a
	// read. A write that may have been sent is Unknown with code "canceled".
	Canceled Kind = "canceled"
	// Invalid: the request as given cannot be made: a header value with a line
	// break, a path with a query.
	Invalid Kind = "invalid"
)

// CodeTooDear is the code of a Status error for a call that takes more than the client's whole quota: it is refused whenever it is sent.
const CodeTooDear = "too_dear"

// Error is every error of this package's requests. Its text names client,
// method and path, never a query, a credential or a body.
type Error struct {
	Kind   Kind
	Client string
	Method string
	// Path is the path of the URL, without query.
	Path string
	// URL is what was asked, without user, query and fragment.
	URL string
	// Write is the request's own.
	Write bool
	// Status is the HTTP status, 0 without an answer.
	Status int
	// Code names the cause in a short and stable way: "http_500", "dns",
	// "no_such_host", "connect", "tls", "address_refused", "timeout", "reset",
	// "closed", "protocol", "canceled", "cut", "gzip", "encoding", "charset", "too_large",
	// "not_json", "empty_body", "redirect", "foreign_url", "too_many_redirects",
	// "paused", "throttled", "too_dear", "request", "request_too_large", and "token_…" for the
	// token endpoint.
	Code string
	// Detail tells a person what happened and, where that is known, what to do.
	Detail string
	// RetryAfter is how long the server asks to wait, at most the client's
	// max_pause, or how long the pause goes on; 0 if nobody knows.
	RetryAfter time.Duration
	// Sent reports whether any byte that the server could act upon may have left.
	// A request refused with 401 was not acted upon.
	Sent bool
	// Shape says what an answer that makes no sense looks like, without anything of
	// what it holds: "512 bytes, sent as
	// text/html, beginning as HTML or XML". For logs.
	Shape string

	resp *Response
	err  error
}

// Response returns the answer when one was received with its status and, as
// far as it came, its body; else nil.
func (e *Error) Response() *Response { return e.resp }

// Unwrap returns the cause, such as a context's error or a *ratelimit.PausedError.
func (e *Error) Unwrap() error { return e.err }

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "client %q: %s %s: ", e.Client, e.Method, e.Path)
	switch e.Kind {
	case NotSent, Paused, Invalid:
		b.WriteString("not sent: ")
	case Unknown:
		if e.Write {
			b.WriteString("outcome unknown: ")
		}
	case Throttled:
		b.WriteString("throttled: ")
	case Auth:
		b.WriteString("credentials refused: ")
	case Canceled:
		b.WriteString("canceled: ")
	}
	b.WriteString(e.Detail)
	if e.RetryAfter > 0 && e.Kind != Paused { // a pause says when it ends
		fmt.Fprintf(&b, ", retry after %s", e.RetryAfter)
	}
	return b.String()
}

// statusText is "503 Service Unavailable".
func statusText(code int) string {
	if t := http.StatusText(code); t != "" {
		return fmt.Sprintf("%d %s", code, t)
	}
	return fmt.Sprint(code)
}

func statusCode(status int) string { return fmt.Sprintf("http_%d", status) }

// shape says what a body looks like: its length, what its header says it is, and
// what it begins like. Nothing of its content is in it, since an answer may hold
// what a shop knows of its customers.
func shape(resp *Response) string {
	return fmt.Sprintf("%d bytes, sent as %s, beginning as %s", len(resp.Body), mediaType(resp.ContentType), beginning(resp.Body))
}

// mediaType is one of the usual types, since a header may hold anything.
func mediaType(t string) string {
	switch t {
	case "":
		return "nothing"
	case "application/json", "application/problem+json", "application/xml", "application/xhtml+xml", "application/octet-stream",
		"text/html", "text/plain", "text/xml", "text/json", "text/csv", "text/javascript":
		return t
	}
	if strings.HasSuffix(t, "+json") {
		return "a type of JSON"
	}
	return "another type"
}

// beginning names the kind of a body's first byte that is not blank.
func beginning(body []byte) string {
	body = trimStart(body)
	if len(body) == 0 {
		return "nothing but blanks"
	}
	switch c := body[0]; {
	case c == '<':
		return "HTML or XML"
	case c == '{':
		return "an object"
	case c == '[':
		return "a list"
	case c == '"':
		return "a text"
	case c == '-', '0' <= c && c <= '9':
		return "a number"
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		return "a word"
	case c >= 0x80:
		return "bytes beyond ASCII"
	case c < ' ':
		return "a control character"
	}
	return "a sign"
}
