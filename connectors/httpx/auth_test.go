package httpx

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors/conformance/hostile"
	"syncd/ratelimit"
)

func TestFixedCredentialsArePutOnEveryRequest(t *testing.T) {
	tests := []struct {
		name, header, want string
		auth               Authorizer
	}{
		{"bearer", "Authorization", "Bearer tok", Bearer(secret("tok"))},
		{"basic", "Authorization", "Basic dXNlcjpww6Q6cw==", Basic("user", secret("pä:s"))},
		{"header", "X-Access-Token", "shpat_1", Header("x-access-token", secret("shpat_1"))},
		{"none", "Authorization", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got string
			c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get(tt.header) })),
				func(o *Options) { o.Auth = tt.auth })
			resp, err := c.Do(t.Context(), write("/orders", "{}"))
			if ok(t, resp, err); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.header, got, tt.want)
			}
		})
	}
}

func TestCredentialThatCannotStandInAHeaderIsNotSent(t *testing.T) {
	c, _ := newClient(t, newDirect(t, answerer(200, "{}")), func(o *Options) { o.Auth = Bearer(secret(canary + "\n")) })
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	if e := wantError(t, err, Auth, "bad_credentials"); e.Sent || strings.Contains(e.Error(), canary) {
		t.Errorf("error %+v: %v", e, e)
	}
}

func TestFixedCredentialsAreNotTriedAgain(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	c, _ := newClient(t, srv.URL, func(o *Options) { o.Auth = Bearer(secret("T")) })
	srv.Next(hostile.Named("status_401"))
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, Auth, "http_401")
	if n := count(srv, "/orders"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

// renewable are credentials that count their refreshes.
type renewable struct {
	mu        sync.Mutex
	stamp     uint64
	prepared  int
	refreshes int
	err       error // of Refresh
	never     bool
}

func (a *renewable) Prepare(context.Context, Sender) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.prepared++
	return nil
}

func (a *renewable) Apply(r *http.Request) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Header.Set("Authorization", strings.Repeat("x", int(a.stamp)+1))
	return a.stamp
}

func (a *renewable) Refresh(_ context.Context, _ Sender, stamp uint64) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil || a.never {
		return false, a.err
	}
	if a.stamp == stamp {
		a.stamp++
		a.refreshes++
	}
	return true, nil
}

func TestRefusedWriteIsRepeatedOnceWithNewCredentials(t *testing.T) {
	var effects atomic.Int32
	var auths []string
	srv := hostile.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		auths = append(auths, r.Header.Get("Authorization"))
		answerer(200, "{}").ServeHTTP(w, r)
	}))
	defer srv.Close()
	a := &renewable{}
	c, g := newClient(t, srv.URL, func(o *Options) { o.Auth = a })
	srv.Next(hostile.Named("status_401"))
	resp, err := c.Do(t.Context(), write("/orders", `{"ref":1}`))
	ok(t, resp, err)
	log := srv.Log()
	if len(log) != 2 || log[0].BodyHash != log[1].BodyHash || effects.Load() != 1 || auths[0] != "xx" || a.refreshes != 1 {
		t.Errorf("log %+v, %d effects, credentials %v", log, effects.Load(), auths)
	}
	if g.waits != 2 || len(g.signals()) != 2 {
		t.Errorf("%d times at the gate, %d answers shown", g.waits, len(g.signals()))
	}
}

func TestSecondRefusalIsAnAuthError(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	a := &renewable{}
	c, _ := newClient(t, srv.URL, func(o *Options) { o.Auth = a })
	srv.Always(hostile.Named("status_401"))
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // were it to go on
	defer cancel()
	_, err := c.Do(ctx, write("/orders", "{}"))
	if e := wantError(t, err, Auth, "http_401"); e.Sent {
		t.Error("a refused write counts as sent")
	}
	if n := count(srv, "/orders"); n != 2 || a.refreshes != 1 {
		t.Errorf("%d requests, %d refreshes", n, a.refreshes)
	}
}

func TestRefreshThatIsNoHelpMeansNoRepeat(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	c, _ := newClient(t, srv.URL, func(o *Options) { o.Auth = &renewable{never: true} })
	srv.Next(hostile.Named("status_401"))
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	wantError(t, err, Auth, "http_401")
	if n := count(srv, "/orders"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestFailedRefreshIsNotSent(t *testing.T) {
	for _, cause := range []error{errors.New("vault is sealed"), &Error{Kind: NotSent, Code: "token_connect", Detail: "no access token", Sent: true}} {
		srv := hostile.Wrap(answerer(200, "{}"))
		c, _ := newClient(t, srv.URL, func(o *Options) { o.Auth = &renewable{err: cause} })
		srv.Next(hostile.Named("status_401"))
		_, err := c.Do(t.Context(), write("/orders", "{}"))
		var e *Error
		if !errors.As(err, &e) || e.Kind != NotSent || e.Sent || e.Path != "/orders" || e.Client != "shop" || !e.Write {
			t.Errorf("got %+v", e)
		}
		srv.Close()
	}
}

func TestPauseDuringARefreshStopsTheRepeat(t *testing.T) {
	srv := hostile.Wrap(answerer(200, "{}"))
	defer srv.Close()
	c, g := newClient(t, srv.URL, func(o *Options) { o.Auth = &renewable{} })
	g.onShow = func(s ratelimit.Signal) {
		if s.Status == 401 {
			g.mu.Lock()
			g.err = &ratelimit.PausedError{Client: "shop", Pause: ratelimit.Pause{Until: ratelimit.Forever(), Reason: ratelimit.ReasonOperator}}
			g.mu.Unlock()
		}
	}
	srv.Next(hostile.Named("status_401"))
	_, err := c.Do(t.Context(), write("/orders", "{}"))
	e := wantError(t, err, Paused, "paused")
	if want := `client "shop": POST /orders: not sent: client "shop" is paused (operator)`; e.Error() != want || e.RetryAfter != 0 {
		t.Errorf("got  %s, retry after %s\nwant %s", e, e.RetryAfter, want)
	}
	if n := count(srv, "/orders"); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestCredentialsArePutOnAfterTheGatesWait(t *testing.T) {
	var got string
	base := newDirect(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
	a := &renewable{}
	c, g := newClient(t, base, func(o *Options) { o.Auth = a })
	g.onWait = func(int) { // long enough for the token to be replaced
		a.mu.Lock()
		a.stamp = 3
		a.mu.Unlock()
	}
	resp, err := c.Do(t.Context(), &Request{})
	if ok(t, resp, err); got != "xxxx" {
		t.Errorf("credentials %q are those from before the wait", got)
	}
}
