package connectors_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/internal/gatetest"
	"syncd/ratelimit"
)

type openGate struct{}

func (openGate) Wait(context.Context) error { return nil }
func (g openGate) Enter(ctx context.Context, _ ratelimit.Ask) (ratelimit.Pass, error) {
	return gatetest.Enter(ctx, g)
}

func (openGate) Longest() time.Duration { return 24 * time.Hour }

func (openGate) Observe(context.Context, ratelimit.Signal, time.Time) bool { return false }

func TestFailuresWithoutAnAnswerAreClassifiedByHowFarTheRequestCame(t *testing.T) {
	fail := func(k httpx.Kind, code string, sent bool) error {
		return fmt.Errorf("put item: %w", &httpx.Error{Kind: k, Code: code, Detail: "told", Sent: sent, RetryAfter: 3 * time.Second})
	}
	for _, c := range []struct {
		name        string
		err         error
		write, read connectors.Class
		code        string
	}{
		{"nothing sent", fail(httpx.NotSent, "dns", false), connectors.Transient, connectors.Transient, "dns"},
		{"no answer", fail(httpx.Unknown, "timeout", true), connectors.Unknown, connectors.Transient, "timeout"},
		{"throttled", fail(httpx.Throttled, "throttled", true), connectors.Throttled, connectors.Throttled, "throttled"},
		{"paused", fail(httpx.Paused, "paused", false), connectors.Paused, connectors.Paused, "paused"},
		{"credentials refused", fail(httpx.Auth, "http_401", false), connectors.Auth, connectors.Auth, "http_401"},
		{"redirect", fail(httpx.Redirect, "foreign_url", true), connectors.Invalid, connectors.Invalid, "redirect"},
		{"request too large", fail(httpx.TooLarge, "request_too_large", false), connectors.Invalid, connectors.Invalid, "request_too_large"},
		{"answer too large", fail(httpx.TooLarge, "too_large", true), connectors.Unknown, connectors.Invalid, "too_large"},
		{"answer without sense", fail(httpx.BadBody, "not_json", true), connectors.Unknown, connectors.Transient, "not_json"},
		{"canceled before sending", fail(httpx.Canceled, "canceled", false), connectors.Transient, connectors.Transient, "canceled"},
		{"canceled after sending", fail(httpx.Unknown, "canceled", true), connectors.Unknown, connectors.Transient, "canceled"},
		{"request that cannot be made", fail(httpx.Invalid, "request", false), connectors.Invalid, connectors.Invalid, "request"},
		{"more than the whole quota", fail(httpx.Status, httpx.CodeTooDear, true), connectors.Invalid, connectors.Invalid, "too_dear"},
		{"a kind nobody knows", fail("new", "new", true), connectors.Unknown, connectors.Transient, "new"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for write, want := range map[bool]connectors.Class{true: c.write, false: c.read} {
				got := connectors.FromHTTP(c.err, write)
				diff := cmp.Diff(connectors.Outcome{Class: want, Code: c.code, Message: "told", RetryAfter: 3 * time.Second}, got)
				if diff != "" {
					t.Errorf("write %v: (-want +got)\n%s", write, diff)
				}
			}
		})
	}
}

func TestAFailureOfAnotherKindLeavesAWriteInDoubt(t *testing.T) {
	err := errors.New("the disk is full")
	if got := connectors.FromHTTP(err, true); got.Class != connectors.Unknown {
		t.Errorf("a write: %v", got.Class)
	}
	if got := connectors.FromHTTP(err, false); got.Class != connectors.Transient {
		t.Errorf("a read: %v", got.Class)
	}
	own := connectors.Errorf(connectors.Frozen, "posted", "the invoice is posted")
	if got := connectors.FromHTTP(fmt.Errorf("update: %w", own), true); got != own.Outcome {
		t.Errorf("an outcome that was known already became %+v", got)
	}
}

