package config

import (
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Client is one account at one API.
type Client struct {
	Name      string
	Connector string
	// Rate bounds the calls; its zero value means that none is configured.
	Rate Rate
	// Burst is how many calls may be made at once after a time of rest; at least 1.
	Burst       int
	Concurrency int
	// Shards is into how many lanes what is written to the client is split, at least 1
	// and at most Concurrency.
	Shards int
	// Timeout bounds one request.
	Timeout time.Duration
	// Share is the part of every quota that is left to others, 0 to 0.95.
	Share float64
	// MaxPause is how long the server's answers can pause the client without anybody looking.
	MaxPause time.Duration
	Breaker  Breaker
	// Retry is the default for flows that write to this client.
	Retry Retry
	// Settings are the connector's own fields, filled; nil only if the connector is not known.
	Settings connectors.Settings

	connectors []connectors.Connector
	redact     func(string) string
}

// Breaker says when a client counts as down.
type Breaker struct {
	// Window is how far back calls are counted.
	Window time.Duration
	// MinCalls is how many calls there must be in the window.
	MinCalls int
	// Ratio is the share of failed calls from which on the breaker opens, 0 to 1.
	Ratio float64
	// InRow is how many calls must fail in a row for the breaker to open.
	InRow int
	// SlowCall is from how long on a request counts as failed though it was served; 0 for never.
	SlowCall time.Duration
	// OpenFor is how long it stays open before the first probe.
	OpenFor time.Duration
}

// Retry says how often and how fast a failed job is tried again.
type Retry struct {
	MaxAttempts  int
	InitialDelay time.Duration
	MaxDelay     time.Duration
	Multiplier   float64
	// Jitter is full or none.
	Jitter string
	// Timeout bounds one attempt, all its requests together.
	Timeout time.Duration
	// RetryFor is how long a job is tried at least, however many attempts that takes.
	RetryFor time.Duration
}

// Fields declares the fields of a client, and those of its connector.
func (c *Client) Fields(s *field.Set) {
	s.String(&c.Connector, "connector", "The platform this client speaks to.", field.Required())
	s.Var(&c.Rate, "rate", "rate",
		"How many calls may be made in a time: a number, a slash and s, m, h or d. Without it the pace follows what the server says of its limits.",
		field.Pattern(`[0-9]+(\.[0-9]+)?\s*/\s*[smhd]`, "a rate"), field.Example("10/s"), field.Group("Pace"))
	s.Int(&c.Burst, "burst", "How many calls may be made at once after a time of rest. Needs rate.",
		field.Default("1"), field.Range("1", "100000"), field.Group("Pace"), field.Advanced())
	s.Float(&c.Share, "share", "The part of every quota that the server tells of which is left to other programs, such as 0.2 for a fifth. What they are seen to use is reckoned with in any case.",
		field.Default("0"), field.Range("0", "0.95"), field.Group("Pace"), field.Advanced())
	s.Int(&c.Concurrency, "concurrency", "How many calls may be under way at the same time.",
		field.Default("4"), field.Range("1", "256"), field.Group("Pace"))
	s.Int(&c.Shards, "shards", "Into how many parts what is written to the client is split, so that as many daemons on one PostgreSQL journal can share the work. Each gets its part of rate, burst and concurrency. "+
		"Another number takes effect once every daemon is configured so.", field.Default("1"), field.Range("1", "64"), field.Group("Pace"), field.Advanced())
	s.Duration(&c.Timeout, "timeout", "How long one request may take.",
		field.Default("30s"), field.Range("100ms", "24h"), field.Group("Pace"))
	s.Duration(&c.MaxPause, "max_pause", "The longest wait that the server may ask for (by Retry-After and its like) without anybody looking. A server that asks for more is not called before the time that it named either, but the client counts as suspended, and an error is logged. For one record alone this is the longest wait.",
		field.Default("24h"), field.Range("1s", "30d"), field.Group("Pace"), field.Advanced())
	s.Struct(&c.Breaker, "breaker", "When the client counts as down, so that no more calls are made for a while.")
	s.Struct(&c.Retry, "retry", "How failed jobs are tried again: the default for every flow that writes to this client.")
	var names []field.Choice
	for _, k := range c.connectors {
		names = append(names, field.Choice{Name: k.Name, Doc: k.Doc})
	}
	s.Variant("connector", c.pick, names, func(f field.Fielder) { c.Settings, _ = f.(connectors.Settings) })
}

func (c *Client) pick(name string) (field.Fielder, bool) {
	for _, k := range c.connectors {
		if k.Name == name {
			return k.Settings(), true
		}
	}
	return nil, false
}

// Validate checks the client's own fields against each other.
func (c *Client) Validate(r *field.Report) {
	if r.Given("burst") && !r.Given("rate") {
		r.At("burst").Errorf("without rate, burst has no meaning; give rate, or take burst out")
	}
	if c.Shards > c.Concurrency && !r.Failed("shards") && !r.Failed("concurrency") {
		r.At("shards").Errorf("more parts (%d) than calls under way at the same time (concurrency, %d); raise concurrency, or split into fewer", c.Shards, c.Concurrency)
	}
	if b := r.At("breaker"); b.Given("slow_call") && !b.Failed("slow_call") && !r.Failed("timeout") && c.Breaker.SlowCall >= c.Timeout {
		b.At("slow_call").Errorf("%s is not shorter than the timeout of one request (%s), so no request that is served is ever that slow; lower it, or raise timeout", durationText(c.Breaker.SlowCall), durationText(c.Timeout))
	}
	c.Retry.check(r.At("retry"), c.Timeout)
}

// Fields declares the fields of a breaker.
func (b *Breaker) Fields(s *field.Set) {
	s.Duration(&b.Window, "window", "How far back calls are counted.", field.Default("1m"), field.Range("1s", "1h"))
	s.Int(&b.MinCalls, "min_calls", "How many calls there must be in the window before the breaker can open.",
		field.Default("10"), field.Range("1", "10000"))
	s.Float(&b.Ratio, "ratio", "The share of failed calls in the window from which on the breaker opens.", field.Default("0.6"), field.Range("0.01", "1"))
	s.Int(&b.InRow, "failures_in_row", "How many calls that fail one after the other, over whatever time, open the breaker too. Also then failures must have met three different records, or have been readings: one bad record is no outage.",
		field.Default("5"), field.Range("3", "10000"))
	s.Duration(&b.SlowCall, "slow_call", "From how long on a request counts as failed for the breaker, though it was served: a target that answers ever more slowly is left alone before it fails. Shorter than the client's timeout. Without it slow requests count as served.",
		field.Range("10ms", "24h"), field.Example("20s"), field.Advanced())
	s.Duration(&b.OpenFor, "open_for", "How long the breaker stays open before the first probe.",
		field.Default("30s"), field.Range("1s", "24h"))
}

// Fields declares the fields of a retry policy.
func (y *Retry) Fields(s *field.Set) {
	s.Int(&y.MaxAttempts, "max_attempts", "After how many failed attempts a job becomes a dead letter, though never before retry_for is over.",
		field.Default("10"), field.Range("1", "100"))
	s.Duration(&y.InitialDelay, "initial_delay", "The longest wait before the second attempt.", field.Default("2s"), field.Range("0", "24h"))
	s.Duration(&y.MaxDelay, "max_delay", "The longest wait before any attempt.", field.Default("30m"), field.Range("0", "24h"))
	s.Float(&y.Multiplier, "multiplier", "By what the longest wait grows from one attempt to the next.", field.Default("2"), field.Range("1", "10"))
	s.String(&y.Jitter, "jitter", "What part of the longest wait is waited.",
		field.Choices(field.Choice{Name: "full", Doc: "a random part, so that many jobs do not come back at once"},
			field.Choice{Name: "none", Doc: "all of it"}),
		field.Default("full"))
	s.Duration(&y.Timeout, "timeout", "How long one attempt may take, all its requests together. At least the client's timeout, and by default no shorter than that.",
		field.Default("5m"), field.Range("100ms", "24h"))
	s.Duration(&y.RetryFor, "retry_for", "How long a job is tried at least before it becomes a dead letter, however many attempts that takes.",
		field.Default("2h"), field.Range("0", "30d"))
}

// check compares the policy's fields with each other and with the timeout of one request of the client written to.
func (y *Retry) check(r *field.Report, request time.Duration) {
	switch {
	case r.Failed("max_delay"), r.Failed("initial_delay"):
	case y.MaxDelay >= y.InitialDelay:
	case r.Given("max_delay"):
		r.At("max_delay").Errorf("%s is less than initial_delay (%s); raise it, or lower initial_delay", durationText(y.MaxDelay), durationText(y.InitialDelay))
	case r.Given("initial_delay"):
		r.At("initial_delay").Errorf("%s is more than max_delay (%s); lower it, or raise max_delay", durationText(y.InitialDelay), durationText(y.MaxDelay))
	}
	switch {
	case y.Timeout >= request || r.Failed("timeout"):
	case r.Given("timeout"):
		r.At("timeout").Errorf("%s is less than the timeout of one request of the client (%s); raise it, or lower the client's timeout", durationText(y.Timeout), durationText(request))
	default:
		y.Timeout = request
	}
}

// inherit takes from the client's policy what the flow does not give itself.
func (y *Retry) inherit(r *field.Report, from Retry) {
	if !r.Given("max_attempts") {
		y.MaxAttempts = from.MaxAttempts
	}
	if !r.Given("initial_delay") {
		y.InitialDelay = from.InitialDelay
	}
	if !r.Given("max_delay") {
		y.MaxDelay = from.MaxDelay
	}
	if !r.Given("multiplier") {
		y.Multiplier = from.Multiplier
	}
	if !r.Given("jitter") {
		y.Jitter = from.Jitter
	}
	if !r.Given("timeout") {
		y.Timeout = from.Timeout
	}
	if !r.Given("retry_for") {
		y.RetryFor = from.RetryFor
	}
}
