package httpx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"syncd/ratelimit"
)

// Gate says whether the client may be called, and learns from its answers.
// *ratelimit.Gate is one.
type Gate interface {
	// Enter waits for leave to make one call. It returns a *ratelimit.PausedError at once
	// when the client is paused, and the context's error when that ends. The pass is shown
	// the answer, or dropped when none comes.
	Enter(ctx context.Context, a ratelimit.Ask) (ratelimit.Pass, error)
	// Longest bounds what a server may have anyone wait, also where its answer
	// closes no gate.
	Longest() time.Duration
}

// Limits and defaults of Options.
const (
	defaultTimeout        = 30 * time.Second
	defaultMaxBody        = 32 << 20
	defaultMaxRequestBody = 8 << 20
	defaultConcurrency    = 4
	maxTimeout            = 24 * time.Hour
)

// Options of a client's HTTP side.
type Options struct {
	// Client is the client's name in the configuration.
	Client string
	Gate   Gate
	// BaseURL is where the API is: http or https, without user, query and fragment.
	BaseURL *url.URL
	// Auth puts credentials on requests; nil for none.
	Auth Authorizer
	// Timeout bounds one request as a whole, from its connection to the last byte
	// of the answer; 0 means 30 s, at most 24 h. Time spent at the gate is not counted.
	Timeout time.Duration
	// MaxBody bounds the body of an answer, decompressed, in bytes; 0 means 32 MiB.
	MaxBody int64
	// MaxRequestBody bounds the body of a request in bytes; 0 means 8 MiB.
	MaxRequestBody int64
	// Concurrency is how many requests may be under way at once; so many idle
	// connections are kept. 0 means 4.
	Concurrency int
	// UserAgent names the caller; "" means "syncd".
	UserAgent string
	// CAFile is a PEM file with certificate authorities to trust beside the
	// system's; "" for none. Verification cannot be turned off.
	CAFile string
	// Quota is how the server tells its quota in headers; the zero value reads what is usual.
	Quota ratelimit.Dialect
	// Signal lets a connector add to an answer's signal what its platform says in
	// a body, such as a refusal for quota with status 200. It gets the common
	// reading of status and headers; nil for platforms that say all there.
	Signal func(resp *Response, sig ratelimit.Signal) ratelimit.Signal
	// Proxy chooses a proxy for a request, as in net/http; nil means none, also
	// when the environment names one.
	Proxy func(*http.Request) (*url.URL, error)
	// Conceal is told the credentials that requests bear, so that texts which repeat
	// them can be cleaned: some are fetched and stand in no configuration. nil for none.
	Conceal func(credential string)
	Log     *slog.Logger
	// Now tells the time; nil means the system's clock.
	Now func() time.Time

	// Dial takes the place of the network and of the check of addresses, in tests.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Transport takes the place of connections altogether, in tests. What was sent
	// is then not known exactly: all but a failed dial counts as sent.
	Transport http.RoundTripper
}

// Client makes requests for one client of the configuration. It is safe for
// concurrent use.
type Client struct {
	name           string
	gate           Gate
	base           *url.URL
	auth           Authorizer
	timeout        time.Duration
	maxBody        int64
	maxRequestBody int64
	userAgent      string
	quota          ratelimit.Dialect
	signal         func(*Response, ratelimit.Signal) ratelimit.Signal
	told           told
	log            *slog.Logger
	now            func() time.Time
	transport      http.RoundTripper
}

// New checks the options and makes a client. It sends nothing.
func New(o Options) (*Client, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("client %q: %w", o.Client, err)
	}
	base := *o.BaseURL
	c := &Client{
		name: o.Client, gate: o.Gate, base: &base, auth: o.Auth, quota: o.Quota, signal: o.Signal,
		timeout:        orDefault(o.Timeout, defaultTimeout),
		maxBody:        orDefault(o.MaxBody, defaultMaxBody),
		maxRequestBody: orDefault(o.MaxRequestBody, defaultMaxRequestBody),
		userAgent:      orDefault(o.UserAgent, "syncd"),
		told:           told{conceal: o.Conceal},
		log:            o.Log, now: o.Now, transport: o.Transport,
	}
	if c.auth == nil {
		c.auth = none{}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.log = c.log.With("client", c.name)
	if c.now == nil {
		c.now = time.Now
	}
	if c.transport == nil {
		t, err := newTransport(o)
		if err != nil {
			return nil, fmt.Errorf("client %q: %w", o.Client, err)
		}
		c.transport = t
	}
	return c, nil
}

func (o Options) check() error {
	switch {
	case o.Client == "":
		return errors.New("the client has no name")
	case o.Gate == nil:
		return errors.New("there is no gate to ask")
	case o.BaseURL == nil:
		return errors.New("url is missing")
	case o.BaseURL.User != nil:
		return errors.New("url holds a user name or password; credentials belong into auth")
	case o.BaseURL.Scheme != "http" && o.BaseURL.Scheme != "https":
		return errors.New("url must begin with https:// or http://")
	case o.BaseURL.Hostname() == "":
		return errors.New("url names no host")
	case o.BaseURL.RawQuery != "" || o.BaseURL.ForceQuery || o.BaseURL.Fragment != "":
		return errors.New("url must end with a path, without ? and #")
	case o.Timeout < 0 || o.Timeout > maxTimeout:
		return fmt.Errorf("timeout %s is not between 0s and %s", o.Timeout, maxTimeout)
	case o.MaxBody < 0 || o.MaxRequestBody < 0:
		return errors.New("a limit on bodies is negative")
	case o.Concurrency < 0:
		return fmt.Errorf("concurrency %d is negative", o.Concurrency)
	case o.UserAgent != "" && !isFieldValue(o.UserAgent):
		return errors.New("the user agent holds a control character")
	}
	return nil
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Close closes idle connections. Requests under way are not touched.
func (c *Client) Close() {
	if t, ok := c.transport.(interface{ CloseIdleConnections() }); ok {
		t.CloseIdleConnections()
	}
}

// fail completes an error with what it is about, and logs it at debug.
func (c *Client) fail(x *call, e *Error) *Error {
	e.Client, e.Method, e.Path, e.Write = c.name, x.Method, short(x.url.EscapedPath()), x.Write
	e.URL = bare(x.url)
	if e.Path == "" {
		e.Path = "/"
	}
	c.log.Debug("request failed", "method", e.Method, "path", e.Path, "kind", string(e.Kind), "code", e.Code,
		"status", e.Status, "sent", e.Sent, "write", e.Write, "shape", e.Shape)
	return e
}
