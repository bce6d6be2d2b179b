package httpx

import (
	"bytes"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestAddressesAreBuiltFromTheBase(t *testing.T) {
	tests := []struct {
		name string
		base string
		r    Request
		want string
	}{
		{"path below the base", "https://shop.test/api/v2", Request{Path: "orders"}, "https://shop.test/api/v2/orders"},
		{"leading slash makes no difference", "https://shop.test/api/v2/", Request{Path: "/orders"}, "https://shop.test/api/v2/orders"},
		{"trailing slash is kept", "https://shop.test/api", Request{Path: "orders/"}, "https://shop.test/api/orders/"},
		{"no path is the base itself", "https://shop.test/api/", Request{}, "https://shop.test/api/"},
		{"encoded slash stays encoded", "https://shop.test", Request{Path: "products/TEA%2F1"}, "https://shop.test/products/TEA%2F1"},
		{"blank is encoded", "https://shop.test", Request{Path: "products/green tea"}, "https://shop.test/products/green%20tea"},
		{"query is encoded without plus signs", "https://shop.test", Request{Path: "x", Query: url.Values{"f": {"[a b+c]"}}}, "https://shop.test/x?f=%5Ba%20b%2Bc%5D"},
		{"relative link", "https://shop.test/api/v2", Request{URL: "/api/v2/orders?page=2"}, "https://shop.test/api/v2/orders?page=2"},
		{"whole link", "https://shop.test/api", Request{URL: "https://shop.test:443/other?c=a%2Bb"}, "https://shop.test:443/other?c=a%2Bb"},
		{"link in capitals", "https://shop.test/api", Request{URL: "HTTPS://Shop.Test/other"}, "https://Shop.Test/other"},
		{"link without its fragment", "https://shop.test/api", Request{URL: "/x#top"}, "https://shop.test/x"},
		{"link with more query", "https://shop.test/api", Request{URL: "/x?a=1", Query: url.Values{"b": {"2"}}}, "https://shop.test/x?a=1&b=2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newClient(t, tt.base, nil)
			x, err := c.prepare(&tt.r)
			if err != nil {
				t.Fatal(err)
			}
			if got := x.url.String(); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestRequestsThatCannotBeMadeAreRefused(t *testing.T) {
	tests := []struct {
		name string
		r    Request
		kind Kind
		want string
	}{
		{"another host", Request{URL: "https://evil.test/orders?page=2"}, Redirect,
			`client "shop": GET /: foreign url: https://evil.test/orders is not at https://shop.test, where requests and credentials of this client belong`},
		{"subdomain", Request{URL: "https://www.shop.test/"}, Redirect,
			`client "shop": GET /: foreign url: https://www.shop.test/ is not at https://shop.test, where requests and credentials of this client belong`},
		{"another port", Request{URL: "https://shop.test:8443/"}, Redirect,
			`client "shop": GET /: foreign url: https://shop.test:8443/ is not at https://shop.test, where requests and credentials of this client belong`},
		{"plain HTTP", Request{URL: "http://shop.test/"}, Redirect,
			`client "shop": GET /: foreign url: http://shop.test/ is not at https://shop.test, where requests and credentials of this client belong`},
		{"user in the link", Request{URL: "https://u:p@shop.test/"}, Redirect,
			`client "shop": GET /: foreign url: https://shop.test/ is not at https://shop.test, where requests and credentials of this client belong`},
		{"file", Request{URL: "file:///etc/passwd"}, Redirect,
			`client "shop": GET /: foreign url: file:///etc/passwd is not at https://shop.test, where requests and credentials of this client belong`},
		{"path and URL", Request{Path: "a", URL: "b"}, Invalid, `client "shop": GET /: not sent: both a path and a URL are given`},
		{"query in the path", Request{Path: "a?b=c"}, Invalid,
			`client "shop": GET /: not sent: path holds ? or #; a query is given by itself, and in a name they are written %3F and %23`},
		{"bad encoding", Request{Path: "100%"}, Invalid, `client "shop": GET /: not sent: path holds a % that begins no percent-encoding; it is written %25`},
		{"path that climbs", Request{Path: "a/../../admin"}, Invalid, `client "shop": GET /: not sent: path leads upwards`},
		{"path that climbs encoded", Request{Path: "a/%2e%2e/admin"}, Invalid, `client "shop": GET /: not sent: path leads upwards`},
		{"method with a blank", Request{Method: "GET /x", Path: "a"}, Invalid, `client "shop": GET /x /api/a: not sent: method "GET /x" cannot be used`},
		{"CONNECT", Request{Method: "CONNECT", Path: "a"}, Invalid, `client "shop": CONNECT /api/a: not sent: method "CONNECT" cannot be used`},
		{"line break in a header", Request{Path: "a", Header: http.Header{"X-Ref": {"1\r\nX: 2"}}}, Invalid,
			`client "shop": GET /api/a: not sent: the value of header X-Ref holds a line break or another control character`},
		{"blank in a header's name", Request{Path: "a", Header: http.Header{"X Ref": {"1"}}}, Invalid,
			`client "shop": GET /api/a: not sent: header name "X Ref" cannot be used`},
		{"body above its limit", Request{Method: "POST", Path: "a", Write: true, Body: make([]byte, 101)}, TooLarge,
			`client "shop": POST /api/a: body of 101 bytes exceeds the limit of 100`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, g := newClient(t, "https://shop.test/api", func(o *Options) { o.MaxRequestBody = 100 })
			_, err := c.Do(t.Context(), &tt.r)
			var e *Error
			if !errors.As(err, &e) || e.Kind != tt.kind || e.Sent || e.Error() != tt.want {
				t.Errorf("got  %v\nwant %s: %s", err, tt.kind, tt.want)
			}
			if g.waits != 0 {
				t.Error("a token was taken")
			}
		})
	}
}

func TestRequestsLookAsTheyShould(t *testing.T) {
	var got *http.Request
	var body []byte
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		got, body = r, b.Bytes()
		w.WriteHeader(http.StatusNoContent)
	})), func(o *Options) { o.UserAgent = "syncd/1.0" })
	r := &Request{Method: "PUT", Path: "/a", Write: true, Body: []byte(`{"a":1}`), Header: http.Header{
		"x-ref": {"1"}, "Accept-Encoding": {"br"}, "Connection": {"close"}, "Transfer-Encoding": {"chunked"}, "Content-Length": {"3"}, "Host": {"evil.test"}}}
	resp, err := c.JSON(t.Context(), r)
	if ok(t, resp, err); resp.Body != nil {
		t.Errorf("204 with body %q", resp.Body)
	}
	want := map[string]string{"X-Ref": "1", "Accept-Encoding": "gzip", "Content-Type": "application/json", "Accept": "application/json", "User-Agent": "syncd/1.0", "Content-Length": "7"}
	for name, v := range want {
		if got.Header.Get(name) != v {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), v)
		}
	}
	if string(body) != `{"a":1}` || got.Close || len(got.TransferEncoding) > 0 || !strings.HasPrefix(got.Host, "127.0.0.1:") || got.ProtoMajor != 1 {
		t.Errorf("request %+v, body %s", got, body)
	}
	if len(r.Header) != 6 {
		t.Errorf("the caller's header was changed: %v", r.Header)
	}
}

