package rest

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	"syncd/connectors"
	"syncd/connectors/httpx"
	"syncd/internal/field"
	"syncd/ratelimit"
)

// Connector returns the connector's entry for the registry.
func Connector() connectors.Connector {
	return connectors.Connector{
		Name:     "rest",
		Doc:      "Any JSON API over HTTP, described in the configuration: listings with every usual way of paging as a source, create, update and look-up of records as a target.",
		Settings: func() connectors.Settings { return &Settings{} },
	}
}

// Settings describe one API.
type Settings struct {
	URL     string
	Headers map[string]string
	Auth    httpx.AuthSettings
	CAFile  string
	Quota   string
	MaxBody int64
	MaxRecs int
	Answers answerSettings
	Stream  map[string]*streamSettings
	Entity  map[string]*entitySettings
}

const nameRule = `[a-z][a-z0-9_]{0,62}`
const nameWhat = "a name of small letters, digits and underscores that begins with a letter"

// Fields declares the settings.
func (s *Settings) Fields(f *field.Set) {
	f.URL(&s.URL, "url", "Address of the API; the paths of streams and entities are added to it.", field.Required(), field.Example("https://shop.example.com/api/v2"))
	f.Struct(&s.Auth, "auth", "How requests prove who they come from.")
	f.StringMap(&s.Headers, "headers", "Headers sent with every request. Not for credentials: those belong into `auth`.")
	f.String(&s.CAFile, "ca_file", "File with the certificates of the authorities to trust beside the system's, as PEM.", field.Advanced())
	f.String(&s.Quota, "quota_headers", "Which headers of the answers tell how much of the API's quota is left.", field.Default(ratelimit.Automatic.Name()),
		field.Choices(dialects()...), field.Advanced())
	f.Size(&s.MaxBody, "max_body", "Largest answer that is read.", field.Default("32MiB"), field.Range("1KiB", "256MiB"), field.Advanced())
	f.Int(&s.MaxRecs, "max_records", "Most records in one answer of a listing or a look-up; one with more is refused. A record takes about 1 KiB of memory beside the answer itself.", field.Default("100000"), field.Range("1", "2000000"), field.Advanced())
	f.Struct(&s.Answers, "answers", "What this API's answers mean where the status alone does not tell.")
	field.Map(f, &s.Stream, "streams", "What can be read, by a name of your choice.", field.Names(nameRule, nameWhat))
	field.Map(f, &s.Entity, "entities", "What can be written, by a name of your choice.", field.Names(nameRule, nameWhat))
}

func dialects() (cs []field.Choice) {
	for _, d := range ratelimit.Dialects() {
		cs = append(cs, field.Choice{Name: d.Name(), Doc: d.Doc()})
	}
	return cs
}

// Validate checks the settings as a whole.
func (s *Settings) Validate(r *field.Report) {
	if len(s.Stream) == 0 && len(s.Entity) == 0 && !r.Failed("streams") && !r.Failed("entities") {
		r.Errorf("neither streams nor entities are described; describe at least one of them")
	}
	for name := range s.Headers {
		if credential.MatchString(name) {
			r.At("headers", name).Errorf("a header that proves who asks belongs into auth (bearer, or header with name and value), where it is kept out of logs and listings")
		}
	}
}

// checkQuery refuses parameters that prove who asks and stand there in plain text.
func checkQuery(r *field.Report, query map[string]string) {
	for name, v := range query {
		if _, _, filled := placeholder(v); !filled && v != "" && credentialParam.MatchString(name) {
			r.At("query", name).Errorf("a parameter that proves who asks belongs into auth (query with name and value), where it is kept out of logs and listings")
		}
	}
}

// credentialParam matches names of parameters that prove who asks.
var credentialParam = regexp.MustCompile(`(?i)^((api|access|auth|private|consumer|client)[_-]?(key|token|secret)|token|secret|password)$`)

// credential matches names of headers that prove who asks.
var credential = regexp.MustCompile(`(?i)^(proxy-)?authorization$|^cookie$|api-?key|token|secret|password`)

// Streams lists the described streams by name.
func (s *Settings) Streams() []connectors.StreamInfo {
	var l []connectors.StreamInfo
	for name, st := range s.Stream {
		l = append(l, st.info(name))
	}
	slices.SortFunc(l, func(a, b connectors.StreamInfo) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// Entities lists the described entities by name.
func (s *Settings) Entities() []connectors.EntityInfo {
	var l []connectors.EntityInfo
	for name, e := range s.Entity {
		l = append(l, e.info(name))
	}
	slices.SortFunc(l, func(a, b connectors.EntityInfo) int { return cmp.Compare(a.Name, b.Name) })
	return l
}

// Open connects. It sends nothing.
func (s *Settings) Open(_ context.Context, env connectors.Env) (connectors.Instance, error) {
	a, err := newAPI(s, env)
	if err != nil {
		return nil, err
	}
	return newInstance(s, a), nil
}
