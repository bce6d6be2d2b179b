package main

import (
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"syncd/internal/pgtest"
)

// secretsConfig has a secret in every kind of field that takes one, and clients
// that fail in every way that could show it.
const secretsConfig = `journal: {postgres: {url: "${env:DATABASE_URL}"}}
listen: ADDRESS
log: {level: debug, format: FORMAT}
clients:
  shop: # refuses one listing with a text that repeats what it was sent
    connector: rest
    url: API/${env:PATH_CANARY}
    auth: {bearer: "${env:TOKEN_CANARY}"}
    streams:
      orders: &orders {list: {path: /orders}, records: data, id: [id], version: {path: version, format: integer}, paging: none}
      locked: {<<: *orders, list: {path: /locked}}
      broken: {<<: *orders, list: {path: /broken}}
  erp: # refuses every record, and repeats what it was sent
    connector: rest
    url: API
    auth: {basic: {user: ann, password: "${file:password}"}}
    answers: {code: code}
    retry: {initial_delay: 50ms, max_delay: 100ms}
    entities:
      orders: &entity {put: {path: "/refuse/{key}", id: id}}
      reset: {put: {path: "/reset/{key}", id: id}}
  header:
    connector: rest
    url: API
    auth: {header: {name: X-Key, value: "${env:HEADER_CANARY}"}}
    answers: {code: code}
    entities: {orders: *entity}
  oauth: # its token is refused, with a text that repeats the request
    connector: rest
    url: API
    auth: {oauth2: {token_url: "API/token", client_id: me, client_secret: "${env:OAUTH_CANARY}"}}
    entities: {orders: *entity}
  oauth2: # its token is given, its writes are refused
    connector: rest
    url: API
    auth: {oauth2: {token_url: "API/token2", client_id: me, client_secret: "${env:OAUTH_CANARY}"}}
    entities: {orders: *entity}
  away: # nobody there
    connector: rest
    url: http://127.0.0.1:9/${env:PATH_CANARY}
    auth: {bearer: "${env:TOKEN_CANARY}"}
    entities: {orders: *entity}
  db: # nobody there
    connector: postgres
    dsn: ${env:DSN_CANARY}
    entities: {item: {table: items, key: [id]}}
  db2:
    connector: postgres
    host: 127.0.0.1
    port: 9
    database: items
    user: ann
    password: ${env:PASSWORD_CANARY}
    entities: {item: {table: items, key: [id]}}
flows:
  refused: &flow
    from: {client: shop, stream: orders, start: all, every: 200ms}
    to: {client: erp, entity: orders, strategy: natural_key, on_existing: adopt}
    key: .id
    map: '{id, name}'
    identity: order by id
  reset: {<<: *flow, to: {client: erp, entity: reset, strategy: natural_key, on_existing: adopt}}
  header: {<<: *flow, to: {client: header, entity: orders, strategy: natural_key, on_existing: adopt}}
  oauth: {<<: *flow, to: {client: oauth, entity: orders, strategy: natural_key, on_existing: adopt}}
  oauth2: {<<: *flow, to: {client: oauth2, entity: orders, strategy: natural_key, on_existing: adopt}}
  away: {<<: *flow, to: {client: away, entity: orders, strategy: natural_key, on_existing: adopt}}
  db: {<<: *flow, to: {client: db, entity: item, strategy: natural_key, on_existing: adopt}}
  db2: {<<: *flow, to: {client: db2, entity: item, strategy: natural_key, on_existing: adopt}}
  locked: {<<: *flow, from: {client: shop, stream: locked, start: all, every: 200ms}, to: {client: header, entity: orders, strategy: natural_key, on_existing: adopt}}
  broken: {<<: *flow, from: {client: shop, stream: broken, start: all, every: 200ms}, to: {client: header, entity: orders, strategy: natural_key, on_existing: adopt}}
  unmapped: {<<: *flow, map: '{id, name: (.name | tonumber)}', to: {client: away, entity: orders, strategy: natural_key, on_existing: adopt}}
`

