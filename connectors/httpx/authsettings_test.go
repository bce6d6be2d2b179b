package httpx

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"syncd/internal/field"
)

// node makes a configuration's tree of nested lists of key and value.
func node(v any) *field.Node {
	at := field.Pos{File: "syncd.yaml", Line: 3, Col: 5}
	if s, isText := v.(string); isText {
		return &field.Node{Kind: field.Scalar, Text: s, Pos: at}
	}
	n := &field.Node{Kind: field.Mapping, Pos: at}
	for _, e := range v.([][2]any) {
		n.Entries = append(n.Entries, field.Entry{Key: e[0].(string), KeyPos: at, Value: node(e[1])})
	}
	return n
}

type mapping = [][2]any

func bind(t *testing.T, m mapping) (AuthSettings, []string) {
	t.Helper()
	var a AuthSettings
	r := &field.Resolver{Env: []string{"X=value of X"}}
	var texts []string
	for _, p := range field.Bind(node(m), &a, r) {
		texts = append(texts, p.String())
	}
	return a, texts
}

func TestAuthSettingsMakeAuthorizers(t *testing.T) {
	ref := "${env:X}"
	tests := []struct {
		name string
		m    mapping
		want string // the kind of authorizer
	}{
		{"none", nil, "none"},
		{"bearer", mapping{{"bearer", ref}}, "Authorization: Bearer value of X"},
		{"basic", mapping{{"basic", mapping{{"user", "ada"}, {"password", ref}}}}, "Authorization: Basic YWRhOnZhbHVlIG9mIFg="},
		{"header", mapping{{"header", mapping{{"name", "X-Access-Token"}, {"value", ref}}}}, "X-Access-Token: value of X"},
		{"query", mapping{{"query", mapping{{"name", "api_token"}, {"value", ref}}}}, "api_token=value of X"},
		{"oauth2", mapping{{"oauth2", mapping{{"token_url", "https://login.test/token"}, {"client_id", "id"}, {"client_secret", ref}, {"scope", "a b"}}}}, "oauth2 header"},
		{"oauth2 in the body", mapping{{"oauth2", mapping{{"token_url", "https://login.test/token"}, {"client_id", "id"}, {"client_secret", ref}, {"client_auth", "body"}}}}, "oauth2 body"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, problems := bind(t, tt.m)
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			auth, err := a.Authorizer(nil)
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			switch auth := auth.(type) {
			case *fixed:
				got = auth.name + ": " + auth.value.Reveal()
			case *queried:
				got = auth.name + "=" + auth.value.Reveal()
			case *OAuth2:
				got = "oauth2 " + auth.settings.ClientAuth
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestAuthSettingsThatCannotBeMeantAreRefused(t *testing.T) {
	ref := "${env:X}"
	tests := []struct {
		name string
		m    mapping
		want []string
	}{
		{"two ways", mapping{{"bearer", ref}, {"basic", mapping{{"user", "ada"}, {"password", ref}}}},
			[]string{"syncd.yaml:3:5: bearer and basic are given; give one of them"}},
		{"basic without user and password", mapping{{"basic", mapping{}}}, []string{
			"syncd.yaml:3:5: basic.user: missing; give the user name",
			"syncd.yaml:3:5: basic.password: missing; give it by reference, such as ${env:NAME}"}},
		{"user with a colon", mapping{{"basic", mapping{{"user", "a:b"}, {"password", ref}}}},
			[]string{"syncd.yaml:3:5: basic.user: a user name cannot hold a colon"}},
		{"header without name and value", mapping{{"header", mapping{}}}, []string{
			"syncd.yaml:3:5: header.name: missing; give the name of the header",
			"syncd.yaml:3:5: header.value: missing; give it by reference, such as ${env:NAME}"}},
		{"oauth2 without anything", mapping{{"oauth2", mapping{}}}, []string{
			"syncd.yaml:3:5: oauth2.token_url: missing; give the address of the token endpoint",
			"syncd.yaml:3:5: oauth2.client_id: missing; give the client id",
			"syncd.yaml:3:5: oauth2.client_secret: missing; give it by reference, such as ${env:NAME}"}},
		{"oauth2 with a fragment", mapping{{"oauth2", mapping{{"token_url", "https://login.test/#a"}, {"client_id", "id"}, {"client_secret", ref}}}},
			[]string{"syncd.yaml:3:5: oauth2.token_url: a URL must not have a part after #"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, problems := bind(t, tt.m)
			if diff := cmp.Diff(tt.want, problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHeaderNameIsChecked(t *testing.T) {
	for name, fine := range map[string]bool{"X-Access-Token": true, "X Token": false, "X:": false, "Ä": false} {
		_, problems := bind(t, mapping{{"header", mapping{{"name", name}, {"value", "${env:X}"}}}})
		if (len(problems) == 0) != fine {
			t.Errorf("%q: %v", name, problems)
		}
	}
}

func TestSeveralWaysInCodeAreRefused(t *testing.T) {
	a := AuthSettings{Bearer: secret("a"), Header: HeaderAuth{Name: "X", Value: secret("b")}}
	if _, err := a.Authorizer(nil); err == nil || err.Error() != "auth: several ways are given; give one of them" {
		t.Errorf("got %v", err)
	}
}
