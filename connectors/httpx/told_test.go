package httpx

import (
	"net/http"
	"slices"
	"testing"
	"time"
)

func TestCredentialsThatRequestsBearAreToldOnceEach(t *testing.T) {
	tokens := 0
	server := newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/token" {
			tokens++
			_, _ = w.Write([]byte(`{"access_token":"` + []string{"first-token", "second-token"}[tokens-1] + `","token_type":"bearer"}`))
			return
		}
		if r.Header.Get("Authorization") == "Bearer first-token" && r.URL.Path == "/late" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = w.Write([]byte(`{}`))
	}))
	oauth := NewOAuth2(OAuth2Auth{TokenURL: server + "/token", ClientID: "me", ClientSecret: secret("hush-hush")}, time.Now, func() float64 { return 0 })
	for name, c := range map[string]struct {
		auth Authorizer
		want []string
	}{
		"none":         {nil, nil},
		"bearer":       {Bearer(secret("fixed-token")), []string{"fixed-token"}},
		"basic":        {Basic("ann", secret("pass:word")), []string{basic("ann", "pass:word"), "word"}},
		"header":       {Header("X-Key", secret("a key with blanks")), []string{"key with blanks"}},
		"header alone": {Header("X-Key", secret("key-1")), []string{"key-1"}},
		"oauth2":       {oauth, []string{"first-token", "second-token"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			client, _ := newClient(t, server, func(o *Options) {
				o.Auth, o.Conceal = c.auth, func(s string) { got = append(got, s) }
			})
			for _, path := range []string{"/a", "/a", "/late", "/a"} {
				if _, err := client.Do(t.Context(), &Request{Path: path, Header: http.Header{"X-Other": {"not a credential"}}}); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("told %q, want %q", got, c.want)
			}
		})
	}
}