// echo is an API that repeats in its refusals whatever it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	key := r.Header.Get("X-Key")
	said := fmt.Sprintf("not for %s %s, X-Key %s, user %s %s", r.Header.Get("Authorization"), r.URL, key, user, password)
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer CANARY.fetched"); ok { // without its scheme
		said = fmt.Sprintf("token CANARY.fetched%s, %s, %x", token, base64.StdEncoding.EncodeToString([]byte("the token CANARY.fetched"+token)), "CANARY.fetched"+token)
	}
	if key != "" { // in the other forms that texts take on their way
		said = fmt.Sprintf("%s, %s, %s, %x, %%%s", html.EscapeString(key), url.PathEscape(url.PathEscape(key)),
			base64.StdEncoding.EncodeToString([]byte(`{"key":"`+key+`"}`)), key, strings.ReplaceAll(fmt.Sprintf("% x", key), " ", "%"))
	}
	w.Header().Set("X-Echo", said)
	w.Header().Set("WWW-Authenticate", "Bearer error="+r.Header.Get("Authorization"))
	refuse := func(status int) {
		reply(w, status, map[string]any{"error": said, "message": said, "code": key + password})
	}
	switch {
	case strings.HasSuffix(r.URL.Path, "/orders"):
		reply(w, http.StatusOK, map[string]any{"data": []any{map[string]any{"id": "A", "name": "CUSTOMER-CANARY-name", "version": 1}}})
	case strings.HasSuffix(r.URL.Path, "/locked"):
		refuse(http.StatusUnprocessableEntity)
	case strings.HasSuffix(r.URL.Path, "/broken"):
		fmt.Fprint(w, "<html>"+said)
	case r.URL.Path == "/token2":
		reply(w, http.StatusOK, map[string]any{"access_token": "CANARY.fetched-token", "token_type": "Bearer", "expires_in": 3600})
	case strings.HasPrefix(r.URL.Path, "/refuse/"):
		refuse(http.StatusUnprocessableEntity)
	case strings.HasPrefix(r.URL.Path, "/reset/"):
		panic(http.ErrAbortHandler)
	default:
		refuse(http.StatusUnauthorized)
	}
}

func TestSecretsAndCustomerDataAreShownNowhere(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			showsNothing(t, format)
		})
	}
}

