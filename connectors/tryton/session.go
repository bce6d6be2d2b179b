package tryton

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// session logs in and bears the session. The password goes over the wire once
// per session; with Basic authentication the server would hash it at each call.
// https://docs.tryton.org/6.0/server/topics/user_application.html
type session struct {
	url, user string
	password  field.Secret
	now       func() time.Time

	login sync.Mutex // held during a login, so that waiters share it
	mu    sync.Mutex
	token string
	stamp uint64
	// refusal is the last login's, held for a while: the server counts refused
	// logins, and shuts the user out after some.
	refusal *httpx.Error
	until   time.Time
}

// held is how long a refused login is not tried again.
const held = 10 * time.Second

// Prepare logs in when there is no session.
func (s *session) Prepare(ctx context.Context, send httpx.Sender) error {
	if done, err := s.present(); done {
		return err
	}
	s.login.Lock()
	defer s.login.Unlock()
	if done, err := s.present(); done {
		return err
	}
	body, err := json.Marshal(request{ID: 1, Method: "common.db.login",
		Params: []any{s.user, map[string]string{"password": s.password.Reveal()}, "en"}})
	if err != nil {
		return err
	}
	resp, err := send(ctx, &httpx.Request{Method: http.MethodPost, URL: s.url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}}})
	var token string
	if err != nil {
		err = noLogin(err)
	} else {
		token, err = s.loggedIn(resp)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		if e := (*httpx.Error)(nil); errors.As(err, &e) && e.Kind == httpx.Auth {
			s.refusal, s.until = e, s.now().Add(held)
		}
		return err
	}
	s.token = token
	s.stamp++
	return nil
}

// loggedIn reads the answer to a login.
func (s *session) loggedIn(resp *httpx.Response) (token string, err error) {
	var a answer
	var list []json.RawMessage
	var uid int64
	var key string
	switch {
	case json.Unmarshal(resp.Body, &a) != nil || a.Result == nil && a.Error == nil:
		return "", &httpx.Error{Kind: httpx.NotSent, Code: "login", Detail: "the login was not answered with JSON-RPC; is url the address of a Tryton server?"}
	case a.failed() && exception(a.Error, false, nil).Code == "login":
		return "", &httpx.Error{Kind: httpx.Auth, Code: "login", Detail: "the server asks for more than a password; let this user log in with a password alone"}
	case a.failed(): // its database is away, perhaps
		return "", &httpx.Error{Kind: httpx.NotSent, Code: "login", Detail: "the login failed: " + exception(a.Error, false, nil).Message}
	case json.Unmarshal(a.Result, &list) != nil || len(list) < 2 || json.Unmarshal(list[0], &uid) != nil || json.Unmarshal(list[1], &key) != nil:
		return "", &httpx.Error{Kind: httpx.NotSent, Code: "login", Detail: "the answer to the login names no session"}
	}
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d:%s", s.user, uid, key)), nil
}

// noLogin makes of a login that was not answered well what it means for the call
// that waits for it: nothing of that was sent.
func noLogin(err error) error {
	var e *httpx.Error
	if !errors.As(err, &e) {
		return err
	}
	copied := *e
	switch {
	case e.Kind == httpx.Paused || e.Kind == httpx.Canceled || e.Kind == httpx.Throttled || e.Kind == httpx.Redirect:
	case e.Kind == httpx.Auth, e.Status == http.StatusPaymentRequired, e.Status == http.StatusForbidden:
		copied.Kind, copied.Code = httpx.Auth, "login"
		copied.Detail = "the login was refused (" + e.Detail + "); check user, password and database"
		return &copied
	case e.Status == http.StatusNotFound:
		copied.Kind, copied.Code = httpx.NotSent, "no_database"
		copied.Detail = "the server has no such database, or cannot reach it just now (404)"
		return &copied
	default:
		copied.Kind = httpx.NotSent
	}
	copied.Detail = "the login failed: " + e.Detail
	return &copied
}

// present reports whether there is a session, or a refusal that is held.
func (s *session) present() (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.token != "":
		return true, nil
	case s.refusal != nil && s.now().Before(s.until):
		return true, s.refusal
	}
	s.refusal = nil
	return false, nil
}

// Apply puts the session on a request.
func (s *session) Apply(r *http.Request) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Header.Set("Authorization", "Session "+s.token)
	return s.stamp
}

// Refresh begins a new session after a 401: the old one had ended.
func (s *session) Refresh(ctx context.Context, send httpx.Sender, stamp uint64) (bool, error) {
	s.mu.Lock()
	if s.stamp == stamp {
		s.token = ""
	}
	s.mu.Unlock()
	if err := s.Prepare(ctx, send); err != nil {
		return false, err
	}
	return true, nil
}
