package httpx

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"syncd/ratelimit"
)

func TestAnswerIsGivenWhole(t *testing.T) {
	now := time.Date(2026, 11, 29, 10, 0, 0, 0, time.FixedZone("", 3600))
	c, g := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Sun, 29 Nov 2026 08:55:00 GMT")
		w.Header().Set("Content-Type", "Application/Problem+JSON; charset=utf-8")
		w.Header().Set("X-Ref", "7")
		_, _ = io.WriteString(w, "\xef\xbb\xbf {}")
	})), func(o *Options) {
		o.Now = func() time.Time { now = now.Add(time.Second); return now }
	})
	resp, err := c.Do(t.Context(), &Request{})
	ok(t, resp, err)
	if string(resp.Body) != "\xef\xbb\xbf {}" || resp.Truncated || resp.Header.Get("X-Ref") != "7" || resp.ContentType != "application/problem+json" {
		t.Errorf("response %+v", resp)
	}
	if want := time.Date(2026, 11, 29, 8, 55, 0, 0, time.UTC); resp.ServerTime != want {
		t.Errorf("server time %s", resp.ServerTime)
	}
	if resp.Started.Location() != time.UTC || resp.Received.Sub(resp.Started) != time.Second {
		t.Errorf("started %s, received %s", resp.Started, resp.Received)
	}
	if s := g.signals(); len(s) != 1 || s[0].Status != 200 || s[0].ServerTime != resp.ServerTime {
		t.Errorf("gate was shown %+v", s)
	}
}

func TestBodiesUpToTheLimitAreRead(t *testing.T) {
	for _, zipped := range []bool{false, true} {
		for _, size := range []int{0, 1, 999, 1000, 1001, 5000} {
			t.Run(fmt.Sprintf("%d bytes, gzip %t", size, zipped), func(t *testing.T) {
				body := strings.Repeat("x", size)
				c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if !zipped {
						_, _ = io.WriteString(w, body)
						return
					}
					w.Header().Set("Content-Encoding", "GZIP")
					z := gzip.NewWriter(w)
					_, _ = io.WriteString(z, body)
					_ = z.Close()
				})), func(o *Options) { o.MaxBody = 1000 })
				resp, err := c.Do(t.Context(), &Request{})
				if size > 1000 {
					e := wantError(t, err, TooLarge, "too_large")
					if !e.Sent || len(e.Response().Body) != 1000 || !e.Response().Truncated {
						t.Errorf("kept %d bytes", len(e.Response().Body))
					}
					return
				}
				if ok(t, resp, err); string(resp.Body) != body || size == 0 && resp.Body != nil {
					t.Errorf("got %d bytes", len(resp.Body))
				}
			})
		}
	}
}

func TestErrorAnswerIsKeptUpToItsLimitAndStillTells(t *testing.T) {
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write(make([]byte, 3<<20))
	})), nil)
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	e := wantError(t, err, Status, "http_422")
	if r := e.Response(); len(r.Body) != maxErrorBody || !r.Truncated || r.Status != 422 {
		t.Errorf("kept %d bytes", len(r.Body))
	}
}

func TestStreamThatExpandsToNothingIsBounded(t *testing.T) {
	var empty strings.Builder
	z := gzip.NewWriter(&empty)
	_ = z.Close()
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		for {
			if _, err := io.WriteString(w, empty.String()); err != nil {
				return
			}
		}
	})), func(o *Options) { o.MaxBody = 100_000 })
	_, err := c.Do(t.Context(), &Request{})
	wantError(t, err, TooLarge, "too_large")
}

func TestBombIsNotUnpackedBeyondTheLimit(t *testing.T) {
	var part bytes.Buffer
	w := gzip.NewWriter(&part)
	_, _ = w.Write(make([]byte, 64<<10))
	_ = w.Close()
	z := bytes.NewBuffer(bytes.Repeat(part.Bytes(), 1000)) // gzip streams may be joined
	whole := z.Len()
	r := &http.Response{Header: http.Header{"Content-Encoding": {"gzip"}}, Body: io.NopCloser(z), ContentLength: -1}
	body, bad := readBody(r, 1<<20)
	if bad == nil || bad.code != "too_large" || len(body) != 1<<20 {
		t.Errorf("got %d bytes, %+v", len(body), bad)
	}
	if rest := z.Len(); rest < whole*3/4 {
		t.Errorf("%d of %d compressed bytes were read", whole-rest, whole)
	}
}

