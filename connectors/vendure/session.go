package vendure

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"

	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// session logs in by the login mutation and bears the token that the answer's
// header holds. Vendure answers a request with an ended session with status 200
// and the code FORBIDDEN, so it is the caller who finds out and calls drop.
// https://docs.vendure.io/guides/how-to/authentication/
type session struct {
	url, user string
	password  field.Secret

	login sync.Mutex // held during a login, so that waiters share it
	mu    sync.Mutex
	token string
	stamp uint64
}

const loginQuery = `mutation($user:String!,$password:String!){login(username:$user,password:$password){__typename ... on ErrorResult{errorCode message}}}`

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
	body, err := json.Marshal(map[string]any{"query": loginQuery, "variables": map[string]string{"user": s.user, "password": s.password.Reveal()}})
	if err != nil {
		return err
	}
	resp, err := send(ctx, &httpx.Request{Method: http.MethodPost, URL: s.url, Body: body,
		Header: http.Header{"Content-Type": {"application/json"}}})
	if err != nil {
		return err
	}
	token := resp.Header.Get("vendure-auth-token")
	var a struct {
		Data struct {
			Login struct {
				Typename  string `json:"__typename"`
				ErrorCode string `json:"errorCode"`
			} `json:"login"`
		} `json:"data"`
	}
	if json.Unmarshal(resp.Body, &a) != nil || token == "" || a.Data.Login.Typename != "CurrentUser" {
		detail := "the login was refused"
		if a.Data.Login.ErrorCode != "" {
			detail += " (" + a.Data.Login.ErrorCode + ")"
		} else if token == "" {
			detail += ": the answer has no vendure-auth-token header; the shop's authOptions.tokenMethod must include bearer"
		}
		return &httpx.Error{Kind: httpx.Auth, Code: "login", Detail: detail}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	s.stamp++
	return nil
}

func (s *session) present() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token != ""
}

// Apply puts the token on a request.
func (s *session) Apply(r *http.Request) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.Header.Set("Authorization", "Bearer "+s.token)
	return s.stamp
}

// Refresh begins a new session after a 401.
func (s *session) Refresh(ctx context.Context, send httpx.Sender, stamp uint64) (bool, error) {
	s.drop(stamp)
	if err := s.Prepare(ctx, send); err != nil {
		return false, err
	}
	return true, nil
}

// current is the stamp of the present session.
func (s *session) current() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stamp
}

// drop forgets the session with that stamp.
func (s *session) drop(stamp uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stamp == stamp {
		s.token = ""
	}
}
