package rest

import (
	"net/http"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// idempotencySettings say what the API does with an idempotency key that a create
// bears. Nothing is taken for granted: no two vendors promise the same.
type idempotencySettings struct {
	Header      string
	Quoted      bool
	Form        string
	MaxLength   int
	Retention   time.Duration
	Mismatch    string
	KeepsErrors bool
}

func (s *idempotencySettings) Fields(f *field.Set) {
	f.String(&s.Header, "header", "The header that holds the key.", field.Default("Idempotency-Key"), field.Pattern("[A-Za-z0-9-]+", "the name of a header"))
	f.Bool(&s.Quoted, "quoted", "Write the key in double quotes, as the IETF's draft asks for. Most APIs want it bare.", field.Default("false"))
	f.String(&s.Form, "form", "What a key looks like.", field.Default(string(connectors.KeyUUID)), field.Choices(
		field.Choice{Name: string(connectors.KeyUUID), Doc: "36 characters in the form of a UUID"}, field.Choice{Name: string(connectors.KeyHex), Doc: "hexadecimal digits, 64 or as many as max_length lets"}))
	f.Int(&s.MaxLength, "max_length", "How many characters a key may have at most.", field.Default("255"), field.Range("32", "255"), field.Advanced())
	f.Duration(&s.Retention, "retention", "How long the server remembers a key at least, as the vendor promises it. 0 when nobody says: then a create whose answer was lost is never sent again before it was looked up.",
		field.Default("0"), field.Range("0", "365d"), field.Example("24h"))
	f.String(&s.Mismatch, "mismatch", "What the server does with a key that it knows when another body comes with it. syncd does not send that; it tells what would happen after the journal was restored from a backup.",
		field.Default(string(connectors.MismatchRefused)), field.Choices(
			field.Choice{Name: string(connectors.MismatchRefused), Doc: "the request is refused"},
			field.Choice{Name: string(connectors.MismatchIgnored), Doc: "the first answer is given again"},
			field.Choice{Name: string(connectors.MismatchCreates), Doc: "the key counts for nothing, and another record is created"}))
	f.Bool(&s.KeepsErrors, "keeps_errors", "The server remembers its own failures (500) under the key and answers them again. Say false only where the vendor promises that such a request did nothing and may be sent again under its key.", field.Default("true"))
}

func (s *idempotencySettings) Validate(r *field.Report) {
	if p := s.promises().Problem(); p != "" && !r.Failed("form") && !r.Failed("max_length") && !r.Failed("mismatch") {
		r.Errorf("%s", p)
	}
	switch name := http.CanonicalHeaderKey(s.Header); name {
	case "Content-Type", "Content-Length", "Authorization", "Host", "If-Match", "Connection", "Transfer-Encoding", "Accept", "Cookie":
		r.At("header").Errorf("%s is not a header for keys", name)
	}
}

// promises are the settings as strategies take them.
func (s *idempotencySettings) promises() *connectors.Idempotency {
	return &connectors.Idempotency{Retention: s.Retention, Mismatch: connectors.Mismatch(s.Mismatch), KeepsErrors: s.KeepsErrors,
		Form: connectors.KeyForm(s.Form), MaxLength: s.MaxLength}
}

// value is the header's value for a key.
func (s *idempotencySettings) value(key string) string {
	if s.Quoted {
		return strconv.Quote(key)
	}
	return key
}
