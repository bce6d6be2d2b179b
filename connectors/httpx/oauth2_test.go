package httpx

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"syncd/connectors/conformance/hostile"
	"syncd/ratelimit"
)

// issuer is a token endpoint.
type issuer struct {
	mu     sync.Mutex
	issued int
	life   string // expires_in as it stands in the answer, "" to leave it out
	status int
	body   string // in place of a token
	forms  []url.Values
	heads  []http.Header
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(b))
	i.mu.Lock()
	defer i.mu.Unlock()
	i.forms, i.heads = append(i.forms, form), append(i.heads, r.Header.Clone())
	if i.body != "" {
		answerer(max(i.status, 200), i.body).ServeHTTP(w, r)
		return
	}
	i.issued++
	life := ""
	if i.life != "" {
		life = `,"expires_in":` + i.life
	}
	answerer(200, fmt.Sprintf(`{"access_token":"tok-%d","token_type":"bearer"%s}`, i.issued, life)).ServeHTTP(w, r)
}

func (i *issuer) asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.forms)
}

// clock is a clock that is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// guarded is an API that takes the newest token only, and its token endpoint.
type guarded struct {
	api, tokens *hostile.Server
	issuer      *issuer
	clock       *clock
	client      *Client
	gate        *gate
	auth        *OAuth2
}

func newGuarded(t *testing.T, change func(*OAuth2Auth)) *guarded {
	t.Helper()
	g := &guarded{issuer: &issuer{life: "3600"}, clock: &clock{at: time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)}}
	g.tokens = hostile.Wrap(g.issuer)
	t.Cleanup(g.tokens.Close)
	g.api = hostile.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.issuer.mu.Lock()
		newest := fmt.Sprintf("Bearer tok-%d", g.issuer.issued)
		g.issuer.mu.Unlock()
		if r.Header.Get("Authorization") != newest {
			answerer(401, "{}").ServeHTTP(w, r)
			return
		}
		answerer(200, "{}").ServeHTTP(w, r)
	}))
	t.Cleanup(g.api.Close)
	s := OAuth2Auth{TokenURL: g.tokens.URL + "/token", ClientID: "id", ClientSecret: secret("se:cret ä")}
	if change != nil {
		change(&s)
	}
	g.auth = NewOAuth2(s, g.clock.now, func() float64 { return 0 })
	g.client, g.gate = newClient(t, g.api.URL, func(o *Options) { o.Auth, o.Now = g.auth, g.clock.now })
	return g
}

func (g *guarded) do(t *testing.T) error {
	t.Helper()
	_, err := g.client.Do(t.Context(), write("/orders", `{"ref":1}`))
	return err
}

func TestTokenIsFetchedOnceAndRenewedBeforeItsEnd(t *testing.T) {
	g := newGuarded(t, func(s *OAuth2Auth) { s.Scope = "read write" })
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {0, 1}, {58 * time.Minute, 1}, {time.Minute, 2}, {time.Minute, 2}, {58 * time.Minute, 3}} {
		g.clock.move(step.after)
		if err := g.do(t); err != nil {
			t.Fatal(err)
		}
		if n := g.issuer.asked(); n != step.asked {
			t.Errorf("%d tokens after %s more, want %d", n, step.after, step.asked)
		}
	}
	f, h := g.issuer.forms[0], g.issuer.heads[0]
	if f.Get("grant_type") != "client_credentials" || f.Get("scope") != "read write" || f.Has("client_secret") ||
		h.Get("Authorization") != "Basic aWQ6c2UlM0FjcmV0KyVDMyVBNA==" || h.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("form %v, header %v", f, h)
	}
}

func TestClientSecretMayStandInTheBody(t *testing.T) {
	g := newGuarded(t, func(s *OAuth2Auth) { s.ClientAuth = "body" })
	if err := g.do(t); err != nil {
		t.Fatal(err)
	}
	if f := g.issuer.forms[0]; f.Get("client_id") != "id" || f.Get("client_secret") != "se:cret ä" || g.issuer.heads[0].Get("Authorization") != "" {
		t.Errorf("form %v, header %v", f, g.issuer.heads[0])
	}
}