func TestStatusesAreClassifiedAsTheDesignSays(t *testing.T) {
	const (
		inv = connectors.Invalid
		unk = connectors.Unknown
		tra = connectors.Transient
		con = connectors.Conflict
	)
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status/100 == 3 {
			w.Header().Set("Location", "http://elsewhere.example/")
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	defer server.Close()
	base, _ := url.Parse(server.URL)
	client, err := httpx.New(httpx.Options{Client: "shop", Gate: openGate{}, BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, c := range []struct {
		name        string
		status      int
		body        string
		write, read connectors.Class
		answered    bool
		link        connectors.Class
		duplicate   bool
	}{
		{"bad request", 400, "{}", inv, inv, false, inv, true},
		{"unauthorized", 401, "{}", connectors.Auth, connectors.Auth, false, connectors.Auth, false},
		{"payment required", 402, "{}", connectors.Auth, connectors.Auth, false, connectors.Auth, false},
		{"forbidden", 403, "{}", connectors.Auth, connectors.Auth, false, connectors.Auth, false},
		{"not found", 404, "{}", inv, inv, false, connectors.Missing, false},
		{"method not allowed", 405, "{}", inv, inv, false, inv, false},
		{"request timeout", 408, "", unk, tra, false, unk, false},
		{"conflict", 409, "{}", con, con, false, con, true},
		{"gone", 410, "{}", inv, inv, false, connectors.Missing, false},
		{"precondition failed", 412, "{}", con, con, false, con, false},
		{"content too large", 413, "{}", inv, inv, false, inv, false},
		{"unprocessable", 422, "{}", inv, inv, false, inv, true},
		{"locked", 423, "{}", con, con, false, con, false},
		{"too early", 425, "{}", tra, tra, false, tra, false},
		{"too many requests", 429, "{}", connectors.Throttled, connectors.Throttled, false, connectors.Throttled, false},
		{"server error with a body", 500, "{}", unk, tra, true, unk, true},
		{"server error without a body", 500, "", unk, tra, false, unk, true},
		{"not implemented", 501, "{}", inv, inv, false, inv, false},
		{"bad gateway", 502, "<html>", unk, tra, false, unk, false},
		{"unavailable", 503, "<html>", unk, tra, false, unk, false},
		{"gateway timeout", 504, "<html>", unk, tra, false, unk, false},
		{"bandwidth exceeded", 509, "{}", connectors.Throttled, connectors.Throttled, false, connectors.Throttled, false},
		{"origin unreachable behind a CDN", 522, "<html>", unk, tra, false, unk, false},
		{"moved", 301, "", inv, inv, false, inv, false},
		{"found", 302, "", inv, inv, false, inv, false},
		{"see other", 303, "", unk, inv, false, unk, false},
		{"temporary redirect", 307, "", inv, inv, false, inv, false},
		{"permanent redirect", 308, "", inv, inv, false, inv, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body = c.status, c.body
			outcome := func(write bool) connectors.Outcome {
				_, err := client.Do(t.Context(), &httpx.Request{Method: "POST", Path: "/items", Body: []byte("{}"), Write: write})
				if err == nil {
					t.Fatal("no error")
				}
				return connectors.FromHTTP(err, write)
			}
			w := outcome(true)
			if w.Class != c.write || w.Answered != c.answered {
				t.Errorf("write: %s, answered %v; want %s, %v", w.Class, w.Answered, c.write, c.answered)
			}
			if r := outcome(false); r.Class != c.read || r.Answered {
				t.Errorf("read: %s, answered %v; want %s", r.Class, r.Answered, c.read)
			}
			if got := connectors.ThroughLink(w).Class; got != c.link {
				t.Errorf("through a link: %s, want %s", got, c.link)
			}
			if got := connectors.OnCreate(w).MaybeDuplicate; got != c.duplicate {
				t.Errorf("on a create: duplicate %v, want %v", got, c.duplicate)
			}
			if c.status/100 == 3 && w.Code != "redirect" {
				t.Errorf("code %q", w.Code)
			}
		})
	}
}
