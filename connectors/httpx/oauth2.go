package httpx

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// maxTokenBody bounds the token endpoint's answer, maxToken the token in it.
	maxTokenBody = 64 << 10
	maxToken     = 16 << 10
	// renewMargin is how long before its end a token is renewed, but never more
	// than a fifth of its life.
	renewMargin = time.Minute
	// refreshGap is the least time between two tokens that are fetched because the
	// API refused the one before: where a new token does not help, the next will
	// not either, and token endpoints lock out those who ask too often.
	refreshGap = 30 * time.Second
	// firstHold and maxHold bound the pause after a failure of the token endpoint.
	// It doubles with each, and half of it is random.
	firstHold = time.Second
	maxHold   = 5 * time.Minute
)

// OAuth2 fetches access tokens with client credentials and renews them before
// they end. At most one request for a token is under way; after a failure
// callers get the same error until some time has passed.
type OAuth2 struct {
	settings OAuth2Auth
	now      func() time.Time
	random   func() float64

	// turn is held while a token is fetched; a channel, so that waiting for it ends
	// with the caller's context.
	turn chan struct{}

	mu        sync.Mutex
	token     string
	stamp     uint64    // counts tokens; 0 means none yet
	renewAt   time.Time // zero when the server did not say when the token ends
	endAt     time.Time // likewise
	refreshed time.Time // when a token was last fetched because one was refused,
	replacing uint64    // and the stamp of that one
	failure   *Error
	holdTo    time.Time
	failed    int
}

// NewOAuth2 makes an authorizer that has no token yet. random returns numbers in [0, 1).
func NewOAuth2(s OAuth2Auth, now func() time.Time, random func() float64) *OAuth2 {
	return &OAuth2{settings: s, now: now, random: random, turn: make(chan struct{}, 1)}
}

// Prepare fetches a token unless there is one that will last. When none can be
// had, the old one is used to its very end.
func (o *OAuth2) Prepare(ctx context.Context, send Sender) error {
	_, err := o.ensure(ctx, send, o.lasting)
	if err == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.stamp != 0 && o.now().Before(o.endAt) {
		return nil
	}
	return err
}

// Apply puts the present token on a request.
func (o *OAuth2) Apply(r *http.Request) uint64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	r.Header.Set("Authorization", "Bearer "+o.token)
	return o.stamp
}

// Refresh fetches another token in place of the one with the stamp, unless that
// has been done already, or was done so shortly before that another is no help.
func (o *OAuth2) Refresh(ctx context.Context, send Sender, stamp uint64) (renewed bool, err error) {
	replaced := func() bool { return o.stamp != stamp }
	if o.tooSoon(stamp) {
		return false, nil
	}
	return o.ensure(ctx, send, replaced)
}

// tooSoon reports whether a refused token is itself the fruit of a refresh that
// was made shortly before. Callers with the same stamp belong to one refresh.
func (o *OAuth2) tooSoon(stamp uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if stamp != o.stamp || stamp == o.replacing {
		return false
	}
	if !o.refreshed.IsZero() && o.now().Sub(o.refreshed) < refreshGap {
		return true
	}
	o.refreshed, o.replacing = o.now(), stamp
	return false
}

// lasting reports whether the token is good for a request. The caller holds mu.
func (o *OAuth2) lasting() bool {
	return o.stamp != 0 && (o.renewAt.IsZero() || o.now().Before(o.renewAt))
}

// ensure fetches a token unless there is one that is good. The good token may
// be another caller's work.
func (o *OAuth2) ensure(ctx context.Context, send Sender, good func() bool) (bool, error) {
	if done, err := o.have(good); done {
		return err == nil, err
	}
	select {
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	if done, err := o.have(good); done {
		return err == nil, err
	}
	if err := o.fetch(ctx, send); err != nil {
		return false, err
	}
	return true, nil
}

// have reports whether there is nothing to fetch: a good token, or a failure so
// fresh that it stands.
func (o *OAuth2) have(good func() bool) (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if good() {
		return true, nil
	}
	if o.failure != nil && o.now().Before(o.holdTo) {
		return true, o.failure
	}
	return false, nil
}

// fetch gets a token from the token endpoint.
func (o *OAuth2) fetch(ctx context.Context, send Sender) error {
	form := url.Values{"grant_type": {"client_credentials"}}
	if o.settings.Scope != "" {
		form.Set("scope", o.settings.Scope)
	}
	h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {"application/json"}}
	if o.settings.ClientAuth == "body" {
		form.Set("client_id", o.settings.ClientID)
		form.Set("client_secret", o.settings.ClientSecret.Reveal())
	} else {
		// Both are form-encoded first (RFC 6749, 2.3.1).
		h.Set("Authorization", "Basic "+basic(url.QueryEscape(o.settings.ClientID), url.QueryEscape(o.settings.ClientSecret.Reveal())))
	}
	// Not a write: another token does no harm.
	resp, err := send(ctx, &Request{Method: http.MethodPost, URL: o.settings.TokenURL, Header: h, Body: []byte(form.Encode()), maxBody: maxTokenBody})
	var answer tokenAnswer
	if err == nil {
		answer, err = readToken(resp)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		return o.hold(o.judge(err))
	}
	o.token, o.renewAt, o.endAt = answer.token, time.Time{}, time.Time{}
	o.stamp++
	o.failure, o.failed = nil, 0
	if life := answer.life; life > 0 {
		o.endAt = resp.Started.Add(life)
		o.renewAt = o.endAt.Add(-min(renewMargin, life/5))
	}
	return nil
}

