package httpx

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"syncd/internal/mutant"
)

// Request is one call.
type Request struct {
	// Method is an HTTP method in capitals; "" means GET.
	Method string
	// Path is added to the client's base URL, percent-encoded where needed,
	// without a query. A leading slash makes no difference.
	Path string
	// URL, given in place of Path, is a whole URL or a reference relative to the
	// base URL, such as a link to the next page. It must lead to the configured
	// scheme, host and port.
	URL string
	// Query is added to the URL's.
	Query  url.Values
	Header http.Header
	Body   []byte
	// Write says that the call may change something at the server. Without it the
	// call is a read, whatever its method, and may be sent a second time.
	Write bool
	// Shape names calls that cost the same and are counted by the server alike, such as the path of a listing or the
	// name of a query, without anything about a record; "" for one that is like all others.
	Shape string
	// Cost is what the call is predicted to take of the client's quota, in the server's unit; 0 for what calls of its
	// shape took so far, or 1.
	Cost float64
	// Accept lists statuses that are no error, besides 2xx.
	Accept []int

	// maxBody, if not 0, takes the place of the client's limit.
	maxBody int64
}

// Response is the answer to a call.
type Response struct {
	Status int
	Header http.Header
	// Body is the whole body, decompressed and in UTF-8, if it says what charset it is
	// in and that is one we know; nil when there was none. Of an answer that is an
	// error at most 1 MiB is kept.
	Body []byte
	// Truncated says that Body is not all: it was cut on the way, or by that limit.
	// Answers that are no error are never truncated.
	Truncated bool
	// ContentType is the media type in small letters, without parameters.
	ContentType string
	// ServerTime is the answer's Date; zero when it had none.
	ServerTime time.Time
	// Started is when the request was about to be sent, after the gate.
	Started time.Time
	// Received is when the answer's header was there.
	Received time.Time

	retryAfter time.Duration
	foreign    *bodyError // the body is in a charset that cannot be read
}

// call is a request that was checked, on its way.
type call struct {
	*Request
	url    *url.URL
	header http.Header
	// anonymous calls bear no credentials and may leave the client's host: they
	// go to an address from the configuration.
	anonymous bool
}

var errForeign = errors.New("foreign url")

// prepare checks a request as far as that can be done before sending.
func (c *Client) prepare(r *Request) (*call, error) {
	x := &call{Request: r}
	if r.Method == "" {
		copied := *r
		copied.Method = http.MethodGet
		x.Request = &copied
	}
	u, err := c.address(r)
	if err != nil {
		x.url = &url.URL{}
		if errors.Is(err, errForeign) {
			return nil, c.fail(x, &Error{Kind: Redirect, Code: "foreign_url", Detail: err.Error()})
		}
		return nil, c.fail(x, &Error{Kind: Invalid, Code: "request", Detail: err.Error()})
	}
	x.url = u
	if err := checkMethod(x.Method); err != nil {
		return nil, c.fail(x, &Error{Kind: Invalid, Code: "request", Detail: err.Error()})
	}
	if most := c.maxRequestBody; int64(len(r.Body)) > most {
		return nil, c.fail(x, &Error{Kind: TooLarge, Code: "request_too_large",
			Detail: fmt.Sprintf("body of %d bytes exceeds the limit of %d", len(r.Body), most)})
	}
	if x.header, err = c.headers(x.Request); err != nil {
		return nil, c.fail(x, &Error{Kind: Invalid, Code: "request", Detail: err.Error()})
	}
	return x, nil
}

func checkMethod(m string) error {
	if m == http.MethodConnect || m == http.MethodTrace || strings.ToUpper(m) != m || !isToken(m) {
		return fmt.Errorf("method %q cannot be used", m)
	}
	return nil
}

// address builds the URL. No error text repeats a query.
func (c *Client) address(r *Request) (*url.URL, error) {
	var u *url.URL
	var err error
	if r.URL != "" {
		if r.Path != "" {
			return nil, errors.New("both a path and a URL are given")
		}
		u, err = c.reference(r.URL)
	} else {
		u, err = c.join(r.Path)
	}
	if err != nil {
		return nil, err
	}
	if len(r.Query) > 0 {
		// A space as %20 is understood everywhere, a plus sign is not.
		q := strings.ReplaceAll(r.Query.Encode(), "+", "%20")
		if u.RawQuery != "" {
			q = u.RawQuery + "&" + q
		}
		u.RawQuery = q
	}
	return u, nil
}

