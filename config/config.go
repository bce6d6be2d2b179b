package config

import (
	"net"
	"strconv"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Config is the whole configuration, checked and with all defaults filled in. Printed in any way it shows no secret.
type Config struct {
	// Path is the file it was read from, Dir the folder that relative paths start from.
	Path, Dir string
	Journal   Journal
	// Listen is the address of metrics, health, API and console; "" when there shall be none.
	Listen string
	// StateDir is the folder for what the daemon keeps beside the journal; StateDirGiven
	// says that it stands in the configuration.
	StateDir      string
	StateDirGiven bool
	Log           Log
	Clients       map[string]*Client
	Flows         map[string]*Flow
	// Retired names flows that are not configured any more and whose jobs shall stay
	// in the journal as they are.
	Retired []string
	// Retention says how long what is not needed for ever is kept.
	Retention Retention
	// Notify says how people are told of what needs them.
	Notify Notify

	connectors []connectors.Connector
	now        time.Time
	redact     func(string) string // a function, because fmt looks into nothing of it
}

// Log says what the daemon writes to its standard error.
type Log struct {
	// Level is debug, info, warn or error.
	Level string
	// Format is text or json.
	Format string
}

// Retention says how long the journal keeps what it does not need for ever; 0 is for good.
type Retention struct {
	Attempts, Bodies, Dead, Errands time.Duration
}

// Fields declares the fields of the retention.
func (t *Retention) Fields(s *field.Set) {
	s.Duration(&t.Attempts, "attempts", "How long the history of jobs is kept: failed attempts, and what people did. 0 is for good. That of a job with a write in doubt stays until the doubt has ended.",
		field.Default("90d"), field.Range("0", "3650d"))
	s.Duration(&t.Bodies, "bodies", "How long after its last write the content of a record that is done is kept, for jobs show --body and for writing it once more without asking the source. 0 is for good.",
		field.Default("30d"), field.Range("0", "3650d"))
	s.Duration(&t.Dead, "dead", "How long a dead letter that nobody sees to is kept before it is given up, with its content. 0 is for good. "+
		"One that holds its group back, with order: every and on_dead: hold, stays until a person has seen to it.",
		field.Default("0"), field.Range("0", "3650d"))
	s.Duration(&t.Errands, "errands", "How long errands that have ended are shown. 0 is for good.",
		field.Default("90d"), field.Range("0", "3650d"))
}

// leastKept is the shortest time for which anything is kept but for the content of what
// is done: who looks at a job that just failed finds why it did.
const leastKept = time.Minute

// Validate refuses times that nobody can mean.
func (t *Retention) Validate(r *field.Report) {
	for name, d := range map[string]time.Duration{"attempts": t.Attempts, "dead": t.Dead, "errands": t.Errands} {
		if d > 0 && d < leastKept && !r.Failed(name) {
			r.At(name).Errorf("%s is too short to be meant; write 0 to keep it for good, or at least 1m", d)
		}
	}
}

const nameRule = `[a-z0-9][a-z0-9._-]{0,62}`

const nameWhat = "a small letter or digit, then up to 62 small letters, digits, dots, _ or -"

// Fields declares the fields of the whole file.
func (c *Config) Fields(s *field.Set) {
	s.StructText(&c.Journal, "journal",
		"Where syncd keeps what it knows. sqlite: and the path of a file (from the working folder) needs no server and serves one daemon; "+
			"a PostgreSQL database is for a server of its own. Give PostgreSQL as a mapping; a postgres:// URL works too, if special characters in its password are percent-encoded.",
		field.Default("sqlite:./syncd.db"), field.Example("sqlite:/var/lib/syncd/syncd.db"))
	s.String(&c.Listen, "listen",
		"Address and port for metrics and health. \"off\" or an empty text turns them off.",
		field.Default("127.0.0.1:9464"), field.Example("0.0.0.0:9464"))
	s.String(&c.StateDir, "state_dir",
		"Folder of this daemon's own in which it keeps how far the journal had come, so that a journal that is put back from a backup is noticed. Best on another disk than the journal, and in no backup with it. Without it: what systemd gives (STATE_DIRECTORY), else the folder of an SQLite journal, else the working folder.",
		field.Example("/var/lib/syncd"), field.Advanced())
	s.Struct(&c.Log, "log", "What is written to standard error.")
	s.Struct(&c.Retention, "retention", "How long the journal keeps what it does not need for ever. What makes a repeated or late event harmless, links, and marks of writes in doubt stay for good.", field.Advanced())
	s.Struct(&c.Notify, "notify", "How people are told of what needs them, where Prometheus does not: by a command, a webhook, or both. [Being told](operating.md#being-told) says what they get.")
	field.MapOf(s, &c.Clients, func() *Client { return &Client{connectors: c.connectors} }, "clients",
		"The accounts at APIs that syncd talks to, by a name of your choice. A client has its own credentials, pace, pause and breaker.",
		field.Names(nameRule, nameWhat))
	field.Map(s, &c.Flows, "flows",
		"What is kept in step, by a name of your choice: each flow takes one stream of a client to one entity of a client.",
		field.Names(nameRule, nameWhat))
	s.Strings(&c.Retired, "retired",
		"Flows that were taken out for good although they had open jobs. Those stay in the journal as they are, nothing writes them, and nobody is told of them. A flow that is only to rest stays in flows, with enabled: false.",
		field.Example("orders-2019"), field.Advanced())
}

// Fields declares the fields of the log.
func (l *Log) Fields(s *field.Set) {
	s.String(&l.Level, "level", "The least important messages that are written.",
		field.OneOf("debug", "info", "warn", "error"), field.Default("info"))
	s.String(&l.Format, "format", "How messages are written: lines for people, or a JSON object each.",
		field.OneOf("text", "json"), field.Default("text"))
}

// Validate checks what concerns more than one part.
func (c *Config) Validate(r *field.Report) {
	if c.Listen == "off" {
		c.Listen = ""
	}
	if c.Listen != "" && !isAddress(c.Listen) {
		r.At("listen").Errorf("not an address to listen on; write host:port such as 127.0.0.1:9464, :9464 for every address, or off")
	}
	for name, client := range c.Clients {
		client.Name, client.redact = name, c.redact
		if at := r.At("clients", name); client.Shards > 1 && c.Journal.Engine() == "sqlite" && !r.Failed("journal") && !at.Failed("shards") {
			at.At("shards").Errorf("an SQLite journal serves one daemon, so that %d parts would only have a part of the pace each; take shards out, or use a PostgreSQL journal", client.Shards)
		}
	}
	for name, flow := range c.Flows {
		flow.Name, flow.redact = name, c.redact
	}
	for _, name := range c.Retired {
		if c.Flows[name] != nil {
			r.At("retired").Errorf("names flow %s, which is in flows; take it out of one of them", name)
		}
	}
	checker{Config: c, root: r}.flows()
}

func isAddress(s string) bool {
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return false
	}
	n, err := strconv.Atoi(port)
	return err == nil && n >= 0 && n <= 65535
}

// Redact cuts every value that came from a reference, and every secret, out of a text. Loggers use it,
// also several at once.
func (c *Config) Redact(text string) string { return redacted(c.redact, text) }
