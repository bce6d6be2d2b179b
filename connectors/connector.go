package connectors

import (
	"context"
	"log/slog"
	"time"

	"syncd/connectors/httpx"
	"syncd/internal/field"
)

// Connector is one platform's entry in the registry.
type Connector struct {
	// Name is what a client's `connector:` says.
	Name string
	// Doc says in a sentence or two what it speaks to.
	Doc string
	// Settings returns fresh settings of one client, with defaults.
	Settings func() Settings
}

// Settings are the fields of a client that only its connector knows. They are
// declared once, by Fields, and filled by package config.
type Settings interface {
	field.Fielder
	// Streams lists what the client offers as a source, given these settings.
	Streams() []StreamInfo
	// Entities lists what the client takes as a target, given these settings.
	Entities() []EntityInfo
	// Open connects. It sends nothing that can be put off to the first use, so
	// that a daemon starts while a client is down.
	Open(ctx context.Context, env Env) (Instance, error)
}

// Env is what the daemon lends to a connector.
type Env struct {
	// Client is the name of the client in the configuration.
	Client string
	// Gate is asked before each request and shown each answer. Connectors that
	// speak HTTP hand it to httpx; others call it themselves.
	Gate httpx.Gate
	// Timeout bounds one request as a whole.
	Timeout time.Duration
	// Concurrency is how many requests may be under way at once.
	Concurrency int
	// BaseDir is the folder of the configuration file, for relative paths.
	BaseDir string
	// Conceal is told credentials that stand in no configuration, such as a session's
	// token, so that no text repeats them. Connectors hand it to httpx; nil for none.
	Conceal func(credential string)
	Log     *slog.Logger
	// Now tells the time; UTC.
	Now func() time.Time
	// UserAgent names syncd and its version.
	UserAgent string
}

// Instance is an open client.
type Instance interface {
	// Source is nil for a client that cannot be read from.
	Source() Source
	// Target is nil for a client that cannot be written to.
	Target() Target
	// Check asks the platform whether it can be reached and whether each named
	// stream and entity is there as configured. It changes nothing.
	Check(ctx context.Context, streams, entities []string) []Finding
	Close() error
}

// Finding is one remark of a live check.
type Finding struct {
	// Subject is the stream or entity, or "" for the client as a whole.
	Subject string
	// Problem says what is wrong and what to do; "" when all is well.
	Problem string
	// Unreachable says that the platform could not be asked at all.
	Unreachable bool
	// Note tells what was found when all is well.
	Note string
}
