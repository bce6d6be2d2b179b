package rest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/ratelimit"
)

// api makes the requests of one client and reads what its answers say beyond
// their status.
type api struct {
	http    *httpx.Client
	headers http.Header
	answers *answerSettings
	maxRecs int
	secret  string // the parameter of addresses that holds the credentials; "" for none
	quota   ratelimit.Dialect
	now     func() time.Time
}

func newAPI(s *Settings, env connectors.Env) (*api, error) {
	base, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	auth, err := s.Auth.Authorizer(env.Now)
	if err != nil {
		return nil, err
	}
	a := &api{answers: &s.Answers, maxRecs: s.MaxRecs, secret: s.Auth.Query.Name, now: env.Now, headers: http.Header{}}
	for name, v := range s.Headers {
		a.headers.Set(name, v)
	}
	o := httpx.Options{Client: env.Client, Gate: env.Gate, BaseURL: base, Auth: auth, Timeout: env.Timeout, MaxBody: s.MaxBody,
		Concurrency: env.Concurrency, UserAgent: env.UserAgent, CAFile: s.CAFile, Log: env.Log, Now: env.Now, Conceal: env.Conceal}
	if o.Quota, err = ratelimit.Named(s.Quota); err != nil {
		return nil, err
	}
	a.quota = o.Quota
	if s.CAFile != "" && !filepath.IsAbs(s.CAFile) {
		o.CAFile = filepath.Join(env.BaseDir, s.CAFile)
	}
	if s.Answers.tellsThrottling() {
		o.Signal = a.signal
	}
	if a.http, err = httpx.New(o); err != nil {
		return nil, err
	}
	return a, nil
}

// tellsThrottling tells whether the API words a refusal for quota in its own way.
func (s *answerSettings) tellsThrottling() bool {
	for _, m := range s.codes {
		if m.class == connectors.Throttled {
			return true
		}
	}
	for _, m := range s.statuses {
		if m.class == connectors.Throttled {
			return true
		}
	}
	return false
}

// signal shows the gate what only the body, or an unusual status, says.
func (a *api) signal(resp *httpx.Response, sig ratelimit.Signal) ratelimit.Signal {
	body, _ := parse(resp.Body)
	if said := a.answers.read(resp.Status, body, nil); said.known && said.meaning.class == connectors.Throttled {
		sig.Throttled = true
		sig.Concurrent = sig.Concurrent || a.quota.AtOnce()
	}
	return sig
}

// withoutSecret is a server's link without the client's credentials, which may stand in it
// and which each request gets anew: links are kept in cursors.
func (a *api) withoutSecret(link string) string {
	if a.secret == "" {
		return link
	}
	link, fragment, cut := strings.Cut(link, "#")
	before, query, ok := strings.Cut(link, "?")
	if ok {
		link = before
		if query = httpx.WithoutParam(query, a.secret); query != "" {
			link += "?" + query
		}
	}
	if cut {
		link += "#" + fragment
	}
	return link
}

// do makes a request with the headers of the settings.
func (a *api) do(ctx context.Context, req *httpx.Request) (*httpx.Response, error) {
	a.addHeaders(req)
	return a.http.JSON(ctx, req)
}

func (a *api) addHeaders(req *httpx.Request) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	for name, v := range a.headers {
		if _, own := req.Header[name]; !own {
			req.Header[name] = v
		}
	}
}

// broken stands in an answer for each run of bytes that are not UTF-8. Unicode
// keeps these characters out of all texts
// (https://www.unicode.org/faq/private_use.html#noncharacters).
const broken = "\uFDD0\uFDEF"

// read makes a request that changes nothing. body is nil for a 204. An answer that
// is not UTF-8 is refused: what it says of a key or a state would be another than
// the server's.
func (a *api) read(ctx context.Context, req *httpx.Request) (*httpx.Response, raw, error) {
	resp, body, whole, err := a.readMany(ctx, req)
	if err == nil && !whole {
		return nil, nil, connectors.Errorf(connectors.Transient, "not_utf8", "the answer holds bytes that are not UTF-8 and does not say what else they are; have the server send UTF-8, or name its charset")
	}
	return resp, body, err
}