func TestEmptyAnswersMayClaimToBeCompressed(t *testing.T) {
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusNoContent)
	})), nil)
	for _, method := range []string{"GET", "HEAD"} {
		resp, err := c.JSON(t.Context(), &Request{Method: method})
		if ok(t, resp, err); resp.Body != nil || resp.Status != 204 {
			t.Errorf("%s: %+v", method, resp)
		}
	}
}

func TestAcceptedStatusesAreNoErrors(t *testing.T) {
	for _, status := range []int{404, 409, 304, 500} {
		c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })), nil)
		resp, err := c.JSON(t.Context(), &Request{Accept: []int{304, 404, 409, 500}})
		if ok(t, resp, err); resp.Status != status {
			t.Errorf("status %d", resp.Status)
		}
		_, err = c.JSON(t.Context(), &Request{})
		if status == 500 {
			wantError(t, err, Unknown, "http_500")
			continue
		}
		wantError(t, err, Status, statusCode(status))
	}
}

func TestOnlyOneJSONValueIsJSON(t *testing.T) {
	tests := []struct {
		name, body, want, code string
	}{
		{"object", `{"id":1}`, `{"id":1}`, ""},
		{"list", `[]`, `[]`, ""},
		{"number", `7`, `7`, ""},
		{"null", `null`, `null`, ""},
		{"long number keeps its digits", `9007199254740993.10`, `9007199254740993.10`, ""},
		{"mark first", "\xef\xbb\xbf{\"id\":1}", `{"id":1}`, ""},
		{"blank lines and mark first", "\r\n\xef\xbb\xbf\n{\"id\":1}\n", "{\"id\":1}\n", ""},
		{"nothing", "", "", "empty_body"},
		{"blanks only", " \n ", "", "empty_body"},
		{"mark only", "\xef\xbb\xbf", "", "empty_body"},
		{"page", "<!DOCTYPE html><html></html>", "", "not_json"},
		{"warning first", `<br /><b>Warning</b>{"id":12}`, "", "not_json"},
		{"notice last", `{"id":12}` + "\n<br />PHP Notice", "", "not_json"},
		{"two values", `{"id":1}{"id":1}`, "", "not_json"},
		{"half", `{"id":1,"name":"gre`, "", "not_json"},
		{"words", "OK", "", "not_json"},
		{"single quotes", `{'id':1}`, "", "not_json"},
		{"invalid number", `{"id":NaN}`, "", "not_json"},
	}
	for _, tt := range tests {
		for _, isWrite := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, write %t", tt.name, isWrite), func(t *testing.T) {
				c, _ := newClient(t, newDirect(t, answerer(200, tt.body)), nil)
				resp, err := c.JSON(t.Context(), &Request{Method: "POST", Write: isWrite})
				if tt.code == "" {
					if ok(t, resp, err); string(resp.Body) != tt.want {
						t.Errorf("body %q", resp.Body)
					}
					return
				}
				kind := BadBody
				if isWrite {
					kind = Unknown
				}
				e := wantError(t, err, kind, tt.code)
				if e.Response() == nil || e.Response().Status != 200 {
					t.Error("the answer is not with the error")
				}
			})
		}
	}
}

func TestPausedClientSendsNothing(t *testing.T) {
	reached := 0
	base := newDirect(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached++ }))
	c, g := newClient(t, base, nil)
	until := time.Now().Add(time.Minute)
	g.err = &ratelimit.PausedError{Client: "shop", Pause: ratelimit.Pause{Until: until, Reason: ratelimit.ReasonThrottled}}
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	e := wantError(t, err, Paused, "paused")
	var paused *ratelimit.PausedError
	if !errors.As(err, &paused) || e.Sent || e.RetryAfter <= 0 || e.RetryAfter > time.Minute || reached != 0 {
		t.Errorf("error %+v, server reached %d times", e, reached)
	}
}