func TestTokensLifeIsReadAsServersWriteIt(t *testing.T) {
	tests := []struct {
		life string
		want time.Duration // until it is renewed; 0: not before it is refused
	}{
		{"3600", 59 * time.Minute},
		{`"3600"`, 59 * time.Minute},
		{"100", 80 * time.Second},
		{"5", 4 * time.Second},
		{"1.5", 1200 * time.Millisecond},
		{"99999999999999999999", 365*24*time.Hour - time.Minute},
		{"", 0},
		{"null", 0},
		{"0", 0},
		{"-1", 0},
		{`"never"`, 0},
		{"{}", 0},
	}
	for _, tt := range tests {
		t.Run(tt.life, func(t *testing.T) {
			g := newGuarded(t, nil)
			g.issuer.life = tt.life
			if err := g.do(t); err != nil {
				t.Fatal(err)
			}
			asked := func(after time.Duration) int {
				g.clock.move(after)
				if err := g.do(t); err != nil {
					t.Fatal(err)
				}
				return g.issuer.asked()
			}
			if tt.want == 0 {
				if n := asked(10 * 365 * 24 * time.Hour); n != 1 {
					t.Errorf("%d tokens, though its end is not known", n)
				}
				return
			}
			if n := asked(tt.want - time.Nanosecond); n != 1 {
				t.Errorf("renewed too early")
			}
			if n := asked(time.Nanosecond); n != 2 {
				t.Errorf("%d tokens, want a second one after %s", n, tt.want)
			}
		})
	}
}