func TestRepeatedCallSendsTheSameBytes(t *testing.T) {
	var bodies []string
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b bytes.Buffer
		_, _ = b.ReadFrom(r.Body)
		bodies = append(bodies, r.Header.Get("Content-Length")+" "+r.Header.Get("Idempotency-Key")+" "+b.String())
		w.WriteHeader(http.StatusServiceUnavailable)
	})), nil)
	r := write("/orders", `{"ref":1}`)
	r.Header = http.Header{"Idempotency-Key": {"k-1"}}
	for range 3 {
		_, err := c.Do(t.Context(), r)
		wantError(t, err, Unknown, "http_503")
	}
	for _, b := range bodies {
		if b != `9 k-1 {"ref":1}` {
			t.Errorf("server received %q", bodies)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	base := func() Options {
		return Options{Client: "shop", Gate: &gate{}, BaseURL: mustParse(t, "https://shop.test/api")}
	}
	tests := []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no name", func(o *Options) { o.Client = "" }, `client "": the client has no name`},
		{"no gate", func(o *Options) { o.Gate = nil }, `client "shop": there is no gate to ask`},
		{"no URL", func(o *Options) { o.BaseURL = nil }, `client "shop": url is missing`},
		{"credentials in the URL", func(o *Options) { o.BaseURL = mustParse(t, "https://u:CANARY@shop.test") },
			`client "shop": url holds a user name or password; credentials belong into auth`},
		{"another scheme", func(o *Options) { o.BaseURL = mustParse(t, "ftp://shop.test") }, `client "shop": url must begin with https:// or http://`},
		{"no host", func(o *Options) { o.BaseURL = mustParse(t, "https:///api") }, `client "shop": url names no host`},
		{"query", func(o *Options) { o.BaseURL = mustParse(t, "https://shop.test/?key=CANARY") }, `client "shop": url must end with a path, without ? and #`},
		{"negative timeout", func(o *Options) { o.Timeout = -1 }, `client "shop": timeout -1ns is not between 0s and 24h0m0s`},
		{"timeout of days", func(o *Options) { o.Timeout = 25 * time.Hour }, `client "shop": timeout 25h0m0s is not between 0s and 24h0m0s`},
		{"negative limit", func(o *Options) { o.MaxBody = -1 }, `client "shop": a limit on bodies is negative`},
		{"negative concurrency", func(o *Options) { o.Concurrency = -1 }, `client "shop": concurrency -1 is negative`},
		{"user agent", func(o *Options) { o.UserAgent = "a\nb" }, `client "shop": the user agent holds a control character`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := base()
			tt.change(&o)
			if _, err := New(o); err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}
