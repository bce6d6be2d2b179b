package config

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
	"syncd/mapping"
)

// Flow is the rule that takes one stream to one entity.
type Flow struct {
	Name string
	// Enabled is false for a flow that is checked and not run.
	Enabled bool
	From    From
	To      To
	// Identity says in words what makes a record the same; flows that write to one entity name the same one.
	Identity string
	// Key and Map are jq programs. Map is the content of MapFile when that was given.
	Key, Map field.Text
	MapFile  string
	// Order is latest or every; with every, Group is a jq program as Key is, and OnDead is hold or skip.
	Order  string
	Group  field.Text
	OnDead string
	// Vars are texts that the programs can use.
	Vars map[string]string
	// Retry is complete: what the flow did not give comes from the client it writes to.
	Retry Retry
	// MaxAge is how old a change may be when it is sent; 0 for any age.
	MaxAge time.Duration
	// OnExpire is dead or drop.
	OnExpire string
	// FreshWithin is how long after it was read a record is created without another
	// look at its source; 0 for any time.
	FreshWithin time.Duration
	// MaxOpen is how many open jobs the flow may have before its source is read no further.
	MaxOpen int
	// AcceptChange is the token of a change that shall pass; "" for none.
	AcceptChange string

	redact func(string) string
	// at tells where a part of the flow stands; a function, as redact is.
	at func(path ...string) field.Pos
}

// From is where a flow reads.
type From struct {
	Client, Stream string
	// Every is how long after one poll the next follows.
	Every time.Duration
	Start Start
	// Page is how many records are asked for at once, at least 1.
	Page int
	// Info is what the connector says of the stream.
	Info connectors.StreamInfo
}

// To is where a flow writes, and how.
type To struct {
	Client, Entity string
	Strategy       connectors.Strategy
	OnExisting     string // adopt or refuse
	OnDelete       string // ignore, archive or delete
	OnVanish       string // gone or keep
	OnRename       string // rename, recreate or refuse
	OnMissing      string // recreate, leave or dead
	OnFrozen       string // dead or ignore
	CreateOnly     bool
	// SettleTime is how long after its sending a request without an answer may still be at work in the target.
	SettleTime time.Duration
	// Info is what the connector says of the entity.
	Info connectors.EntityInfo

	strategy string
}

// Fields declares the fields of a flow.
func (f *Flow) Fields(s *field.Set) {
	s.Bool(&f.Enabled, "enabled", "Whether the flow runs. One that does not is checked all the same.", field.Default("true"))
	s.Struct(&f.From, "from", "Where the flow reads.")
	s.Struct(&f.To, "to", "Where the flow writes, and how.")
	s.Text(&f.Key, "key", "A jq expression that runs on each record that map gives, and gives the record's key in the target: from the business identity (an order number), never from a time or a counter. $event is the source's record.",
		field.Required(), field.Example(`"SHOP-" + .number`))
	s.String(&f.Order, "order", "What of a record's changes is written, and in which order. [Each event once, in order](order.md) says what every means.",
		field.Choices(field.Choice{Name: "latest", Doc: "the newest state: one that is not written yet gives way to a newer one"},
			field.Choice{Name: "every", Doc: "each event, once, in order within its group: for movements and postings"}),
		field.Default("latest"))
	s.Text(&f.Group, "group", "With order: every, a jq expression that runs on each record that map gives, as key does, and gives what the record is kept in order with, such as the product of a stock movement. "+
		"Records of different groups do not wait for each other.", field.Example(".product"))
	s.String(&f.OnDead, "on_dead", "With order: every, what a dead letter does to its group, and only to that.",
		field.Choices(field.Choice{Name: "hold", Doc: "nothing of the group is written before it is replayed or discarded"},
			field.Choice{Name: "skip", Doc: "the group goes on without it"}),
		field.Default("hold"))
	s.Text(&f.Map, "map", "A jq program that turns the source's record into the target's: one object, or several, or null to leave the record out. This or map_file.",
		field.Example("{name: .name, email: .email}"))
	s.String(&f.MapFile, "map_file", "A file with the jq program instead of map; a relative path starts from the folder of the configuration file.",
		field.Example("maps/orders.jq"))
	s.StringMap(&f.Vars, "vars", "Texts that the programs can use, as $vars.NAME.", field.Names(`[A-Za-z_][A-Za-z0-9_]{0,62}`, "a name that jq can use: letters, digits and _, not beginning with a digit"))
	s.String(&f.Identity, "identity", "Says in a few words what makes a record the same, for example \"customer by e-mail\". Flows that write to one entity of a client must "+
		"give a record the same key, and confirm it by the same text here.", field.Example("customer by e-mail"))
	s.Struct(&f.Retry, "retry", "How failed jobs are tried again. What is not given here comes from the client the flow writes to.")
	s.Duration(&f.MaxAge, "max_age", "How old a change may be when it is sent. An older one is read anew at the source where that is possible. 0 for any age.",
		field.Default("0"), field.Range("0", "3650d"))
	s.String(&f.OnExpire, "on_expire", "What becomes of a change that is older than max_age and cannot be read anew.",
		field.Choices(field.Choice{Name: "dead", Doc: "a dead letter, for a person to see"}, field.Choice{Name: "drop", Doc: "dropped and counted"}),
		field.Default("dead"))
	s.Duration(&f.FreshWithin, "fresh_within", "How long after it was last read a record may be created. One that has waited longer is read anew at the source just before it is sent, so that "+
		"an order that was cancelled meanwhile is not created. Only where the stream can be asked for one record. 0 for any time.",
		field.Default("0"), field.Range("0", "3650d"))
	s.Int(&f.MaxOpen, "max_open", "How many open jobs the flow may have. With that many its source is read no further, until less than nine tenths of them are open; writing goes on.",
		field.Default("1000000"), field.Range("100", "1000000000"), field.Advanced())
	s.String(&f.AcceptChange, "accept_change", "Lets one change of key, strategy or a constant that key uses pass, which syncd refuses to start with otherwise: the token that the refusal names. "+
		"It stands for that change alone and may stay here.", field.Pattern("c[0-9a-f]{10}", "the token that the refusal names: c and ten digits or letters up to f"), field.Advanced())
}

