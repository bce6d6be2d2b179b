package vendure

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// Connector is the registry's entry.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:     "vendure",
		Doc:      "A Vendure shop, read over its admin API: orders, customers, product variants. Source only.",
		Settings: func() connectors.Settings { return &Settings{} },
	}
}

// Settings of a client.
type Settings struct {
	// URL of the admin API, "https://shop.example.com/admin-api".
	URL string
	// Auth says who reads.
	Auth Auth
	// Channel is the token of the channel to read; "" for the default channel.
	Channel string
	// Overlap is how far each reading goes back behind the last one.
	Overlap time.Duration
	// SweepEvery is the time between two sweeps over orders, SlowSweepEvery that
	// between two over customers and variants.
	SweepEvery, SlowSweepEvery time.Duration
	// Window is how long after its placing an order is swept.
	Window time.Duration
	CAFile string
}

// Auth is a user with a password, an API key, or the token of a session.
type Auth struct {
	User     string
	Password field.Secret
	APIKey   field.Secret
	Token    field.Secret
}

// apiKeyHeader is the default of Vendure's authOptions.apiKeyHeaderKey.
// https://docs.vendure.io/reference/typescript-api/auth/auth-options
const apiKeyHeader = "vendure-api-key"

// Fields declares the settings.
func (s *Settings) Fields(f *field.Set) {
	f.URL(&s.URL, "url", "Address of the admin API.", field.Required(), field.Example("https://shop.example.com/admin-api"))
	f.Struct(&s.Auth, "auth", "An administrator with the permissions ReadOrder, ReadCustomer and ReadCatalog.")
	f.String(&s.Channel, "channel", "Token of the channel to read, if it is not the default channel.", field.Advanced())
	f.Duration(&s.Overlap, "overlap", "How far each reading goes back behind the last one. Vendure stamps a change with the start of its transaction, so a row is seen later than its stamp says.", field.Default("1m"), field.Range("1s", "1d"), field.Advanced())
	f.Duration(&s.SweepEvery, "sweep_every", "How often orders are looked through for changes that move no timestamp of theirs: payments, fulfilments, refunds. In a shop where that takes long, less often: it rests for as long as it took.", field.Default("1m"), field.Range("1s", "1d"))
	f.Duration(&s.SlowSweepEvery, "slow_sweep_every", "The same for customers (edited addresses) and variants (renamed products, stock, taxes).", field.Default("1h"), field.Range("1s", "30d"), field.Advanced())
	f.Duration(&s.Window, "window", "How long after it was placed an order is looked through. A payment, fulfilment or refund that comes later is not seen.", field.Default("90d"), field.Range("1h", "3650d"))
	f.String(&s.CAFile, "ca_file", "File with further certificate authorities, for a server with a private one.", field.Advanced())
}

// Fields declares the settings of auth.
func (a *Auth) Fields(f *field.Set) {
	f.String(&a.User, "user", "Login of the administrator.", field.Example("syncd@example.com"))
	f.Secret(&a.Password, "password", "Password of the administrator.", field.Example("${env:VENDURE_PASSWORD}"))
	f.Secret(&a.APIKey, "api_key", "An API key instead of user and password, sent in the header vendure-api-key. The shop's authOptions.tokenMethod must include api-key.", field.Example("${env:VENDURE_API_KEY}"))
	f.Secret(&a.Token, "token", "The token of a session instead of user and password, sent as Authorization: Bearer. It cannot be renewed when the session ends.", field.Example("${env:VENDURE_TOKEN}"), field.Advanced())
}

// Validate checks that there is one way of logging in.
func (a *Auth) Validate(r *field.Report) {
	login := a.User != "" || !a.Password.Empty()
	ways := 0
	for _, given := range []bool{login, !a.APIKey.Empty(), !a.Token.Empty()} {
		if given {
			ways++
		}
	}
	switch {
	case ways > 1:
		r.Errorf("several ways to log in are given; give one of user with password, api_key, or token")
	case login && (a.User == "" || a.Password.Empty()) && !r.Failed("user") && !r.Failed("password"):
		r.Errorf("user and password belong together; give both")
	case ways == 0 && !r.Failed("password") && !r.Failed("api_key") && !r.Failed("token"):
		r.Errorf("missing; give user and password, or api_key, or token")
	}
}

// Streams lists the streams.
func (s *Settings) Streams() []connectors.StreamInfo {
	out := make([]connectors.StreamInfo, 0, 3)
	for _, k := range kinds() {
		out = append(out, connectors.StreamInfo{Name: k.name, Doc: k.doc, CanFetch: true, VersionIsTime: true, IDs: "id", Versions: "updatedAt", Page: 100})
	}
	return out
}

// Entities is empty: nothing is written to a Vendure shop.
func (s *Settings) Entities() []connectors.EntityInfo { return nil }

// Open makes the client. Nothing is sent before the first use.
func (s *Settings) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	base, err := url.Parse(s.URL)
	if err != nil {
		return nil, err
	}
	src := &source{set: s, now: env.Now, opened: env.Now(), memory: newMemory()}
	o := httpx.Options{Client: env.Client, Gate: env.Gate, BaseURL: base, Conceal: env.Conceal, Timeout: env.Timeout, Concurrency: env.Concurrency,
		UserAgent: env.UserAgent, CAFile: s.CAFile, Log: env.Log, Now: env.Now}
	switch {
	case !s.Auth.APIKey.Empty():
		o.Auth = httpx.Header(apiKeyHeader, s.Auth.APIKey)
	case !s.Auth.Token.Empty():
		o.Auth = httpx.Bearer(s.Auth.Token)
	default:
		src.session = &session{url: s.URL, user: s.Auth.User, password: s.Auth.Password}
		o.Auth = src.session
	}
	src.header = http.Header{}
	if s.Channel != "" {
		src.header.Set("vendure-token", s.Channel)
	}
	if src.http, err = httpx.New(o); err != nil {
		return nil, err
	}
	return &instance{src}, nil
}

// instance is an open client.
type instance struct{ src *source }

func (i *instance) Source() connectors.Source { return i.src }
func (i *instance) Target() connectors.Target { return nil }

func (i *instance) Close() error {
	i.src.http.Close()
	return nil
}
