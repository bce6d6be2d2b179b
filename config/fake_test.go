package config

import (
	"context"
	"errors"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// shop is a connector that can be read from.
type shop struct {
	URL     string
	Token   field.Secret
	Headers map[string]string
}

func (s *shop) Fields(f *field.Set) {
	f.URL(&s.URL, "url", "Where the shop is.", field.Required(), field.Example("https://shop.example.com"))
	f.Secret(&s.Token, "token", "The token of the shop's API.", field.Required(), field.Example("${env:SHOP_TOKEN}"))
	f.StringMap(&s.Headers, "headers", "More headers of every request.")
}

func (s *shop) Streams() []connectors.StreamInfo {
	return []connectors.StreamInfo{
		{Name: "orders", Doc: "Orders by their time of change.", CanFetch: true, Page: 50},
		{Name: "products", Doc: "Products."},
	}
}

func (s *shop) Entities() []connectors.EntityInfo { return nil }

func (s *shop) Open(context.Context, connectors.Env) (connectors.Instance, error) {
	return nil, errors.New("not opened in tests")
}

// erp is a connector that can be written to; its entities are its own settings.
type erp struct {
	Database string
	Password field.Secret
	Account  string
	Tables   map[string]*table
	Extra    any
}

type table struct {
	Columns []string
	Batch   int
}

func (t *table) Fields(f *field.Set) {
	f.Strings(&t.Columns, "columns", "The columns to write.", field.Example("id, name"))
	f.Int(&t.Batch, "batch", "Records in one statement.", field.Default("100"), field.Range("1", "1000"))
}

func (e *erp) Fields(f *field.Set) {
	f.String(&e.Database, "database", "Name of the database.", field.Required(), field.Example("erp"))
	f.Secret(&e.Password, "password", "Password.", field.Example("${credential:erp-password}"))
	f.String(&e.Account, "account", "Number of the account, as a text.")
	field.Map(f, &e.Tables, "tables", "Tables by name.", field.Names(`[a-z_.]+`, "a name of small letters, dots and _"))
	f.Any(&e.Extra, "extra", "Anything else to be sent along.", field.Advanced())
}

func (e *erp) Streams() []connectors.StreamInfo { return nil }

func (e *erp) Entities() []connectors.EntityInfo {
	es := []connectors.EntityInfo{
		{Name: "party", Finds: true, Doc: "Customers and suppliers.", SettleTime: 90 * time.Second, Strategies: []connectors.StrategyInfo{
			{Strategy: connectors.ExternalRef, Field: "code"}, {Strategy: connectors.Lookup, Field: "name"}},
			Removals: []connectors.Removal{connectors.Archive}},
		{Name: "sale", Doc: "Sales orders.", SettleTime: 2 * time.Minute, Renames: true, Strategies: []connectors.StrategyInfo{
			{Strategy: connectors.NaturalKey, Field: "number"}}},
	}
	for name := range e.Tables {
		es = append(es, connectors.EntityInfo{Name: name, Guarded: name == "guarded", Strategies: []connectors.StrategyInfo{{Strategy: connectors.NaturalKey}}})
	}
	return es
}

func (e *erp) Open(context.Context, connectors.Env) (connectors.Instance, error) {
	return nil, errors.New("not opened in tests")
}

func registry() []connectors.Connector {
	return []connectors.Connector{
		{Name: "shop", Doc: "A shop.", Settings: func() connectors.Settings { return &shop{} }},
		{Name: "erp", Doc: "An ERP.", Settings: func() connectors.Settings { return &erp{} }},
	}
}