// Fields declares where a flow reads.
func (f *From) Fields(s *field.Set) {
	s.String(&f.Client, "client", "Name of the client.", field.Required(), field.Example("shop"))
	s.String(&f.Stream, "stream", "The kind of thing to read; each connector's section lists its streams.", field.Required(), field.Example("orders"))
	s.Var(&f.Start, "start", "start",
		"Where to begin when the flow runs for the first time: now (changes from then on), all, a date (its midnight in UTC) or an RFC 3339 time.",
		field.Required(), field.Pattern(`now|all|[0-9]{4}-[0-9]{2}-[0-9]{2}(T.+)?`, "a start"), field.Example("2026-01-31"))
	s.Duration(&f.Every, "every", "How long after one look for changes the next follows.", field.Default("30s"), field.Range("100ms", "7d"))
	s.Int(&f.Page, "page", "How many records to ask for at once. Without it, what suits the stream.", field.Range("1", "10000"), field.Advanced())
}

// Fields declares where a flow writes, and how.
func (t *To) Fields(s *field.Set) {
	s.String(&t.Client, "client", "Name of the client.", field.Required(), field.Example("erp"))
	s.String(&t.Entity, "entity", "The kind of record to write; each connector's section lists its entities.", field.Required(), field.Example("order"))
	s.String(&t.strategy, "strategy", "How a write is made safe to repeat. Which of them an entity can carry depends on the target.", field.Required(), field.Choices(
		field.Choice{Name: string(connectors.NaturalKey), Doc: "one call that creates or updates by key: the effect happens once"},
		field.Choice{Name: string(connectors.ExternalRef), Doc: "create under a reference that the target keeps unique: created once"},
		field.Choice{Name: string(connectors.IdempotencyKey), Doc: "create under a key by which the target recognises a repeat: created once"},
		field.Choice{Name: string(connectors.Lookup), Doc: "look for the record, then create it: once, unless someone else creates the same record between the two calls"},
		field.Choice{Name: string(connectors.AtMostOnce), Doc: "send once; a write whose answer is lost is held until a person says what became of it: never doubled"}))
	s.String(&t.OnExisting, "on_existing", "What to do with a record that is in the target already when the flow first meets it.", field.Required(), field.Choices(
		field.Choice{Name: "adopt", Doc: "take it over and bring it to the source's state"}, field.Choice{Name: "refuse", Doc: "leave it alone; the job becomes a dead letter"}))
	s.String(&t.OnDelete, "on_delete", "What a record that is gone at the source becomes in the target.", field.Choices(
		field.Choice{Name: "ignore", Doc: "it stays as it is"}, field.Choice{Name: "archive", Doc: "it is hidden and kept"}, field.Choice{Name: "delete", Doc: "it is removed"}),
		field.Default("ignore"))
	s.String(&t.OnVanish, "on_vanish", "What it means when a source record no longer maps to a key that it mapped to before.", field.Choices(
		field.Choice{Name: "gone", Doc: "that record is gone, so on_delete applies"}, field.Choice{Name: "keep", Doc: "nothing"}),
		field.Default("gone"))
	s.String(&t.OnRename, "on_rename", "What to do when the key of a record changes.", field.Choices(
		field.Choice{Name: "rename", Doc: "the key is changed in the target"}, field.Choice{Name: "recreate", Doc: "a new record is made, and the old one is gone"},
		field.Choice{Name: "refuse", Doc: "the job becomes a dead letter"}),
		field.Default("refuse"))
	s.String(&t.OnMissing, "on_missing", "What to do when a record that syncd wrote is no longer in the target.", field.Choices(
		field.Choice{Name: "recreate", Doc: "it is made anew"}, field.Choice{Name: "leave", Doc: "it stays away"}, field.Choice{Name: "dead", Doc: "the job becomes a dead letter"}),
		field.Default("recreate"))
	s.String(&t.OnFrozen, "on_frozen", "What to do when the target no longer lets a document be changed.", field.Choices(
		field.Choice{Name: "dead", Doc: "the job becomes a dead letter"}, field.Choice{Name: "ignore", Doc: "the change is left out"}),
		field.Default("dead"))
	s.Bool(&t.CreateOnly, "create_only", "Whether the flow only ever creates records and never changes one.", field.Default("false"))
	s.Duration(&t.SettleTime, "settle_time", "How long a request whose answer never came may still be at work in the target. Without it, what the connector knows of the platform.",
		field.Range("0", "24h"), field.Advanced())
}

