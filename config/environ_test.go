package config

import (
	"strings"
	"testing"
)

func TestTheEnvironmentGoesBeforeTheFile(t *testing.T) {
	c := mustLoad(t, strings.Replace(minimal, "clients:", "listen: 127.0.0.1:1\nlog: {level: warn}\nclients:", 1),
		"SYNCD_LISTEN=:2", "SYNCD_LOG__FORMAT=json", "SYNCD_CLIENTS__SHOP__RATE=3/s", "syncd_listen=:3")
	if c.Listen != ":2" || c.Log != (Log{Level: "warn", Format: "json"}) || c.Clients["shop"].Rate.PerSecond() != 3 {
		t.Errorf("listen %s, log %+v, rate %s", c.Listen, c.Log, c.Clients["shop"].Rate)
	}
}

func TestNamesAreFoundWhateverTheirCharacters(t *testing.T) {
	c := mustLoad(t, `
clients:
  shop-1.example_eu: {connector: shop, url: "https://shop.test", token: "${env:TOKEN}"}
`, "SYNCD_CLIENTS__SHOP_1_EXAMPLE_EU__URL=https://other.test")
	if got := c.Clients["shop-1.example_eu"].Settings.(*shop).URL; got != "https://other.test" || len(c.Clients) != 1 {
		t.Errorf("url %s, %d clients", got, len(c.Clients))
	}
}

func TestAClientCanComeFromTheEnvironmentAlone(t *testing.T) {
	c := mustLoad(t, "log: {}\n", "SYNCD_CLIENTS__ERP2__DATABASE=d", "SYNCD_CLIENTS__ERP2__CONNECTOR=erp", "SYNCD_CLIENTS__ERP2__PASSWORD=pa$word#1",
		"SYNCD_CLIENTS__ERP2__ACCOUNT=007", "SYNCD_CLIENTS__ERP2__TABLES__PARTY__COLUMNS=id, name")
	k := c.Clients["erp2"]
	if k == nil {
		t.Fatalf("clients: %v", c.Clients)
	}
	e := k.Settings.(*erp)
	if e.Database != "d" || e.Account != "007" || e.Password.Reveal() != "pa$word#1" || strings.Join(e.Tables["party"].Columns, "|") != "id|name" {
		t.Errorf("settings: %+v, password %q", e, e.Password.Reveal())
	}
}

func TestValuesOfTheEnvironmentAreTakenAsTheyAre(t *testing.T) {
	for _, v := range []string{"myp@ss:", ">abc", "*x", "&x", "- a", "a #b", `"q"`, `\C`, "yes", "0123", " lead", "${env:TOKEN}", "$${x", "pa$word#1", "null", "~", "{a: b}", "[1"} {
		c := mustLoad(t, minimal, "SYNCD_CLIENTS__ERP__ACCOUNT="+v, "SYNCD_CLIENTS__ERP__PASSWORD="+v)
		e := c.Clients["erp"].Settings.(*erp)
		if e.Account != v || e.Password.Reveal() != v {
			t.Errorf("%q became %q and %q", v, e.Account, e.Password.Reveal())
		}
	}
}

func TestATextInTheEnvironmentReplacesAMappingAndTheOtherWayRound(t *testing.T) {
	c := mustLoad(t, "journal: {postgres: {host: db, database: d, user: u}}\n", "SYNCD_JOURNAL=sqlite:x.db")
	if c.Journal.Describe() != "sqlite:x.db" {
		t.Errorf("journal %s", c.Journal.Describe())
	}
	c = mustLoad(t, "journal: sqlite:x.db\n", "SYNCD_JOURNAL__POSTGRES__HOST=db", "SYNCD_JOURNAL__POSTGRES__DATABASE=d", "SYNCD_JOURNAL__POSTGRES__USER=u")
	if c.Journal.Describe() != "postgres://db:5432/d, schema syncd" {
		t.Errorf("journal %s", c.Journal.Describe())
	}
	c = mustLoad(t, "clients:\n", "SYNCD_CLIENTS__E__CONNECTOR=erp", "SYNCD_CLIENTS__E__DATABASE=d")
	if c.Clients["e"] == nil {
		t.Error("no client under a key without a value")
	}
}

func TestAnEmptyVariableIsAValue(t *testing.T) {
	if c := mustLoad(t, "listen: :1\n", "SYNCD_LISTEN="); c.Listen != "" {
		t.Errorf("listen %q", c.Listen)
	}
	if got, want := problems(t, "log: {}\n", "SYNCD_LOG__LEVEL="), "environment SYNCD_LOG__LEVEL: log.level: not accepted; one of debug, info, warn, error"; got != want {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestVariablesThatMeanNoFieldAreRefused(t *testing.T) {
	for _, c := range []struct{ name, variable, want string }{
		{"misspelt", "SYNCD_LISTN=x", "no setting has this name; did you mean SYNCD_LISTEN?"},
		{"misspelt below a client", "SYNCD_CLIENTS__SHOP__TOKE=x", "no setting has this name; did you mean SYNCD_CLIENTS__SHOP__TOKEN?"},
		{"far from all", "SYNCD_HELLO_WORLD=x", "no setting has this name; the name is SYNCD_ and the path of a field, with two underscores between levels"},
		{"mapping", "SYNCD_LOG=x", "log is a mapping; add two underscores and the name of one of its keys"},
		{"any value", "SYNCD_CLIENTS__ERP__EXTRA=x", "clients.erp.extra cannot be given by the environment; give it in the file"},
		{"prefix alone", "SYNCD_=x", "no setting has this name; the name is SYNCD_ and the path of a field, with two underscores between levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _, _ := strings.Cut(c.variable, "=")
			if got, want := problems(t, minimal, c.variable), "environment "+name+": "+c.want; got != want {
				t.Errorf("\n got: %s\nwant: %s", got, want)
			}
		})
	}
}

func TestNamesThatLookAlikeInTheEnvironmentAreRefused(t *testing.T) {
	got := problems(t, `
clients:
  a-b: {connector: erp, database: x}
  a.b: {connector: erp, database: x}
`, "SYNCD_CLIENTS__A_B__DATABASE=y")
	if want := `environment SYNCD_CLIENTS__A_B__DATABASE: could mean clients.a-b.database or clients."a.b".database; give the value in the file`; got != want {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestVariablesThatAreNoSettingsAreLeftAlone(t *testing.T) {
	text := strings.Replace(minimal, "${env:TOKEN}", "${env:SYNCD_SHOP_TOKEN}", 1)
	_, err := Load(Options{Path: "syncd.yaml", Data: []byte(text), Connectors: registry(), OwnEnv: []string{"SYNCD_CONFIG"}, Env: []string{
		"SYNCD_SHOP_TOKEN=abcdef", "SYNCD_CONFIG=/etc/syncd.yaml", "SYNCD_SERVICE_HOST=10.0.0.1", "SYNCD_SERVICE_PORT=80", "SYNCD_SERVICE_PORT_HTTP=80",
		"SYNCD_PORT=tcp://10.0.0.1:80", "SYNCD_PORT_80_TCP=tcp://10.0.0.1:80", "SYNCD_PORT_80_TCP_PROTO=tcp", "SYNCD_PORT_80_TCP_PORT=80", "SYNCD_PORT_80_TCP_ADDR=10.0.0.1",
		"OTHER=x", "SYNCDX=y", "nonsense"}})
	if err != nil {
		t.Error(err)
	}
}
