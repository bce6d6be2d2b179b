package httpx

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptrace"
	"slices"
	"time"

	"syncd/internal/crash"
	"syncd/internal/mutant"
	"syncd/ratelimit"
)

// maxStale is how often a request is given to another connection because the
// one it got had been closed by the server before a byte was written.
const maxStale = 4

// Do makes one request. It waits for the gate, puts on credentials, and reads
// the whole answer. A write is on the wire at most once, unless the server
// refused the credentials (401) and new ones were to be had: then once more. What
// is no write, by whatever method, is sent once more when the kept connection
// that it went out on is closed before the first byte of an answer. A GET or HEAD
// that is no write follows up to five redirects within the configured scheme, host
// and port.
//
// Every error is an *Error; an answer that came with one is in its Response.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	x, err := c.prepare(r)
	if err != nil {
		return nil, err
	}
	return c.run(ctx, x)
}

// send is the Sender for authorizers.
func (c *Client) send(ctx context.Context, r *Request) (*Response, error) {
	u, err := parseAbsolute(r.URL)
	if err != nil {
		return nil, c.fail(&call{Request: r, url: c.base}, &Error{Kind: Invalid, Code: "request", Detail: err.Error()})
	}
	x := &call{Request: r, url: u, anonymous: true}
	if x.header, err = c.headers(r); err != nil {
		return nil, c.fail(x, &Error{Kind: Invalid, Code: "request", Detail: err.Error()})
	}
	return c.run(ctx, x)
}

func (c *Client) run(ctx context.Context, x *call) (*Response, error) {
	refreshed := false
	for hops := 0; ; {
		resp, stamp, err := c.exchange(ctx, x)
		if err != nil {
			return nil, err
		}
		switch {
		case x.accepts(resp.Status):
			return resp, nil
		case x.redirected(resp.Status):
			next, err := c.follow(x, resp, hops)
			if err != nil {
				return nil, err
			}
			x.url = next
			hops++
		case resp.Status == http.StatusUnauthorized && !refreshed && !x.anonymous:
			// A request refused with 401 was not acted upon, so a write may be repeated.
			renewed, err := c.auth.Refresh(ctx, c.send, stamp)
			if err != nil {
				return nil, c.noCredentials(ctx, x, err)
			}
			if !renewed {
				return nil, c.refused(x, resp)
			}
			refreshed = true
		default:
			return nil, c.refused(x, resp)
		}
	}
}

// ask is what the gate is asked for.
func (x *call) ask() ratelimit.Ask {
	a := ratelimit.Ask{Shape: x.Shape, Cost: x.Cost}
	if x.Write {
		a.Kind = ratelimit.Writing
	}
	return a
}

func (x *call) accepts(status int) bool {
	return status >= 200 && status < 300 || status < 400 && status >= 300 && x.Write && mutant.On("redirect-is-success") || slices.Contains(x.Accept, status)
}

// exchange makes one request on the wire, whatever status it is answered with.
func (c *Client) exchange(ctx context.Context, x *call) (*Response, uint64, error) {
	if !x.anonymous {
		if err := c.auth.Prepare(ctx, c.send); err != nil {
			return nil, 0, c.noCredentials(ctx, x, err)
		}
	}
	pass, err := c.gate.Enter(ctx, x.ask())
	if err != nil {
		return nil, 0, c.notAllowed(x, err)
	}
	defer pass.Drop(true) // unless it is ended before
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	started := c.now().UTC()
	raw, stamp, err := c.roundTrip(ctx, limited, x)
	if err != nil {
		if e := (*Error)(nil); errors.As(err, &e) && !e.Sent {
			pass.Drop(false)
		}
		return nil, 0, err
	}
	defer func() { _ = raw.Body.Close() }()
	resp, err := c.receive(ctx, limited, x, raw, started, pass)
	return resp, stamp, err
}

