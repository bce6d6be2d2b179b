package httpx

import (
	"errors"
	"math/rand/v2"
	"strings"
	"time"

	"syncd/internal/field"
)

// AuthSettings is a client's `auth:` setting: at most one way of proving who calls.
type AuthSettings struct {
	Bearer field.Secret
	Basic  BasicAuth
	Header HeaderAuth
	Query  QueryAuth
	OAuth2 OAuth2Auth
}

// BasicAuth is a user name and a password.
type BasicAuth struct {
	User     string
	Password field.Secret
}

// HeaderAuth is a secret in a header of its own.
type HeaderAuth struct {
	Name  string
	Value field.Secret
}

// QueryAuth is a secret in a parameter of each request's address.
type QueryAuth struct {
	Name  string
	Value field.Secret
}

// OAuth2Auth are the client credentials of OAuth 2.0
// (RFC 6749, 4.4, https://www.rfc-editor.org/rfc/rfc6749#section-4.4).
type OAuth2Auth struct {
	TokenURL     string
	ClientID     string
	ClientSecret field.Secret
	Scope        string
	// ClientAuth is "header" or "body": where the id and the secret stand.
	ClientAuth string
}

// Fields declares the settings.
func (a *AuthSettings) Fields(s *field.Set) {
	s.Secret(&a.Bearer, "bearer", "A token that does not change, sent as `Authorization: Bearer`.", field.Example("${env:SHOP_TOKEN}"))
	s.Struct(&a.Basic, "basic", "A user name and a password.")
	s.Struct(&a.Header, "header", "A secret in a header of its own.")
	s.Struct(&a.Query, "query", "A secret in a parameter of each address. Servers and what stands before them often write addresses into their logs: take another way where the API has one.", field.Advanced())
	s.Struct(&a.OAuth2, "oauth2", "An access token fetched with a client id and a client secret (OAuth 2.0 client credentials) and renewed before it ends.")
}

// Validate checks that at most one way is given, and that one whole.
func (a *AuthSettings) Validate(r *field.Report) {
	var given []string
	for _, way := range []struct {
		name  string
		check func(*field.Report)
	}{
		{"bearer", func(*field.Report) {}},
		{"basic", a.Basic.check},
		{"header", a.Header.check},
		{"query", a.Query.check},
		{"oauth2", a.OAuth2.check},
	} {
		if r.Given(way.name) {
			given = append(given, way.name)
			way.check(r.At(way.name))
		}
	}
	if len(given) > 1 {
		r.Errorf("%s are given; give one of them", strings.Join(given, " and "))
	}
}

// Fields declares the settings.
func (a *BasicAuth) Fields(s *field.Set) {
	s.String(&a.User, "user", "User name.", field.Example("syncd"))
	s.Secret(&a.Password, "password", "Password.", field.Example("${env:SHOP_PASSWORD}"))
}

// check looks for what is needed when the mapping is given.
func (a *BasicAuth) check(r *field.Report) {
	if a.User == "" && !r.Failed("user") {
		r.At("user").Errorf("missing; give the user name")
	}
	// A user name with a colon would move the border to the password.
	if strings.Contains(a.User, ":") {
		r.At("user").Errorf("a user name cannot hold a colon")
	}
	needSecret(r, "password", a.Password)
}

// Fields declares the settings.
func (a *HeaderAuth) Fields(s *field.Set) {
	s.String(&a.Name, "name", "Name of the header.", field.Example("X-Access-Token"),
		field.Pattern("[!#$%&'*+.^_`|~0-9A-Za-z-]+", "the name of a header: letters, digits and hyphens"))
	s.Secret(&a.Value, "value", "Its value.", field.Example("${env:SHOP_TOKEN}"))
}

// check looks for what is needed when the mapping is given.
func (a *HeaderAuth) check(r *field.Report) {
	if a.Name == "" && !r.Failed("name") {
		r.At("name").Errorf("missing; give the name of the header")
	}
	needSecret(r, "value", a.Value)
}

// Fields declares the settings.
func (a *QueryAuth) Fields(s *field.Set) {
	s.String(&a.Name, "name", "Name of the parameter.", field.Example("api_token"),
		field.Pattern(`[0-9A-Za-z._~-]+`, "the name of a parameter: letters, digits and . _ ~ -"))
	s.Secret(&a.Value, "value", "Its value.", field.Example("${env:SHOP_TOKEN}"))
}

// check looks for what is needed when the mapping is given.
func (a *QueryAuth) check(r *field.Report) {
	if a.Name == "" && !r.Failed("name") {
		r.At("name").Errorf("missing; give the name of the parameter")
	}
	needSecret(r, "value", a.Value)
}

// Fields declares the settings.
func (a *OAuth2Auth) Fields(s *field.Set) {
	s.URL(&a.TokenURL, "token_url", "Address of the token endpoint.", field.Example("https://login.example.com/oauth/token"))
	s.String(&a.ClientID, "client_id", "Client id.", field.Example("syncd"))
	s.Secret(&a.ClientSecret, "client_secret", "Client secret.", field.Example("${env:ERP_CLIENT_SECRET}"))
	s.String(&a.Scope, "scope", "Scopes to ask for, with blanks between them; left out, the server decides.", field.Example("orders:read orders:write"))
	s.String(&a.ClientAuth, "client_auth", "Where the id and the secret stand in the request for a token.", field.Default("header"), field.Choices(
		field.Choice{Name: "header", Doc: "in the header Authorization, as every server should understand"},
		field.Choice{Name: "body", Doc: "in the body, for servers that want it so"}), field.Advanced())
}

// check looks for what is needed when the mapping is given.
func (a *OAuth2Auth) check(r *field.Report) {
	if a.TokenURL == "" && !r.Failed("token_url") {
		r.At("token_url").Errorf("missing; give the address of the token endpoint")
	}
	if a.ClientID == "" && !r.Failed("client_id") {
		r.At("client_id").Errorf("missing; give the client id")
	}
	needSecret(r, "client_secret", a.ClientSecret)
}

func needSecret(r *field.Report, name string, s field.Secret) {
	if s.Empty() && !r.Failed(name) {
		r.At(name).Errorf("missing; give it by reference, such as ${env:NAME}")
	}
}

// Authorizer returns what puts the credentials on requests; nil when none are
// configured. now tells the time, nil means the system's clock.
func (a *AuthSettings) Authorizer(now func() time.Time) (Authorizer, error) {
	var ways []Authorizer
	if !a.Bearer.Empty() {
		ways = append(ways, Bearer(a.Bearer))
	}
	if a.Basic.User != "" {
		ways = append(ways, Basic(a.Basic.User, a.Basic.Password))
	}
	if a.Header.Name != "" {
		ways = append(ways, Header(a.Header.Name, a.Header.Value))
	}
	if a.Query.Name != "" {
		ways = append(ways, Query(a.Query.Name, a.Query.Value))
	}
	if a.OAuth2.TokenURL != "" {
		if now == nil {
			now = time.Now
		}
		ways = append(ways, NewOAuth2(a.OAuth2, now, rand.Float64))
	}
	switch len(ways) {
	case 0:
		return nil, nil
	case 1:
		return ways[0], nil
	}
	return nil, errors.New("auth: several ways are given; give one of them")
}