// readMany is read for many records at once, one of which may not stop the others:
// where whole is false, broken stands in the body for bytes that are not UTF-8.
func (a *api) readMany(ctx context.Context, req *httpx.Request) (_ *httpx.Response, _ raw, whole bool, _ error) {
	resp, err := a.do(ctx, req)
	if err != nil {
		return nil, nil, false, a.readError(err)
	}
	if resp.Body == nil {
		return resp, nil, true, nil
	}
	if whole = utf8.Valid(resp.Body); !whole {
		resp.Body = bytes.ToValidUTF8(resp.Body, []byte(broken))
	}
	body, err := parse(resp.Body)
	if err != nil {
		return nil, nil, false, &connectors.Error{Outcome: connectors.Fail(connectors.Transient, "not_json", "%v", err), Err: err}
	}
	said := a.answers.read(resp.Status, body, nil)
	if o, bad := said.outcome(connectors.Outcome{Class: connectors.Applied}); bad {
		return nil, nil, false, &connectors.Error{Outcome: asRead(o)}
	}
	return resp, body, whole, nil
}

// readError turns a failed read into an error with what the body says.
func (a *api) readError(err error) *connectors.Error {
	o := connectors.FromHTTP(err, false)
	var e *httpx.Error
	if errors.As(err, &e) {
		if said, ok := a.said(e, nil); ok {
			o, _ = said.outcome(o)
			o = asRead(o)
		}
		o.RetryAfter = e.RetryAfter
		switch e.Status {
		case http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusGone, http.StatusNotImplemented:
			// A wrong path or base_url is the usual reason.
			o.Message += fmt.Sprintf(", of %s %s", e.Method, e.URL)
		}
		if e.Kind == httpx.TooLarge && e.Sent {
			o.Message += "; ask for less at once, or raise max_body"
		}
	}
	return &connectors.Error{Outcome: o, Err: err}
}

// records are the elements of a list in an answer.
func (a *api) records(v raw) ([]raw, error) {
	if v.longerThan(a.maxRecs) {
		return nil, connectors.Errorf(connectors.Invalid, "too_many_records",
			"the answer holds more than %d records; ask for less at once, or raise max_records", a.maxRecs)
	}
	return v.list()
}

// said reads the body of an answer that is an error.
func (a *api) said(e *httpx.Error, own map[string]meaning) (said, bool) {
	resp := e.Response()
	if resp == nil {
		return said{}, false
	}
	var body raw
	if !resp.Truncated {
		body, _ = parse(resp.Body)
	}
	return a.answers.read(resp.Status, body, own), true
}

// outcome brings what an answer says into the outcome that its status alone
// gave. bad is false when the answer says nothing against the request.
func (s said) outcome(o connectors.Outcome) (_ connectors.Outcome, bad bool) {
	success := o.Class == connectors.Applied
	switch {
	case s.known:
		o.Class, o.MaybeDuplicate, o.Answered = s.meaning.class, s.meaning.duplicate, s.meaning.class == connectors.Unknown
	case success && s.refused:
		o.Class = connectors.Invalid
	case success:
		return o, false
	}
	if isCodeName(s.code) {
		o.Code = s.code
	} else if o.Code == "" {
		o.Code = "refused"
	}
	if s.words != "" {
		o.Message = strings.TrimPrefix(o.Message+": "+s.words, ": ")
	}
	return o, true
}

// isCodeName tells whether a server's code is fit to be shown and counted as it
// is. Anything else is left out rather than made fit: what was changed or cut is no
// longer recognised as a secret that the server repeats.
func isCodeName(s string) bool {
	if s == "" || len(s) > 64 {
		return false
	}
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-', r == '.', r == '/':
		default:
			return false
		}
	}
	return true
}

// asRead corrects classes that make sense for a write alone.
func asRead(o connectors.Outcome) connectors.Outcome {
	switch o.Class {
	case connectors.Unknown, connectors.Conflict, connectors.Waiting, connectors.Frozen:
		o.Class = connectors.Transient
	}
	o.MaybeDuplicate, o.Answered = false, false
	return o
}

func timeOf(micros int64) time.Time { return time.UnixMicro(micros).UTC() }

// shape names calls by their method and the template of their path, which the server counts alike.
func shape(method, tmpl string) string {
	if method == "" {
		method = http.MethodGet
	}
	return method + " " + tmpl
}
