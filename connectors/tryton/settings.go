package tryton

import (
	"context"
	"net/url"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// Connector is the registry's entry.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:     "tryton",
		Doc:      "A Tryton ERP, written over JSON-RPC: parties, products, sales. Target only.",
		Settings: func() connectors.Settings { return &Settings{} },
	}
}

// Settings of a client.
type Settings struct {
	URL, Database string
	User          string
	Password      field.Secret
	Company       int
	Settle        time.Duration
	CAFile        string
}

// Fields declares the settings.
func (s *Settings) Fields(f *field.Set) {
	f.URL(&s.URL, "url", "Address of the server, without the database.", field.Required(), field.Example("https://erp.example.com"))
	f.String(&s.Database, "database", "Name of the database.", field.Required(), field.Example("tryton"))
	f.String(&s.User, "user", "Login of a user that may read and write parties, products and sales. Its language does not matter.", field.Required(), field.Example("syncd"))
	f.Secret(&s.Password, "password", "Password of the user.", field.Required(), field.Example("${env:TRYTON_PASSWORD}"))
	f.Int(&s.Company, "company", "Id of the company to work for; 0 takes the user's own.", field.Default("0"), field.Range("0", "2147483647"), field.Advanced())
	f.Duration(&s.Settle, "settle_time", "How long the server may go on working on a request after we stopped waiting for it. After a write in doubt nothing of that record is sent before this is over.", field.Default("30s"), field.Range("0", "1d"))
	f.String(&s.CAFile, "ca_file", "File with further certificate authorities, for a server with a private one.", field.Advanced())
}

// Streams is empty: nothing is read from Tryton.
func (s *Settings) Streams() []connectors.StreamInfo { return nil }

// Entities lists what can be written.
func (s *Settings) Entities() []connectors.EntityInfo {
	archive := []connectors.Removal{connectors.Archive}
	return []connectors.EntityInfo{
		{Name: "party", Doc: "Parties (customers) with addresses and contact mechanisms.", SettleTime: s.Settle, Finds: true, Removals: archive, Renames: true,
			Strategies: []connectors.StrategyInfo{{Strategy: connectors.ExternalRef, Field: "code, unique also among archived parties", KeyField: "code"}, {Strategy: connectors.Lookup, Field: "code", KeyField: "code"}},
			Children:   map[string]connectors.ChildMode{"addresses": connectors.Replaces, "contact_mechanisms": connectors.Replaces}},
		{Name: "product", Doc: "Products: a template with one variant each. The link is the variant's.", SettleTime: s.Settle, Finds: true, Removals: archive,
			Strategies: []connectors.StrategyInfo{{Strategy: connectors.ExternalRef, Field: "code, unique among active products", KeyField: "code"}, {Strategy: connectors.Lookup, Field: "code", KeyField: "code"}}},
		{Name: "sale", Doc: "Sales with their lines, brought to the state draft, quotation, processing or cancelled.", SettleTime: s.Settle, Finds: true, Refs: []string{"party", "product"},
			Strategies: []connectors.StrategyInfo{{Strategy: connectors.ExternalRef, Field: "web_id, unique (module web_shop)", KeyField: "web_id"}, {Strategy: connectors.Lookup, Field: "web_id", KeyField: "web_id"}},
			Children:   map[string]connectors.ChildMode{"lines": connectors.Replaces}},
	}
}

// Open makes the client. Nothing is sent before the first use.
func (s *Settings) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	base, err := url.Parse(strings.TrimRight(s.URL, "/") + "/" + url.PathEscape(s.Database) + "/")
	if err != nil {
		return nil, err
	}
	ses := &session{url: base.String(), user: s.User, password: s.Password, now: env.Now}
	c, err := httpx.New(httpx.Options{Client: env.Client, Gate: env.Gate, BaseURL: base, Auth: ses, Conceal: env.Conceal, Timeout: env.Timeout,
		Concurrency: env.Concurrency, UserAgent: env.UserAgent, CAFile: s.CAFile, Log: env.Log, Now: env.Now})
	if err != nil {
		return nil, err
	}
	r := &rpc{http: c, company: s.Company, now: env.Now, models: map[string]map[string]fieldInfo{}, named: map[string]int64{}}
	i := &instance{rpc: r, entities: map[string]connectors.Entity{}}
	for _, info := range s.Entities() {
		e := entity{rpc: r, info: info}
		switch info.Name {
		case "party":
			e.model, e.keyField = "party.party", "code"
			i.entities["party"] = &party{e}
		case "product":
			e.model, e.keyField = "product.product", "code"
			i.entities["product"] = &product{e}
		case "sale":
			e.model, e.keyField = "sale.sale", "web_id"
			i.entities["sale"] = &sale{entity: e, drafts: map[int64]time.Time{}}
		}
	}
	return i, nil
}
