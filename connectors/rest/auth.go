package rest

import (
	"net/http"

	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// authSettings choose how requests prove who they come from.
type authSettings struct {
	Type string
	how  authFields
}

// authFields are the fields that one way of authentication brings.
type authFields interface {
	field.Fielder
	authorizer() (httpx.Authorizer, error)
}

func (s *authSettings) Fields(f *field.Set) {
	f.String(&s.Type, "type", "The way.", field.Default("none"))
	f.Variant("type", func(name string) (field.Fielder, bool) {
		switch name {
		case "none":
			return noAuth{}, true
		case "bearer":
			return &bearerAuth{}, true
		case "basic":
			return &basicAuth{}, true
		case "header":
			return &headerAuth{}, true
		}
		return nil, false
	}, []field.Choice{
		{Name: "none", Doc: "No credentials."},
		{Name: "bearer", Doc: "A token that does not change, as Authorization: Bearer."},
		{Name: "basic", Doc: "A user name and a password, as Authorization: Basic."},
		{Name: "header", Doc: "A secret in a header of another name."},
	}, func(f field.Fielder) { s.how = f.(authFields) })
}

func (s *authSettings) authorizer() (httpx.Authorizer, error) {
	if s.how == nil {
		return nil, nil
	}
	return s.how.authorizer()
}

type noAuth struct{}

func (noAuth) Fields(*field.Set)                     {}
func (noAuth) authorizer() (httpx.Authorizer, error) { return nil, nil }

type bearerAuth struct{ Token field.Secret }

func (a *bearerAuth) Fields(f *field.Set) {
	f.Secret(&a.Token, "token", "The token.", field.Required())
}

func (a *bearerAuth) authorizer() (httpx.Authorizer, error) { return httpx.Bearer(a.Token), nil }

type basicAuth struct {
	User     string
	Password field.Secret
}

func (a *basicAuth) Fields(f *field.Set) {
	f.String(&a.User, "user", "The user name.", field.Required())
	f.Secret(&a.Password, "password", "The password.", field.Required())
}

func (a *basicAuth) authorizer() (httpx.Authorizer, error) {
	return httpx.Basic(a.User, a.Password), nil
}

type headerAuth struct {
	Name  string
	Value field.Secret
}

func (a *headerAuth) Fields(f *field.Set) {
	f.String(&a.Name, "name", "The header.", field.Required(), field.Example("X-Api-Key"),
		field.Pattern(`[A-Za-z0-9-]+`, "the name of a header"))
	f.Secret(&a.Value, "value", "Its value.", field.Required())
}

func (a *headerAuth) authorizer() (httpx.Authorizer, error) {
	return httpx.Header(http.CanonicalHeaderKey(a.Name), a.Value), nil
}
