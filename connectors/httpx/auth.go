package httpx

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"syncd/internal/field"
)

// Sender makes one request to an address of the configuration that need not be
// at the client's own host, such as a token endpoint: through the gate, without
// credentials, without redirects.
type Sender func(ctx context.Context, r *Request) (*Response, error)

// Authorizer puts credentials on requests. It is used by many goroutines.
type Authorizer interface {
	// Prepare makes credentials ready before the gate is asked. It may use send,
	// and its errors are those of send or an *Error of its own.
	Prepare(ctx context.Context, send Sender) error
	// Apply puts the credentials on a request just before it is sent, and returns a
	// stamp that tells later which credentials those were. It must not block.
	Apply(r *http.Request) (stamp uint64)
	// Refresh gets new credentials in place of those with the stamp, which the
	// server refused with 401. It reports whether there are other ones now, so that
	// a repeat makes sense. Callers that come with the same stamp share one refresh.
	Refresh(ctx context.Context, send Sender, stamp uint64) (renewed bool, err error)
}

// none is the absence of credentials.
type none struct{}

func (none) Prepare(context.Context, Sender) error                 { return nil }
func (none) Apply(*http.Request) uint64                            { return 0 }
func (none) Refresh(context.Context, Sender, uint64) (bool, error) { return false, nil }

// fixed are credentials that stay as they are.
type fixed struct {
	none
	name  string
	value field.Secret
}

func (f *fixed) Apply(r *http.Request) uint64 {
	r.Header.Set(f.name, f.value.Reveal())
	return 0
}

// Bearer sends a token that does not change, as "Authorization: Bearer …".
func Bearer(token field.Secret) Authorizer {
	return &fixed{name: "Authorization", value: field.NewSecret("Bearer " + token.Reveal())}
}

// Basic sends a user name and a password (RFC 7617, https://www.rfc-editor.org/rfc/rfc7617).
func Basic(user string, password field.Secret) Authorizer {
	return &fixed{name: "Authorization", value: field.NewSecret("Basic " + basic(user, password.Reveal()))}
}

func basic(user, password string) string {
	return base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
}

// Query sends a secret in a parameter of that name in each address, in place of those of
// that name that are there. No error or log line of this package holds the query of an address.
func Query(name string, value field.Secret) Authorizer {
	return &queried{name: name, value: value}
}

type queried struct {
	none
	name  string
	value field.Secret
}

func (q *queried) Apply(r *http.Request) uint64 {
	u := *r.URL // the request's own; the call's stays without
	u.RawQuery = WithoutParam(u.RawQuery, q.name)
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += url.QueryEscape(q.name) + "=" + url.QueryEscape(q.value.Reveal())
	r.URL = &u
	return 0
}

// WithoutParam is the query of an address without the parameters of a name; the others
// stay as they were written.
func WithoutParam(query, name string) string {
	if query == "" {
		return ""
	}
	return strings.Join(slices.DeleteFunc(strings.Split(query, "&"), func(p string) bool {
		is, _, _ := strings.Cut(p, "=")
		plain, err := url.QueryUnescape(is)
		return err == nil && plain == name
	}), "&")
}

// Header sends a secret in a header of that name.
func Header(name string, value field.Secret) Authorizer {
	return &fixed{name: name, value: value}
}