func TestTwentyCallersShareOneToken(t *testing.T) {
	g := newGuarded(t, nil)
	all := func() {
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if err := g.do(t); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
	all()
	if n := g.issuer.asked(); n != 1 {
		t.Errorf("%d tokens asked for at the start", n)
	}
	// The server forgets the token: all twenty are refused with the same one.
	g.issuer.mu.Lock()
	g.issuer.issued++
	g.issuer.mu.Unlock()
	g.clock.move(time.Minute)
	var refused sync.WaitGroup
	refused.Add(20)
	g.gate.onShow = func(s ratelimit.Signal) {
		if s.Status == 401 {
			refused.Done()
			refused.Wait()
		}
	}
	all()
	if n := g.issuer.asked(); n != 2 {
		t.Errorf("%d tokens asked for, want 2", n)
	}
}

func TestTwentyCallersWhoseTokenHasEndedShareTheNext(t *testing.T) {
	g := newGuarded(t, nil)
	if err := g.do(t); err != nil {
		t.Fatal(err)
	}
	g.clock.move(2 * time.Hour)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := g.do(t); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := g.issuer.asked(); n != 2 {
		t.Errorf("%d tokens asked for, want the first and the next", n)
	}
}

func TestTokenThatEndsDuringAPauseIsNotSentAfterIt(t *testing.T) {
	g := newGuarded(t, nil)
	g.issuer.life = "60"
	g.api.Next(hostile.Named("throttled_seconds"))
	wantError(t, g.do(t), Throttled, "throttled")
	g.clock.move(90 * time.Second)
	if err := g.do(t); err != nil {
		t.Fatal(err)
	}
	if n := len(g.api.Log()); n != 2 || g.issuer.asked() != 2 {
		t.Errorf("%d requests and %d tokens: the call after the pause bore the token from before it", n, g.issuer.asked())
	}
}

func TestTokenThatEndsWhileItsCallWaitsForItsTurnIsReplaced(t *testing.T) {
	g := newGuarded(t, nil)
	g.issuer.life = "60"
	g.gate.onWait = func(n int) {
		if n != 2 { // the first is for the token
			return
		}
		g.clock.move(90 * time.Second)
		g.issuer.mu.Lock()
		g.issuer.issued++ // the API takes the token from before no more
		g.issuer.mu.Unlock()
	}
	if err := g.do(t); err != nil {
		t.Fatal(err)
	}
	if n := len(g.api.Log()); n != 2 || g.issuer.asked() != 2 {
		t.Errorf("%d requests and %d tokens, want one that was refused and one with a new token", n, g.issuer.asked())
	}
}

func TestAPIThatRefusesEveryTokenDoesNotFloodTheTokenEndpoint(t *testing.T) {
	g := newGuarded(t, nil)
	g.api.Always(hostile.Named("status_401"))
	for range 50 {
		wantError(t, g.do(t), Auth, "http_401")
	}
	if n := g.issuer.asked(); n != 2 {
		t.Errorf("%d tokens asked for within a moment, want 2", n)
	}
	g.clock.move(refreshGap)
	wantError(t, g.do(t), Auth, "http_401")
	if n := g.issuer.asked(); n != 3 {
		t.Errorf("%d tokens asked for, want one more after %s", n, refreshGap)
	}
}

func TestFailuresOfTheTokenEndpointAreToldApart(t *testing.T) {
	tests := []struct {
		name   string
		status int
		body   string
		fault  string
		kind   Kind
		code   string
	}{
		{name: "wrong secret", status: 401, body: `{"error":"invalid_client","error_description":"CANARY"}`, kind: Auth, code: "invalid_client"},
		{name: "unknown scope", status: 400, body: `{"error":"invalid_scope"}`, kind: Auth, code: "invalid_scope"},
		{name: "error of its own", status: 400, body: `{"error":"CANARY"}`, kind: Auth, code: "token_http_400"},
		{name: "wrong path", status: 404, body: `<html>`, kind: Auth, code: "token_http_404"},
		{name: "firewall", fault: "status_403_html", kind: Auth, code: "token_http_403"},
		{name: "redirect", fault: "redirect_302", kind: Auth, code: "token_redirect"},
		{name: "redirect on the same host", fault: "redirect_same_host", kind: Auth, code: "token_redirect"},
		{name: "throttled", fault: "throttled_seconds", kind: Throttled, code: "token_throttled"},
		{name: "down", fault: "fail_503", kind: NotSent, code: "token_http_503"},
		{name: "reset", fault: "reset_before", kind: NotSent, code: "token_reset"},
		{name: "cut", fault: "cut_body", kind: NotSent, code: "token_cut"},
		{name: "page", fault: "html", kind: NotSent, code: "token_not_json"},
		{name: "bomb", fault: "gzip_bomb", kind: NotSent, code: "token_too_large"},
		{name: "no token", body: `{"expires_in":1}`, kind: NotSent, code: "token_empty"},
		{name: "token of another type", body: `{"access_token":"x","token_type":"mac"}`, kind: Auth, code: "token_type"},
		{name: "token with a line break", body: `{"access_token":"x\r\ny"}`, kind: Auth, code: "token_unusable"},
		{name: "huge token", body: `{"access_token":"` + strings.Repeat("x", maxToken+1) + `"}`, kind: Auth, code: "token_unusable"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, nil)
			g.issuer.status, g.issuer.body = tt.status, tt.body
			if tt.fault != "" {
				g.tokens.Always(hostile.Named(tt.fault))
			}
			e := wantError(t, g.do(t), tt.kind, tt.code)
			if e.Sent || e.Path != "/orders" || !e.Write || e.Response() != nil || e.Shape != "" {
				t.Errorf("error %+v", e)
			}
			if n := len(g.api.Log()); n != 0 {
				t.Errorf("%d requests reached the API without a token", n)
			}
			for _, s := range []string{canary, "se:cret", "tok"} {
				if strings.Contains(strings.ReplaceAll(e.Error(), "token", ""), s) {
					t.Errorf("the error tells %q: %v", s, e)
				}
			}
			if l := g.tokens.Elsewhere(); len(l) > 0 {
				t.Errorf("the secret went to %+v", l)
			}
		})
	}
}

func TestTokenErrorReadsWell(t *testing.T) {
	g := newGuarded(t, nil)
	g.issuer.status, g.issuer.body = 401, `{"error":"invalid_client"}`
	err := g.do(t)
	want := `client "shop": POST /orders: credentials refused: no access token from ` + g.tokens.URL + `/token: 401 Unauthorized (invalid_client)`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestFailedTokenEndpointIsLeftAloneForAWhile(t *testing.T) {
	g := newGuarded(t, nil)
	g.tokens.Always(hostile.Named("fail_503"))
	// Half of 1, 2, 4 s …: the random half is nil here.
	holds := []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second}
	for i, hold := range holds {
		for range 10 {
			wantError(t, g.do(t), NotSent, "token_http_503")
		}
		if n := len(g.tokens.Log()); n != i+1 {
			t.Errorf("%d requests for a token, want %d", n, i+1)
		}
		g.clock.move(hold)
	}
	g.tokens.Calm()
	if err := g.do(t); err != nil {
		t.Error(err)
	}
}

