package tryton

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// session logs in and bears the session. The password goes over the wire once
// per session; with Basic authentication the server would hash it at each call.
type session struct {
	url, user string
	password  field.Secret

	login sync.Mutex // held during a login, so that waiters share it
	mu    sync.Mutex
	token string
	stamp uint64
}

// Prepare logs in when there is no session.
func (s *session) Prepare(ctx context.Context, send httpx.Sender) error {
	if s.present() {
		return nil
	}
	s.login.Lock()
	defer s.login.Unlock()
	if s.present() {
		return nil
	}
	body, err := json.Marshal(request{ID: 1, Method: "common.db.login",
		Params: []any{s.user, map[string]string{"password": s.password.Reveal()}, "en"}})
	if err != nil {
		return err
	}
	resp, err := send(ctx, &httpx.Request{Method: http.MethodPost, URL: s.url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}}})
	if err != nil {
		return err
	}
	var a struct {
		Result []json.RawMessage `json:"result"`
	}
	var uid int64
	var key string
	if json.Unmarshal(resp.Body, &a) != nil || len(a.Result) < 2 || json.Unmarshal(a.Result[0], &uid) != nil || json.Unmarshal(a.Result[1], &key) != nil {
		return &httpx.Error{Kind: httpx.Auth, Code: "login", Detail: "the login was refused; check user, password and database"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s:%d:%s", s.user, uid, key))
	s.stamp++
	return nil
}

func (s *session) present() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token != ""
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