// roundTrip sends the request and waits for the answer's header.
func (c *Client) roundTrip(ctx, limited context.Context, x *call) (*http.Response, uint64, error) {
	again := false // a read was sent and is repeated
	for try := 0; ; try++ {
		var w wire
		trace := w.trace()
		if crash.On {
			trace.WroteRequest = func(httptrace.WroteRequestInfo) { x.crash("sent") }
		}
		m := x.message().WithContext(httptrace.WithClientTrace(limited, trace))
		var stamp uint64
		if !x.anonymous {
			stamp = c.auth.Apply(m)
			c.told.about(x.header, m.Header)
			for name, values := range m.Header {
				if !slices.ContainsFunc(values, func(v string) bool { return !isFieldValue(v) }) {
					continue
				}
				return nil, 0, c.fail(x, &Error{Kind: Auth, Code: "bad_credentials",
					Detail: fmt.Sprintf("the credentials for header %s hold a line break or another control character", name)})
			}
		}
		if crash.On {
			x.crash("unsent")
		}
		raw, err := c.transport.RoundTrip(m)
		if err == nil {
			return raw, stamp, nil
		}
		sent, reused := w.end()
		if !c.exact() {
			sent = !isDial(err)
		}
		switch {
		case !reused || limited.Err() != nil:
		case !sent && try < maxStale:
			continue // the server closed the connection while it was idle; nothing was written
		case sent && !x.Write && !again && !w.answered() && closing(err):
			// The server closed the idle connection just as a read went out on it. The
			// others are as old, so the repeat gets a new one.
			again = true
			c.Close()
			continue
		}
		return nil, 0, c.broken(ctx, limited, x, err, sent)
	}
}

// crash passes the point of a read or a write.
func (x *call) crash(when string) {
	kind := "read."
	if x.Write {
		kind = "write."
	}
	crash.At(kind + when)
}

// exact reports whether connections tell what was written to them.
func (c *Client) exact() bool {
	_, ok := c.transport.(*http.Transport)
	return ok
}

// receive reads the answer and shows it to the gate.
func (c *Client) receive(ctx, limited context.Context, x *call, raw *http.Response, started time.Time, pass ratelimit.Pass) (*Response, error) {
	received := c.now().UTC()
	sig := c.quota.Read(raw.StatusCode, raw.Header, received)
	early := c.signal == nil && sig.Pauses()
	if early { // others must not go on while we read a slow body
		pass.Answer(ctx, sig, received)
	}
	resp := &Response{Status: raw.StatusCode, Header: raw.Header, ServerTime: sig.ServerTime, Started: started, Received: received}
	charset := ""
	if t, params, err := mime.ParseMediaType(raw.Header.Get("Content-Type")); err == nil {
		resp.ContentType, charset = t, params["charset"]
	}
	limit := min(orDefault(x.maxBody, c.maxBody), c.maxBody)
	if !x.accepts(resp.Status) {
		limit = min(limit, maxErrorBody)
	}
	var bad *bodyError
	resp.Body, bad = readBody(raw, limit)
	resp.Truncated = bad != nil
	if crash.On {
		x.crash("answered")
	}
	if bad != nil && x.accepts(resp.Status) {
		return nil, c.unreadable(ctx, limited, x, resp, bad)
	}
	if bad == nil {
		resp.Body, resp.foreign = toUTF8(resp.Body, charset)
	}
	if !early {
		if c.signal != nil {
			sig = c.signal(resp, sig)
		}
		pass.Answer(ctx, sig, received)
	}
	if sig.Throttled {
		return nil, c.fail(x, &Error{Kind: Throttled, Status: resp.Status, Code: "throttled", Detail: statusText(resp.Status),
			RetryAfter: min(sig.RetryAfter, c.gate.Longest()), Sent: true, resp: resp})
	}
	if sig.TooDear {
		return nil, c.fail(x, &Error{Kind: Status, Status: resp.Status, Code: CodeTooDear,
			Detail: "the call takes more than the client's whole quota, and is refused whenever it is sent: " + sig.Evidence, Sent: true, resp: resp})
	}
	resp.retryAfter = min(sig.RetryAfter, c.gate.Longest())
	return resp, nil
}