// Validate checks one flow for itself.
func (f *Flow) Validate(r *field.Report) {
	f.To.Strategy = connectors.Strategy(f.To.strategy)
	f.at = func(path ...string) field.Pos { return r.At(path...).Pos() }
	mapGiven, fileGiven := r.Given("map"), r.Given("map_file")
	switch {
	case mapGiven && fileGiven:
		r.At("map_file").Errorf("given beside map; take one of them out")
	case !mapGiven && !fileGiven:
		r.At("map").Errorf("missing; give a jq program here, or the name of a file in map_file")
	}
	if r.Given("on_expire") && f.MaxAge == 0 && !r.Failed("max_age") {
		r.At("on_expire").Errorf("without max_age nothing expires; give max_age, or take on_expire out")
	}
	f.ordered(r)
	if f.FreshWithin > 0 && f.FreshWithin < time.Minute && !r.Failed("fresh_within") {
		r.At("fresh_within").Errorf("%s is too short to read a record anew and send it; give 1m or more, or 0 for any time", durationText(f.FreshWithin))
	}
	if f.To.CreateOnly && f.To.OnDelete != "ignore" {
		r.At("to", "on_delete").Errorf("create_only never changes a record, so it cannot be %s; write ignore, or take create_only out", participle(f.To.OnDelete))
	}
}

// At returns where a part of the flow stands, such as "to", "client"; where one
// that was not given is missing.
func (f *Flow) At(path ...string) field.Pos {
	if len(path) == 1 && path[0] == "key" {
		return f.Key.Pos
	}
	if len(path) == 1 && path[0] == "group" && f.Group.Value != "" {
		return f.Group.Pos
	}
	return f.at(path...)
}

// KeyConstants are the constants that key and group use. In the place of a value that came
// from a reference stands a digest of it.
func (f *Flow) KeyConstants() map[string]string {
	out := map[string]string{}
	used := maps.Clone(mapping.Constants(f.Key.Value, f.Vars))
	if f.Group.Value != "" {
		maps.Copy(used, mapping.Constants(f.Group.Value, f.Vars))
	}
	for name, v := range used {
		if redacted(f.redact, v) != v {
			h := sha256.Sum256([]byte(v))
			v = "sha256:" + hex.EncodeToString(h[:8])
		}
		out[name] = v
	}
	return out
}

// Unresolved tells whether something that a lenient Load could not read is part of
// what ties the flow to its records.
func (f *Flow) Unresolved() bool {
	texts := []string{f.From.Client, f.From.Stream, f.To.Client, f.To.Entity}
	texts = slices.AppendSeq(texts, maps.Values(mapping.Constants(f.Key.Value, f.Vars)))
	if f.Group.Value != "" {
		texts = slices.AppendSeq(texts, maps.Values(mapping.Constants(f.Group.Value, f.Vars)))
	}
	return slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, field.Unresolved) })
}

func participle(onDelete string) string {
	if onDelete == "archive" {
		return "archived"
	}
	return "deleted"
}
