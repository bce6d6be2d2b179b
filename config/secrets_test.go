package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoSecretShowsInAPrintedConfiguration puts a canary wherever a secret can come from, and prints everything in every way.
func TestNoSecretShowsInAPrintedConfiguration(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pw"), []byte("CANARY-from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustLoad(t, `
journal: postgres://sync:${env:PW}@db/app
clients:
  shop:
    connector: shop
    url: https://shop.test/${env:PW}
    token: ${env:PW}
    headers: {X-Key: "a ${file:`+dir+`/pw} b"}
  erp:
    connector: erp
    database: ${env:PW}
    password: ${file:`+dir+`/pw}
    extra: {nested: [{deep: "${env:PW}"}]}
  late: {connector: erp, database: x}
flows:
  orders:
    from: {client: shop, stream: orders, start: all}
    to: {client: erp, entity: sale, strategy: natural_key, on_existing: adopt}
    key: .name
    map: "{number: .name}"
    vars: {pw: "${env:PW}"}
`, "PW=CANARY-from-env", "SYNCD_CLIENTS__LATE__PASSWORD=CANARY-from-layer")
	e := c.Clients["erp"].Settings.(*erp)
	if e.Password.Reveal() != "CANARY-from-file" || c.Flows["orders"].Vars["pw"] != "CANARY-from-env" {
		t.Fatal("the secrets did not arrive")
	}
	var out bytes.Buffer
	for _, v := range []any{c, *c, c.Clients["shop"], c.Clients["erp"], c.Flows["orders"], c.Journal, &c.Journal} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("config", "config", v)
	}
	fmt.Fprintf(&out, "%+v %+v\n", c.Clients, struct{ C *Config }{c})
	if got := out.String(); strings.Contains(got, "CANARY") {
		t.Errorf("a secret shows: %s", got)
	}
	if !strings.Contains(fmt.Sprintf("%+v", c), "Listen:127.0.0.1:9464") {
		t.Errorf("nothing is left of the configuration: %+v", c)
	}
	if got := c.Redact("GET https://shop.test/?key=CANARY-from-env: CANARY-from-layer, CANARY-from-file"); got != "GET https://shop.test/?key=[secret]: [secret], [secret]" {
		t.Errorf("redacted: %s", got)
	}
	if data, err := json.Marshal(c); err != nil || strings.Contains(string(data), "CANARY") {
		t.Errorf("as JSON: %s, %v", data, err)
	}
}

func TestSubstitutedTextsAreNeverYAML(t *testing.T) {
	for _, pw := range []string{"myp@ss:", ">abc", "*x", "&x", "- a", "a #b", `"q"`, `\C`, "yes", "0123", " lead", "pass#1", "x$HOME#1", "${env:TOKEN}", "a\nb: c"} {
		for _, text := range []string{"${env:PW}", `"${env:PW}"`, "'${env:PW}'"} {
			c := mustLoad(t, with(t, "database: erp", "database: erp, account: "+quoteIn(text)+", password: "+quoteIn(text)), "PW="+pw)
			e := c.Clients["erp"].Settings.(*erp)
			if e.Account != pw || e.Password.Reveal() != pw {
				t.Errorf("%s with %q became %q and %q", text, pw, e.Account, e.Password.Reveal())
			}
		}
	}
}

// quoteIn quotes a plain reference, whose brace a flow mapping would take for its own end.
func quoteIn(text string) string {
	if strings.HasPrefix(text, "$") {
		return "'" + text + "'"
	}
	return text
}

func TestDollarSignsInAFileStayAsTheyAre(t *testing.T) {
	for text, want := range map[string]string{
		"pas$word": "pas$word", "a$$b": "a$$b", "$HOME": "$HOME", "$": "$", `"$${env:X}"`: "${env:X}", "a$": "a$",
	} {
		c := mustLoad(t, with(t, "database: erp", "database: erp, account: "+text))
		if got := c.Clients["erp"].Settings.(*erp).Account; got != want {
			t.Errorf("%s became %q, want %q", text, got, want)
		}
	}
}
