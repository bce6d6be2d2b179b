package vendure

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
	"syncd/internal/field"
)

// first pulls the first page of the customers.
func (w *world) first() (connectors.Page, error) {
	return w.src.Pull(w.t.Context(), connectors.PullRequest{Stream: "customers", Start: connectors.Start{All: true}, Limit: 10})
}

// classOf is the class of an error that must be a *connectors.Error.
func classOf(t *testing.T, err error) connectors.Class {
	t.Helper()
	var e *connectors.Error
	if !errors.As(err, &e) {
		t.Fatalf("%v is no *connectors.Error", err)
	}
	return e.Class
}

func TestASessionThatEndedIsBegunAgain(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		if _, err := w.first(); err != nil {
			t.Fatal(err)
		}
	}
	if w.shop.logins != 1 {
		t.Fatalf("%d logins for three requests", w.shop.logins)
	}
	w.shop.sessions = map[string]bool{}
	if _, err := w.first(); err != nil {
		t.Fatal(err)
	}
	if w.shop.logins != 2 {
		t.Errorf("%d logins", w.shop.logins)
	}
}

func TestEachRefusalIsClassified(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(w *world)
		class connectors.Class
		text  string
	}{
		{"wrong password", func(w *world) { w.shop.password = "another" }, connectors.Auth,
			"list customers: auth (login): the login was refused (INVALID_CREDENTIALS_ERROR); check user and password"},
		{"no permission", func(w *world) { w.shop.mayNot = "customers" }, connectors.Auth,
			"list customers: auth (forbidden): the shop refuses the credentials, or the user lacks ReadOrder, ReadCustomer or ReadCatalog"},
		{"tokens by cookie only", func(w *world) { w.shop.noToken = true }, connectors.Auth,
			"list customers: auth (login): the answer to the login has no vendure-auth-token header; the shop's authOptions.tokenMethod must include bearer"},
		{"the shop's database is away", func(w *world) { w.shop.broken = "INTERNAL_SERVER_ERROR" }, connectors.Transient,
			"list customers: transient (login): the shop could not log in: INTERNAL_SERVER_ERROR"},
		{"the login is forbidden", func(w *world) { w.shop.broken = "FORBIDDEN" }, connectors.Auth,
			"list customers: auth (login): the login was refused (FORBIDDEN)"},
		{"a query too large for the shop", func(w *world) { w.login(); w.shop.broken = "USER_INPUT_ERROR" }, connectors.Invalid,
			"list customers: invalid (query): the shop refuses the query (USER_INPUT_ERROR): something went wrong; this syncd was made for Vendure 3"},
		{"a failure of one query", func(w *world) { w.login(); w.shop.broken = "INTERNAL_SERVER_ERROR" }, connectors.Transient,
			"list customers: transient (graphql_error): INTERNAL_SERVER_ERROR something went wrong"},
		{"records and an error in one answer", func(w *world) { w.shop.half = true }, connectors.Transient,
			"list customers: transient (graphql_error): INTERNAL_SERVER_ERROR one of the records could not be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.do(func(s *fakeShop, at time.Time) { s.newCustomer(at) })
			c.spoil(w)
			p, err := w.first()
			if err == nil || len(p.Events) > 0 {
				t.Fatalf("%d events, error %v", len(p.Events), err)
			}
			if got := classOf(t, err); got != c.class {
				t.Errorf("class %s, want %s", got, c.class)
			}
			if err.Error() != c.text {
				t.Errorf("got  %s\nwant %s", err, c.text)
			}
			if strings.Contains(err.Error(), "pa55word") {
				t.Error("the password is in the error")
			}
		})
	}
}

// login makes the session begin before something is spoilt.
func (w *world) login() {
	if _, err := w.first(); err != nil {
		w.t.Fatal(err)
	}
}

