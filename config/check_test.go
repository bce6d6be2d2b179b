package config

import (
	"strings"
	"testing"
	"time"
)

func TestFlowsAreCheckedAgainstTheirClients(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"unknown source client", "from: {client: shop,", "from: {client: shpo,", `7:20: flows.orders.from.client: there is no client "shpo"; did you mean shop?`},
		{"unknown target client", "to: {client: erp,", "to: {client: warehouse,", `8:18: flows.orders.to.client: there is no client "warehouse"; known here: erp, shop`},
		{"unknown stream", "stream: orders", "stream: order", `7:34: flows.orders.from.stream: client shop (shop) has no stream "order"; did you mean orders?`},
		{"unknown stream far from all", "stream: orders", "stream: invoices", `7:34: flows.orders.from.stream: client shop (shop) has no stream "invoices"; known here: orders, products`},
		{"unknown entity", "entity: sale", "entity: sales", `8:31: flows.orders.to.entity: client erp (erp) has no entity "sales"; did you mean sale?`},
		{"source that cannot be read", "from: {client: shop,", "from: {client: erp,", `7:20: flows.orders.from.client: client erp (erp) cannot be read from: it has no streams`},
		{"target that cannot be written", "to: {client: erp,", "to: {client: shop,", `8:18: flows.orders.to.client: client shop (shop) cannot be written to: it has no entities`},
		{"strategy beyond the entity", "strategy: natural_key", "strategy: lookup", `8:47: flows.orders.to.strategy: entity sale cannot carry lookup; use natural_key`},
		{"removal beyond the entity", "on_existing: adopt", "on_existing: adopt, on_delete: archive", `8:91: flows.orders.to.on_delete: records of entity sale cannot be archived; use ignore`},
		{"rename beyond the entity", "entity: sale, strategy: natural_key, on_existing: adopt", "entity: party, strategy: lookup, on_existing: adopt, on_rename: rename", `8:87: flows.orders.to.on_rename: the key of entity party cannot be changed; use recreate or refuse`},
		{"removal of a flow that only creates", "on_existing: adopt", "on_existing: adopt, create_only: true, on_delete: delete", "8:110: flows.orders.to.on_delete: create_only never changes a record, so it cannot be deleted; write ignore, or take create_only out\nsyncd.yaml:8:110: flows.orders.to.on_delete: records of entity sale cannot be deleted; use ignore"},
		{"start in the future", "start: all", "start: 2026-11-29T12:00:01Z", `7:49: flows.orders.from.start: 2026-11-29T12:00:01Z lies in the future; write now, or an earlier time`},
		{"burst without a rate", "connector: erp,", "connector: erp, burst: 3,", `4:32: clients.erp.burst: without rate, burst has no meaning; give rate, or take burst out`},
		{"slow only beyond the timeout", "connector: erp,", "connector: erp, breaker: {slow_call: 30s},", `4:46: clients.erp.breaker.slow_call: 30s is not shorter than the timeout of one request (30s), so no request that is served is ever that slow; lower it, or raise timeout`},
		{"attempt shorter than one request", "key: .name", "key: .name\n    retry: {timeout: 29s}", `10:22: flows.orders.retry.timeout: 29s is less than the timeout of one request of the client (30s); raise it, or lower the client's timeout`},
		{"delays that cross", "key: .name", "key: .name\n    retry: {initial_delay: 31m}", `10:28: flows.orders.retry.initial_delay: 31m is more than max_delay (30m); lower it, or raise max_delay`},
		{"delay that crosses the client's", "connector: erp,", "connector: erp, retry: {max_delay: 1s},", `4:44: clients.erp.retry.max_delay: 1s is less than initial_delay (2s); raise it, or lower initial_delay`},
		{"expiry without an age", "key: .name", "key: .name\n    on_expire: drop", `10:16: flows.orders.on_expire: without max_age nothing expires; give max_age, or take on_expire out`},
		{"two programs", "key: .name", "key: .name\n    map_file: x.jq", `10:15: flows.orders.map_file: given beside map; take one of them out`},
		{"listen without a port", "clients:", "listen: localhost\nclients:", `2:9: listen: not an address to listen on; write host:port such as 127.0.0.1:9464, :9464 for every address, or off`},
		{"listen on a port that is none", "clients:", "listen: ':http'\nclients:", `2:9: listen: not an address to listen on; write host:port such as 127.0.0.1:9464, :9464 for every address, or off`},
		{"shards of an SQLite journal", "connector: erp,", "connector: erp, shards: 2,", `4:33: clients.erp.shards: an SQLite journal serves one daemon, so that 2 parts would only have a part of the pace each; take shards out, or use a PostgreSQL journal`},
		{"history that is kept for no time", "clients:", "retention: {attempts: 1ns, dead: 59s}\nclients:", "2:23: retention.attempts: 1ns is too short to be meant; write 0 to keep it for good, or at least 1m\nsyncd.yaml:2:34: retention.dead: 59s is too short to be meant; write 0 to keep it for good, or at least 1m"},
		{"token that no refusal names", "key: .name", "key: .name\n    accept_change: hello", `10:20: flows.orders.accept_change: "hello": not accepted; expected the token that the refusal names: c and ten digits or letters up to f`},
		{"mistake in a client elsewhere", "connector: erp,", "connector: erp, concurrency: 0,", `4:38: clients.erp.concurrency: "0": out of range; 1 to 256`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.TrimPrefix(problems(t, with(t, c.old, c.new)), "syncd.yaml:")
			if got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestAMistakeInAClientDoesNotHideTheMistakesOfItsFlows(t *testing.T) {
	text := strings.Replace(with(t, "connector: erp,", "connector: erp, concurrency: 0,"), "entity: sale", "entity: sales", 1)
	want := `syncd.yaml:4:38: clients.erp.concurrency: "0": out of range; 1 to 256
syncd.yaml:8:31: flows.orders.to.entity: client erp (erp) has no entity "sales"; did you mean sale?`
	if got := problems(t, text); got != want {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestAConnectorsOwnMistakeDoesNotBringGuessesAboutItsEntities(t *testing.T) {
	text := strings.Replace(with(t, "database: erp", "database: [erp]"), "entity: sale", "entity: no_matter", 1)
	if got, want := problems(t, text), "syncd.yaml:4:25: clients.erp.database: expected text, not a list"; got != want {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

// second is one more flow to the entity that the minimal configuration writes to.
const second = `
  more:
    from: {client: shop, stream: products, start: all}
    to: {client: erp, entity: sale, strategy: natural_key, on_existing: adopt}
    key: .name
    map: .
`

func TestFlowsToOneEntityMustNameTheSameIdentity(t *testing.T) {
	both := strings.TrimRight(minimal, "\n") + second
	for _, c := range []struct{ name, text, want string }{
		{"neither", both,
			"syncd.yaml:6:3: flows.orders.identity: missing; flow more also writes to entity sale of client erp, so both must give a record the same key: confirm it by the same identity text in both"},
		{"one", both + "    identity: by number\n",
			"syncd.yaml:6:3: flows.orders.identity: not the same as that of flow more, which also writes to entity sale of client erp; both must give a record the same key, and the same identity text"},
		{"different", strings.Replace(both, "  more:", "    identity: by name\n  more:", 1) + "    identity: by number\n",
			"syncd.yaml:11:15: flows.orders.identity: not the same as that of flow more, which also writes to entity sale of client erp; both must give a record the same key, and the same identity text"},
		{"the same", strings.Replace(both, "  more:", "    identity: by number\n  more:", 1) + "    identity: by number\n", ""},
		{"another entity", strings.TrimRight(minimal, "\n") + strings.Replace(second, "entity: sale, strategy: natural_key", "entity: party, strategy: lookup", 1), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := problems(t, c.text); got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestFlowsToOneEntityNeitherRemoveNorShadowEachOthersRecords(t *testing.T) {
	flows := func(tables, to1, to2 string) string {
		i := strings.Index(minimal, "flows:")
		return strings.Replace(minimal[:i], "database: erp", "database: erp, "+tables, 1) + `flows:
  a:
    from: {client: shop, stream: products, start: all}
    to: {client: erp, on_existing: adopt, ` + to1 + `}
    key: .name
    map: .
    identity: name
  b:
    from: {client: shop, stream: products, start: all}
    to: {client: erp, on_existing: adopt, ` + to2 + `}
    key: .name
    map: .
    identity: name
`
	}
	party := "entity: party, strategy: lookup"
	for _, c := range []struct{ name, text, want string }{
		{"none removes", flows("", party, party), ""},
		{"one removes", flows("", party, party+", on_delete: archive"), ""},
		{"both remove", flows("", party+", on_delete: archive", party+", on_delete: archive"),
			"flows.b.to.on_delete: flow a removes records of entity party of client erp too, and neither knows whether the other still has a record; say on_delete: ignore in all of them but one"},
		{"one version for both", flows("tables: {guarded: {}}", "entity: guarded, strategy: natural_key", "entity: guarded, strategy: natural_key"),
			"flows.b.to.entity: flow a also writes to entity guarded of client erp, which keeps one version of a record, so that each would take the other's states for older ones; give each flow an entity with a version of its own"},
		{"a version for each", flows("tables: {guarded: {}, other: {}}", "entity: guarded, strategy: natural_key", "entity: other, strategy: natural_key"), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, c.text)
			if c.want == "" && got != "" || !strings.HasSuffix(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestNamesOfFlowsAndClients(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "0": true, "shop.example.com": true, "a-b_c.d": true, strings.Repeat("a", 63): true,
		strings.Repeat("a", 64): false, "A": false, ".a": false, "-a": false, "_a": false, "a/b": false, "a b": false, "é": false, "'a\"b'": false,
	} {
		flow := problems(t, with(t, "  orders:\n", "  "+name+":\n"))
		client := problems(t, strings.Replace(minimal, "  erp: {", "  x: {connector: erp, database: x}\n  "+name+"x: {", 1))
		if (flow == "") != ok || !ok != strings.Contains(flow, "cannot be used; expected a small letter or digit, then up to 62") {
			t.Errorf("flow %s: %s", name, flow)
		}
		if ok && len(name) < 60 && strings.Contains(client, "cannot be used") {
			t.Errorf("client %s: %s", name, client)
		}
	}
}

func TestARetryTimeoutThatIsNotGivenIsNeverShorterThanARequest(t *testing.T) {
	c := mustLoad(t, with(t, "connector: erp,", "connector: erp, timeout: 10m,"))
	if got := c.Flows["orders"].Retry.Timeout; got != c.Clients["erp"].Timeout {
		t.Errorf("an attempt may take %v", got)
	}
}

func TestARetryFieldThatTheFlowDoesNotGiveComesFromTheClientItWritesTo(t *testing.T) {
	client := Retry{MaxAttempts: 3, InitialDelay: 5 * time.Second, MaxDelay: time.Minute, Multiplier: 3, Jitter: "none", Timeout: 7 * time.Minute, RetryFor: time.Hour}
	flow := Retry{MaxAttempts: 4, InitialDelay: 6 * time.Second, MaxDelay: 2 * time.Minute, Multiplier: 4, Jitter: "full", Timeout: 8 * time.Minute, RetryFor: 3 * time.Hour}
	const given = "{max_attempts: 3, initial_delay: 5s, max_delay: 1m, multiplier: 3, jitter: none, timeout: 7m, retry_for: 1h}"
	for _, c := range []struct {
		name, retry string
		want        Retry
	}{
		{"nothing", "{}", client},
		{"everything", "{max_attempts: 4, initial_delay: 6s, max_delay: 2m, multiplier: 4, jitter: full, timeout: 8m, retry_for: 3h}", flow},
		{"one field", "{jitter: full}", func() Retry { y := client; y.Jitter = "full"; return y }()},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(with(t, "connector: erp,", "connector: erp, retry: "+given+","), "key: .name", "key: .name\n    retry: "+c.retry, 1)
			if got := mustLoad(t, text).Flows["orders"].Retry; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestFreshWithinNeedsASourceThatCanBeAskedForOneRecord(t *testing.T) {
	with := func(stream, value string) string {
		return strings.TrimRight(strings.Replace(minimal, "stream: orders", "stream: "+stream, 1), "\n") + "\n    fresh_within: " + value + "\n"
	}
	for _, c := range []struct{ name, text, want string }{
		{"it can", with("orders", "10m"), ""},
		{"off", with("products", "0"), ""},
		{"it cannot", with("products", "10m"), "stream products of client shop cannot be asked for one record, so a record cannot be read anew; take fresh_within out; max_age bounds how old a change may be when it is sent"},
		{"too short", with("orders", "30s"), "30s is too short to read a record anew and send it; give 1m or more, or 0 for any time"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, got, _ := strings.Cut(problems(t, c.text), "flows.orders.fresh_within: ")
			if c.want == "" {
				got = problems(t, c.text)
			}
			if got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}