func showsNothing(t *testing.T, format string) {
	api := httptest.NewServer(http.HandlerFunc(echo))
	t.Cleanup(api.Close)
	w := &world{t: t, dir: t.TempDir(), addr: freeAddress(t)}
	secret := map[string]string{}
	canary := func(name, value string) string {
		secret[name] = value
		return value
	}
	dsn, err := url.Parse(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	dsn.User = url.UserPassword("postgres", canary("journal", "CANARY-journal-9f3b"))
	w.env = []string{
		"DATABASE_URL=" + dsn.String(),
		"PATH_CANARY=" + canary("path", "CANARY-path-77ab"),
		"TOKEN_CANARY=" + canary("token", `CANARY-token-"q'1&<`),
		"HEADER_CANARY=" + canary("header", "CANARY-header<51&d0/"),
		"OAUTH_CANARY=" + canary("oauth", "CANARY-oauth/+=1"),
		"DSN_CANARY=postgres://ann:" + canary("dsn", "CANARY-dsn-c0de") + "@127.0.0.1:9/items?sslmode=disable",
		"PASSWORD_CANARY=" + canary("password", "CANARY-pw-%40x"),
	}
	write(t, w.dir, "password", canary("file", "CANARY-file-b00c")+"\n")
	// What else must not be shown: forms in which a secret travels, and customer data.
	secret["basic"] = base64.StdEncoding.EncodeToString([]byte("ann:" + secret["file"]))
	secret["customer"] = "CUSTOMER-CANARY"
	secret["fetched"] = "CANARY.fetched-token"
	for name, value := range maps.Clone(secret) {
		quoted := strconv.Quote(value)
		secret[name+", quoted"] = quoted[1 : len(quoted)-1]
		secret[name+", in an address"] = url.QueryEscape(value)
		secret[name+", in HTML"] = html.EscapeString(value)
		secret[name+", in base64"] = base64.RawStdEncoding.EncodeToString([]byte(value))[:8]
		secret[name+", after eight bytes in base64"] = base64.RawStdEncoding.EncodeToString([]byte(value[1:]))[:8]
		secret[name+", as digits"] = fmt.Sprintf("%x", value)
		secret[name+", as digits in an address"] = strings.ReplaceAll(fmt.Sprintf("% x", value), " ", "%")
	}
	secret["end of the token"] = `q'1&<` // behind what a token is thought to be made of
	write(t, w.dir, "syncd.yaml", strings.NewReplacer("ADDRESS", w.addr, "API", api.URL, "FORMAT", format).Replace(secretsConfig))

	seen := map[string]string{}
	p := w.run()
	until(t, "the refusals are dead letters", func() bool {
		return w.job("refused/A").State == "dead" && w.job("header/A").State == "dead" && w.job("oauth2/A").State == "dead" && w.job("unmapped/@A").State == "dead"
	})
	for _, words := range [][]string{{"locked"}, {"broken"}, {"flow=reset", "unknown"}, {"flow=away", "transient"}, {"flow=db", "transient"}, {"flow=db2", "transient"}} {
		until(t, fmt.Sprintf("the log tells of %q", words), func() bool { return logTells(p.log(), words) })
	}
	until(t, "the client with the refused token is suspended", func() bool { return strings.Contains(w.look("status").out, "credentials refused") })
	for _, c := range []string{"status", "status --json", "jobs list", "jobs list --json", "check", "check --json", "check --live", "check --live --json", "version"} {
		r := w.call(strings.Fields(c)...)
		seen[c] = r.out + r.errout
	}
	for _, job := range []string{"refused/A", "reset/A", "header/A", "oauth/A", "oauth2/A", "away/A", "db/A", "db2/A", "unmapped/@A"} {
		for _, c := range []string{"jobs show", "jobs show --json", "explain", "explain --json"} {
			r := w.call(append(strings.Fields(c), job)...)
			if r.code != 0 {
				t.Errorf("%s %s ends with %d: %s", c, job, r.code, r.errout)
			}
			seen[c+" "+job] = r.out + r.errout
		}
	}
	_, seen["/metrics"] = get(t, w.url("/metrics"))
	p.stop()
	seen["the log"] = p.log()
	for where, text := range seen {
		for name, value := range secret {
			if i := strings.Index(text, value); i >= 0 {
				t.Errorf("%s shows the %s: …%s…", where, name, text[max(0, i-100):min(len(text), i+60)])
			}
		}
	}
	// The test would prove nothing if the refusals had not come through.
	for _, where := range []string{"jobs show refused/A", "jobs list", "check --live", "the log"} {
		if !strings.Contains(seen[where], "[secret]") {
			t.Errorf("%s shows no refusal that repeats a secret:\n%s", where, seen[where])
		}
	}
	for _, where := range []string{"jobs show --body"} {
		if r := w.call(append(strings.Fields(where), "refused/A")...); !strings.Contains(r.out, secret["customer"]) {
			t.Errorf("%s does not show the record: %s", where, r.out)
		}
	}
}

// logTells reports whether a line has all the words, in either format of the log.
func logTells(log string, words []string) bool {
	for line := range strings.Lines(log) {
		all := true
		for _, w := range words {
			k, v, pair := strings.Cut(w, "=")
			all = all && (strings.Contains(line, w) || pair && strings.Contains(line, fmt.Sprintf("%q:%q", k, v)))
		}
		if all {
			return true
		}
	}
	return false
}