func TestTokenEndpointThatRefusesIsAskedSeldomerEachTime(t *testing.T) {
	g := newGuarded(t, nil)
	g.issuer.status, g.issuer.body = 400, `{"error":"invalid_grant"}`
	last := time.Duration(0)
	for n := range 12 {
		for range 10 {
			wantError(t, g.do(t), Auth, "invalid_grant")
		}
		if k := g.issuer.asked(); k != n+1 {
			t.Fatalf("asked %d times for a token, want %d", k, n+1)
		}
		hold := g.auth.holdTo.Sub(g.clock.now())
		if hold < last || hold > maxHold || n > 9 && hold < maxHold/2 {
			t.Errorf("after refusal %d it is left alone for %s, and for %s before", n+1, hold, last)
		}
		last = hold
		g.clock.move(hold)
	}
	g.auth.failed = 1 << 31 // as of a client that is never mended
	wantError(t, g.do(t), Auth, "invalid_grant")
	if hold := g.auth.holdTo.Sub(g.clock.now()); hold != maxHold/2 {
		t.Errorf("after very many refusals it is left alone for %s", hold)
	}
}

func TestOldTokenIsUsedToItsEndWhenNoneCanBeHad(t *testing.T) {
	g := newGuarded(t, nil)
	if err := g.do(t); err != nil {
		t.Fatal(err)
	}
	g.tokens.Always(hostile.Named("fail_503"))
	g.clock.move(59*time.Minute + time.Second)
	if err := g.do(t); err != nil {
		t.Errorf("a minute before its end: %v", err)
	}
	g.clock.move(time.Minute)
	wantError(t, g.do(t), NotSent, "token_http_503")
}

func TestTokenIsFetchedThroughTheGate(t *testing.T) {
	g := newGuarded(t, nil)
	g.gate.err = &ratelimit.PausedError{Client: "shop", Pause: ratelimit.Pause{Until: g.clock.now().Add(time.Minute), Reason: "throttled"}}
	wantError(t, g.do(t), Paused, "paused")
	if n := len(g.tokens.Log()); n != 0 {
		t.Errorf("%d requests for a token while paused", n)
	}
	g.gate.err = nil // and no hold after a pause
	if err := g.do(t); err != nil {
		t.Error(err)
	}
	if g.gate.waits != 3 {
		t.Errorf("%d times at the gate, want once while paused, once for the token, once for the request", g.gate.waits)
	}
}

func TestThrottledTokenEndpointPausesTheClient(t *testing.T) {
	g := newGuarded(t, nil)
	g.tokens.Next(hostile.Named("throttled_seconds"))
	e := wantError(t, g.do(t), Throttled, "token_throttled")
	if s := g.gate.signals(); len(s) != 1 || !s[0].Throttled || e.RetryAfter != 2*time.Second {
		t.Errorf("gate was shown %+v, error %+v", s, e)
	}
}

func TestWaiterForATokenGivesUpWithItsContext(t *testing.T) {
	o := NewOAuth2(OAuth2Auth{TokenURL: "http://127.0.0.1:1/"}, time.Now, func() float64 { return 0 })
	began, end := make(chan struct{}), make(chan struct{})
	slow := func(context.Context, *Request) (*Response, error) {
		close(began)
		<-end
		return nil, errors.New("never mind")
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = o.Prepare(t.Context(), slow) })
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := o.Prepare(ctx, slow); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	c, _ := newClient(t, "http://127.0.0.1:1", func(opt *Options) { opt.Auth = o })
	_, err := c.Do(ctx, write("/orders", "{}"))
	wantError(t, err, Canceled, "canceled")
	close(end)
	wg.Wait()
}