// refused turns an answer that was not asked for into an error.
func (c *Client) refused(x *call, resp *Response) *Error {
	e := &Error{Kind: Status, Status: resp.Status, Code: statusCode(resp.Status), Detail: statusText(resp.Status),
		RetryAfter: resp.retryAfter, Sent: true, resp: resp, Shape: shape(resp)}
	switch {
	case resp.Status == http.StatusUnauthorized:
		e.Kind, e.Sent = Auth, false
	case unclear(resp.Status):
		e.Kind = Unknown
	}
	return c.fail(x, e)
}

// unclear reports whether a status leaves open what became of a request: the
// server, or something before it, failed or gave up while the request was being
// worked on. 501 and 505 are given before that.
func unclear(status int) bool {
	switch status {
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	case http.StatusRequestTimeout:
		return true
	}
	return status >= 500 || status < 200
}

// unreadable is a body that could not be had, under a status that was asked for.
func (c *Client) unreadable(ctx, limited context.Context, x *call, resp *Response, bad *bodyError) *Error {
	e := &Error{Status: resp.Status, Sent: true, resp: resp, Code: bad.code, Detail: bad.detail, Shape: shape(resp)}
	if bad.code == "" {
		code, detail, err := c.why(ctx, limited, bad.err)
		if code == "closed" {
			code, detail = "cut", bad.detail
		}
		e.Code, e.Detail, e.err = code, fmt.Sprintf("%s while its body was read: %s", statusText(resp.Status), detail), err
	}
	switch {
	case x.Write:
		e.Kind = Unknown
	case e.Code == "canceled":
		e.Kind = Canceled
	case bad.code == "too_large":
		e.Kind = TooLarge
	case bad.code != "":
		e.Kind = BadBody
	default:
		e.Kind = Unknown
	}
	return c.fail(x, e)
}

// broken is a request that no answer came to.
func (c *Client) broken(ctx, limited context.Context, x *call, cause error, sent bool) *Error {
	code, detail, err := c.why(ctx, limited, cause)
	if !sent && code == "protocol" { // a proxy's refusal
		code, detail = "connect", "no connection could be made"
	}
	e := &Error{Code: code, Detail: detail, Sent: sent, err: err}
	switch {
	case sent && x.Write:
		e.Kind = Unknown
	case code == "canceled":
		e.Kind = Canceled
	case !sent:
		e.Kind = NotSent
	default:
		e.Kind = Unknown
	}
	return c.fail(x, e)
}

// notAllowed is a request that the gate did not let out.
func (c *Client) notAllowed(x *call, err error) *Error {
	var paused *ratelimit.PausedError
	if errors.As(err, &paused) {
		e := &Error{Kind: Paused, Code: "paused", Detail: paused.Error(), err: err}
		if !paused.Pause.OpenEnded() {
			e.RetryAfter = max(paused.Pause.Until.Sub(c.now()), 0)
		}
		return c.fail(x, e)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return c.fail(x, &Error{Kind: Canceled, Code: "canceled", Detail: "the caller gave up while waiting for its turn", err: err})
	}
	return c.fail(x, &Error{Kind: NotSent, Code: "gate", Detail: err.Error(), err: err})
}

// noCredentials is a request whose credentials could not be had. The authorizer
// says what that means.
func (c *Client) noCredentials(ctx context.Context, x *call, err error) *Error {
	if e := (*Error)(nil); errors.As(err, &e) {
		copied := *e
		copied.Sent = false
		return c.fail(x, &copied)
	}
	if ctx.Err() != nil {
		return c.fail(x, &Error{Kind: Canceled, Code: "canceled", Detail: "the caller gave up while waiting for credentials", err: ctx.Err()})
	}
	return c.fail(x, &Error{Kind: NotSent, Code: "credentials", Detail: err.Error(), err: err})
}