func TestWhateverTheLoginIsAnsweredTheNextOneIsTried(t *testing.T) {
	s := newFakeShop(time.Now)
	front := hostile.Wrap(s)
	t.Cleanup(front.Close)
	for _, f := range hostile.Faults() {
		if strings.HasPrefix(f.Name, "hang") || strings.HasPrefix(f.Name, "slow") || f.Name == "huge" || f.Name == "gzip_bomb" {
			continue // as slow as they are, they are tried with a query
		}
		t.Run(f.Name, func(t *testing.T) {
			i, err := settingsFor(front.URL).Open(t.Context(), connectors.Env{Client: "shop", Gate: openGate{}, Timeout: 20 * time.Second, Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = i.Close() }()
			pull := func() error {
				_, err := i.Source().Pull(t.Context(), connectors.PullRequest{Stream: "orders", Start: connectors.Start{All: true}, Limit: 10})
				return err
			}
			front.Next(f, isLogin)
			err = pull()
			front.Calm()
			switch {
			case err == nil:
			case f.Status == 429 || f.Status == 509:
				if got := classOf(t, err); got != connectors.Throttled {
					t.Errorf("class %s: %v", got, err)
				}
			case classOf(t, err) == connectors.Auth && f.Status != 401 && f.Status != 402 && f.Status != 403 && !f.Handles:
				t.Errorf("taken for a refusal of the credentials: %v", err)
			}
			if err := pull(); err != nil {
				t.Errorf("the next try: %v", err)
			}
		})
	}
}

func TestAKeyOrATokenIsSentAsItIs(t *testing.T) {
	for _, c := range []struct {
		name   string
		auth   Auth
		header string
		want   string
	}{
		{"API key", Auth{APIKey: field.NewSecret("id:s3cret")}, "Vendure-Api-Key", "id:s3cret"},
		{"session token", Auth{Token: field.NewSecret("t0ken")}, "Authorization", "Bearer t0ken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			w.shop.apiKeys["id:s3cret"], w.shop.sessions["t0ken"] = true, true
			w.set.Auth, w.set.Channel = c.auth, "b2b"
			w.restart()
			if _, err := w.first(); err != nil {
				t.Fatal(err)
			}
			h := w.requests()[0].header
			if got := h.Get(c.header); got != c.want {
				t.Errorf("%s: %q", c.header, got)
			}
			if got := h.Get("vendure-token"); got != "b2b" {
				t.Errorf("the channel is %q", got)
			}
			w.shop.apiKeys, w.shop.sessions = nil, map[string]bool{}
			if _, err := w.first(); classOf(t, err) != connectors.Auth {
				t.Errorf("refused: %v", err)
			}
			if w.shop.logins > 0 {
				t.Error("logged in, with nothing")
			}
		})
	}
}

func TestSomethingThatIsNoVendureIsNamed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("vendure-auth-token", "x")
		_, _ = w.Write([]byte(`{"data":{"login":{"__typename":"CurrentUser"}}}`))
	}))
	t.Cleanup(server.Close)
	set := settingsFor(server.URL)
	i, err := set.Open(t.Context(), connectors.Env{Client: "shop", Gate: openGate{}, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range i.Check(t.Context(), []string{"orders"}, nil) {
		if f.Problem != "list orders: transient (no_list): the answer holds no list" || !f.Unreachable {
			t.Errorf("%+v", f)
		}
	}
}

func TestCheckTellsWhatThereIs(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) { s.place(s.newCart(at), at, "PaymentSettled") })
	i := &instance{w.src}
	got := i.Check(t.Context(), []string{"orders", "customers", "variants", "wishes"}, nil)
	want := []connectors.Finding{
		{Subject: "orders", Note: "1 orders in all"}, {Subject: "customers", Note: "0 customers in all"}, {Subject: "variants", Note: "0 variants in all"},
		{Subject: "wishes", Problem: `there is no stream "wishes"; there are orders, customers and variants`},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := i.Check(t.Context(), nil, nil); len(got) != 1 || got[0].Problem != "" || got[0].Subject != "" {
		t.Errorf("without streams: %+v", got)
	}
	w.shop.mayNot = "orders"
	if got := i.Check(t.Context(), []string{"orders"}, nil)[0]; got.Unreachable || !strings.Contains(got.Problem, "lacks ReadOrder") {
		t.Errorf("without the permission: %+v", got)
	}
}

func TestOneRecordIsFetchedOrToldGone(t *testing.T) {
	w := newWorld(t)
	w.do(func(s *fakeShop, at time.Time) { s.newCustomer(at) })
	if e, err := w.src.Fetch(t.Context(), "customers", "1"); err != nil || e.Gone || e.Version != w.now.Truncate(time.Millisecond).UnixMicro() || e.ServerTime.IsZero() {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := w.src.Fetch(t.Context(), "customers", "2"); err != nil || !e.Gone || e.SourceID != "2" {
		t.Errorf("%+v, %v", e, err)
	}
	w.shop.confused = true
	if e, err := w.src.Fetch(t.Context(), "customers", "2"); err == nil {
		t.Errorf("another record was taken for the one that was asked for: %+v", e)
	}
	if _, err := w.src.Fetch(t.Context(), "wishes", "1"); classOf(t, err) != connectors.Invalid {
		t.Errorf("%v", err)
	}
}

// The fake shop must refuse what Vendure would refuse, or it proves nothing.
func TestTheFakeShopRefusesWhatTheSchemaDoesNotKnow(t *testing.T) {
	s := newFakeShop(time.Now)
	for _, c := range []struct {
		name, query string
		vars        map[string]any
	}{
		{"field", `{orders{items{idd}}}`, nil},
		{"field of a part", `{orders{items{payments{updated}}}}`, nil},
		{"argument", `{orders(option:{}){totalItems}}`, nil},
		{"type of a variable", `query($o:CustomerListOptions){orders(options:$o){totalItems}}`, nil},
		{"filter", `query($o:OrderListOptions){orders(options:$o){totalItems}}`, map[string]any{"o": map[string]any{"filter": map[string]any{"payments": 1}}}},
		{"operator", `query($o:OrderListOptions){orders(options:$o){totalItems}}`, map[string]any{"o": map[string]any{"filter": map[string]any{"updatedAt": map[string]any{"since": "x"}}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, _, _, err := s.load(c.query, c.vars); err == nil {
				t.Error("taken")
			}
		})
	}
}