// join adds a path to the base URL.
func (c *Client) join(path string) (*url.URL, error) {
	u := *c.base
	if path == "" {
		return &u, nil
	}
	if strings.ContainsAny(path, "?#") {
		return nil, errors.New("path holds ? or #; a query is given by itself, and in a name they are written %3F and %23")
	}
	raw := strings.TrimRight(u.EscapedPath(), "/") + "/" + strings.TrimLeft(path, "/")
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return nil, errors.New("path holds a % that begins no percent-encoding; it is written %25")
	}
	for part := range strings.SplitSeq(plain, "/") {
		if part == "." || part == ".." {
			return nil, errors.New("path leads upwards")
		}
	}
	u.Path, u.RawPath = plain, raw
	return &u, nil
}

// reference resolves a URL that may come from a server.
func (c *Client) reference(ref string) (*url.URL, error) {
	parsed, err := url.Parse(ref)
	if err != nil {
		return nil, errors.New("the URL cannot be read") // its text may hold a credential
	}
	u := c.base.ResolveReference(parsed)
	u.Fragment, u.RawFragment = "", ""
	if u.User != nil || !sameOrigin(u, c.base) {
		return nil, fmt.Errorf("%w: %s is not at %s, where requests and credentials of this client belong", errForeign, bare(u), origin(c.base))
	}
	return u, nil
}

// isToken reports whether s can be a method or the name of a header
// (RFC 9110, 5.6.2, https://www.rfc-editor.org/rfc/rfc9110#name-tokens).
func isToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return s != ""
}

// isFieldValue reports whether s can be the value of a header.
func isFieldValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}

// headers copies the request's headers and checks them.
func (c *Client) headers(r *Request) (http.Header, error) {
	h := make(http.Header, len(r.Header)+3)
	for name, values := range r.Header {
		if !isToken(name) {
			return nil, fmt.Errorf("header name %q cannot be used", name)
		}
		for _, v := range values {
			if !isFieldValue(v) {
				return nil, fmt.Errorf("the value of header %s holds a line break or another control character", name)
			}
		}
		h[http.CanonicalHeaderKey(name)] = values
	}
	// The message's framing is the transport's business.
	for _, name := range []string{"Connection", "Content-Length", "Expect", "Host", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Accept-Encoding"} {
		delete(h, name) // as CanonicalHeaderKey writes it
	}
	h.Set("Accept-Encoding", "gzip")
	if h.Get("User-Agent") == "" {
		h.Set("User-Agent", c.userAgent)
	}
	if r.Write && !mutant.On("write-rewound") {
		// net/http takes a request with one of these for safe to repeat, and sends a
		// write without a body a second time when the connection breaks. It looks for
		// the canonical spelling only; servers must not care about case.
		// https://pkg.go.dev/net/http#Transport
		for _, name := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
			if v, ok := h[name]; ok {
				delete(h, name)
				h[strings.ToLower(name)] = v
			}
		}
	}
	return h, nil
}

// message makes the request for the wire, with a body that the transport
// cannot rewind.
func (x *call) message() *http.Request {
	h := x.header.Clone()
	r := &http.Request{Method: x.Method, URL: x.url, Host: x.url.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	switch {
	case len(x.Body) > 0:
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(x.Body)), int64(len(x.Body))
		if mutant.On("write-rewound") {
			r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.Body)), nil }
		}
	case x.Write && safeMethod(x.Method):
		// A GET that changes something: an empty body keeps the transport from
		// repeating it, and is not seen on the wire.
		r.Body = io.NopCloser(bytes.NewReader(nil))
	}
	return r
}

func safeMethod(m string) bool {
	return m == http.MethodGet || m == http.MethodHead || m == http.MethodOptions
}

// origin is scheme, host and port.
func origin(u *url.URL) string { return u.Scheme + "://" + u.Host }

func sameOrigin(a, b *url.URL) bool {
	return strings.EqualFold(a.Scheme, b.Scheme) && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if strings.EqualFold(u.Scheme, "https") {
		return "443"
	}
	return "80"
}

// bare is a URL without credentials, query and fragment, of bounded length.
func bare(u *url.URL) string {
	s := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	return short(s)
}

func short(s string) string {
	const most = 200
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
