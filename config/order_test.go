package config

import (
	"strings"
	"testing"
)

func TestWhatGoesWithOrderEvery(t *testing.T) {
	const every = "key: .name\n    order: every\n    group: .product"
	for _, c := range []struct{ name, key, adopt, want string }{
		{"all that belongs to it", every + "\n    on_dead: skip", "adopt, on_delete: ignore, on_vanish: keep", ""},
		{"no group", "key: .name\n    order: every", "adopt", "6:3: flows.orders.group: missing with order: every; give a jq expression for what is kept in order, for example .product"},
		{"a wrong group", "key: .name\n    order: every\n    group: .product |", "adopt", "11:22: flows.orders.group: unexpected EOF; a bracket, a quote or an end is missing"},
		{"a group of latest", "key: .name\n    group: .product", "adopt", "10:12: flows.orders.group: belongs to order: every alone; say order: every, or take group out"},
		{"on_dead of latest", "key: .name\n    order: latest\n    on_dead: hold", "adopt", "11:14: flows.orders.on_dead: belongs to order: every alone; say order: every, or take on_dead out"},
		{"an age", every + "\n    max_age: 1h", "adopt", "12:14: flows.orders.max_age: with order: every no event is too old to be written; take max_age out, or say order: latest"},
		{"on_vanish", every, "adopt, on_vanish: gone", "8:91: flows.orders.to.on_vanish: with order: every a record stays when its event no longer maps to it; say on_vanish: keep, or take it out"},
		{"on_rename", every, "adopt, on_rename: refuse", "8:91: flows.orders.to.on_rename: with order: every another key is another event, so none is renamed; take on_rename out"},
		{"an order that is none", "key: .name\n    order: any", "adopt", `10:12: flows.orders.order: "any": not accepted; one of latest, every`},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(with(t, "key: .name", c.key), "on_existing: adopt", "on_existing: "+c.adopt, 1)
			if got := strings.TrimPrefix(problems(t, text), "syncd.yaml:"); got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestEventsAreWrittenByStrategiesThatTellARepetition(t *testing.T) {
	text := strings.Replace(with(t, "key: .name", "key: .name\n    order: every\n    group: .product"),
		"entity: sale, strategy: natural_key, on_existing: adopt", "entity: party, strategy: lookup, on_existing: adopt, on_delete: archive", 1)
	got := problems(t, text)
	for _, want := range []string{
		"flows.orders.to.strategy: order: every writes each event once, and lookup cannot promise that when someone else writes the same record; use a strategy that has the target tell a repetition",
		"flows.orders.to.on_delete: with order: every an event that was written stays, also when it is gone at the source; say on_delete: ignore, or order: latest",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("\n got: %s\nwant: %s", got, want)
		}
	}
}

func TestEventsAndStatesDoNotShareAnEntity(t *testing.T) {
	text := with(t, "key: .name", "key: .name\n    order: every\n    group: .product") + second
	if got, want := problems(t, text), "flow orders writes each event of entity sale of client erp once, with order: every, and this flow would change them; give both the same order, or this flow an entity of its own"; !strings.Contains(got, want) {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}