func TestCallerWhoGivesUpAtTheGateIsCanceled(t *testing.T) {
	for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
		c, g := newClient(t, "http://127.0.0.1:1", nil)
		g.err = cause
		_, err := c.Do(t.Context(), write("/orders", "{}"))
		if e := wantError(t, err, Canceled, "canceled"); e.Sent || !errors.Is(err, cause) {
			t.Errorf("sent %t, error %v", e.Sent, err)
		}
	}
}

func TestConnectorAddsWhatItsPlatformSaysInABody(t *testing.T) {
	base := newDirect(t, answerer(200, `{"errors":[{"extensions":{"code":"THROTTLED"}}]}`))
	c, g := newClient(t, base, func(o *Options) {
		o.Signal = func(resp *Response, sig ratelimit.Signal) ratelimit.Signal {
			if strings.Contains(string(resp.Body), `"THROTTLED"`) {
				sig.Throttled, sig.HasRetryAfter, sig.RetryAfter = true, true, 7600*time.Millisecond
			}
			return sig
		}
	})
	_, err := c.JSON(t.Context(), &Request{Method: "POST", Path: "/graphql"})
	e := wantError(t, err, Throttled, "throttled")
	if e.RetryAfter != 7600*time.Millisecond || e.Response() == nil {
		t.Errorf("error %+v", e)
	}
	if s := g.signals(); len(s) != 1 || !s[0].Throttled {
		t.Errorf("gate was shown %+v", s)
	}
}

// stub answers in place of the network.
type stub func(*http.Request) (*http.Response, error)

func (s stub) RoundTrip(r *http.Request) (*http.Response, error) { return s(r) }

func TestOpaqueTransportCountsAllButAFailedDialAsSent(t *testing.T) {
	tests := []struct {
		name string
		err  error
		kind Kind
		code string
	}{
		{"dial", &net.OpError{Op: "dial", Err: errors.New("refused")}, NotSent, "connect"},
		{"name", &net.DNSError{Err: "no such host", IsNotFound: true}, NotSent, "connect"},
		{"end of file", io.EOF, Unknown, "closed"},
		{"anything else", errors.New(`malformed HTTP response "CANARY"`), Unknown, "protocol"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := newClient(t, "http://shop.test", func(o *Options) {
				o.Transport = stub(func(*http.Request) (*http.Response, error) { return nil, tt.err })
			})
			_, err := c.Do(t.Context(), write("/orders", "{}"))
			e := wantError(t, err, tt.kind, tt.code)
			if e.Sent != (tt.kind == Unknown) || strings.Contains(e.Error(), canary) {
				t.Errorf("error %+v: %v", e, e)
			}
		})
	}
}

func TestErrorsReadWell(t *testing.T) {
	base := Error{Client: "shop", Method: "POST", Path: "/orders"}
	tests := []struct {
		name   string
		change func(*Error)
		want   string
	}{
		{"not sent", func(e *Error) { e.Kind, e.Detail = NotSent, "dial tcp 127.0.0.1:1: connect: connection refused" },
			`client "shop": POST /orders: not sent: dial tcp 127.0.0.1:1: connect: connection refused`},
		{"write in doubt", func(e *Error) {
			e.Kind, e.Write, e.Detail, e.RetryAfter = Unknown, true, "503 Service Unavailable", time.Minute
		},
			`client "shop": POST /orders: outcome unknown: 503 Service Unavailable, retry after 1m0s`},
		{"failed read", func(e *Error) { e.Kind, e.Detail = Unknown, "no whole answer in time" }, `client "shop": POST /orders: no whole answer in time`},
		{"throttled", func(e *Error) { e.Kind, e.Detail = Throttled, "429 Too Many Requests" }, `client "shop": POST /orders: throttled: 429 Too Many Requests`},
		{"auth", func(e *Error) { e.Kind, e.Detail = Auth, "401 Unauthorized" }, `client "shop": POST /orders: credentials refused: 401 Unauthorized`},
		{"status", func(e *Error) { e.Kind, e.Detail = Status, statusText(422) }, `client "shop": POST /orders: 422 Unprocessable Entity`},
		{"status without a name", func(e *Error) { e.Kind, e.Detail = Unknown, statusText(520) }, `client "shop": POST /orders: 520`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := base
			tt.change(&e)
			if e.Error() != tt.want {
				t.Errorf("got  %s\nwant %s", e.Error(), tt.want)
			}
		})
	}
}
