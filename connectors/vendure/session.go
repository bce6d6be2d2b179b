package vendure

import (
	"context"
	"encoding/json"
	"errors"
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
		Header: http.Header{"Content-Type": {"application/json"}}, Accept: []int{http.StatusBadRequest}})
	if err != nil {
		return noLogin(err)
	}
	token, err := loggedIn(resp)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
	s.stamp++
	return nil
}

// loggedIn reads the answer to a login.
func loggedIn(resp *httpx.Response) (token string, err error) {
	var a struct {
		Data struct {
			Login struct {
				Typename  string `json:"__typename"`
				ErrorCode string `json:"errorCode"`
			} `json:"login"`
		} `json:"data"`
		Errors []gqlError `json:"errors"`
	}
	login := &a.Data.Login
	token = resp.Header.Get("vendure-auth-token")
	switch err := json.Unmarshal(resp.Body, &a); {
	case err != nil:
		return "", &httpx.Error{Kind: httpx.NotSent, Code: "login", Detail: "the login was not answered with GraphQL; is url the address of the admin API?"}
	case login.ErrorCode != "":
		return "", &httpx.Error{Kind: httpx.Auth, Code: "login", Detail: "the login was refused (" + short(login.ErrorCode) + "); check user and password"}
	case forbidden(first(a.Errors)):
		return "", &httpx.Error{Kind: httpx.Auth, Code: "login", Detail: "the login was refused (" + first(a.Errors).Extensions.Code + ")"}
	case login.Typename != "CurrentUser":
		// An error of the shop's own, such as a database that is away.
		return "", &httpx.Error{Kind: httpx.NotSent, Code: "login", Detail: "the shop could not log in: " + short(first(a.Errors).Extensions.Code)}
	case token == "":
		return "", &httpx.Error{Kind: httpx.Auth, Code: "login",
			Detail: "the answer to the login has no vendure-auth-token header; the shop's authOptions.tokenMethod must include bearer"}
	}
	return token, nil
}

// noLogin makes of a login without an answer what it means for the request that
// waits for it: nothing of that was sent.
func noLogin(err error) error {
	var e *httpx.Error
	if !errors.As(err, &e) {
		return err
	}
	copied := *e
	switch e.Kind {
	case httpx.Paused, httpx.Canceled, httpx.Throttled, httpx.Auth, httpx.Redirect, httpx.Status:
	default:
		copied.Kind = httpx.NotSent
	}
	copied.Detail = "the login failed: " + e.Detail
	return &copied
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