// hold keeps a failure for a while, so that no caller sends another request
// meanwhile. A pause of the gate and a caller that gave up are no failures. The
// caller holds mu.
func (o *OAuth2) hold(e *Error) error {
	if e.Kind == Paused || e.Kind == Canceled {
		return e
	}
	o.failed++
	whole := min(float64(maxHold), float64(firstHold)*math.Pow(2, float64(o.failed-1)))
	o.failure, o.holdTo = e, o.now().Add(time.Duration(whole/2+whole/2*o.random()))
	return e
}

// judge turns a failed request for a token into what it means for the request
// that needs it: nothing of that was sent.
func (o *OAuth2) judge(err error) *Error {
	var e *Error
	if !errors.As(err, &e) {
		return &Error{Kind: NotSent, Code: "token", Detail: o.noToken(err.Error()), err: err}
	}
	copied := *e
	copied.Sent, copied.Status, copied.resp, copied.Shape = false, 0, nil, ""
	switch e.Kind {
	case Paused, Canceled:
		return &copied
	case Throttled:
	case Auth, Status, Redirect, Invalid:
		// It will be refused again until a person changes something.
		copied.Kind = Auth
	default:
		copied.Kind = NotSent
	}
	copied.Code = "token_" + e.Code
	copied.Detail = o.noToken(e.Detail)
	if oauthCode := oauthError(e.resp); oauthCode != "" && copied.Kind == Auth {
		copied.Code, copied.Detail = oauthCode, copied.Detail+" ("+oauthCode+")"
	}
	return &copied
}

func (o *OAuth2) noToken(why string) string {
	at := "the token endpoint"
	if u, err := url.Parse(o.settings.TokenURL); err == nil {
		at = bare(u)
	}
	return fmt.Sprintf("no access token from %s: %s", at, why)
}

type tokenAnswer struct {
	token string
	life  time.Duration // 0 when the server did not say
}

// readToken reads a token endpoint's answer (RFC 6749, 5.1).
func readToken(resp *Response) (tokenAnswer, error) {
	var a struct {
		AccessToken string          `json:"access_token"`
		TokenType   string          `json:"token_type"`
		ExpiresIn   json.RawMessage `json:"expires_in"`
	}
	if err := json.Unmarshal(trimStart(resp.Body), &a); err != nil {
		return tokenAnswer{}, &Error{Kind: BadBody, Code: "not_json", Detail: "the answer is not the JSON it should be"}
	}
	switch {
	case a.AccessToken == "":
		return tokenAnswer{}, &Error{Kind: BadBody, Code: "empty", Detail: "the answer holds no access_token"}
	case len(a.AccessToken) > maxToken || strings.ContainsFunc(a.AccessToken, func(r rune) bool { return r <= ' ' || r > '~' }):
		return tokenAnswer{}, &Error{Kind: Auth, Code: "unusable", Detail: "the access_token cannot stand in a header"}
	case a.TokenType != "" && !strings.EqualFold(a.TokenType, "bearer"):
		return tokenAnswer{}, &Error{Kind: Auth, Code: "type",
			Detail: "the token's token_type is not bearer; only bearer tokens are understood"}
	}
	return tokenAnswer{token: a.AccessToken, life: tokenLife(a.ExpiresIn)}, nil
}

// tokenLife reads expires_in, which some servers write as a text. What is no
// positive number counts as not said: the token is used until it is refused.
func tokenLife(raw json.RawMessage) time.Duration {
	const longest = 365 * 24 * time.Hour
	s, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err != nil || !(s > 0) {
		return 0
	}
	if s > longest.Seconds() {
		return longest
	}
	return time.Duration(s * float64(time.Second))
}

// oauthError is the error code in a refusal by a token endpoint (RFC 6749,
// 5.2), if it is one of the known ones: the answer's text is not repeated.
func oauthError(resp *Response) string {
	if resp == nil {
		return ""
	}
	var a struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(trimStart(resp.Body), &a) != nil {
		return ""
	}
	switch a.Error {
	case "invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope":
		return a.Error
	}
	return ""
}
