package mapping

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"
)

// Source is a flow's mapping as it is configured.
type Source struct {
	// Map is the jq program that runs on the event body. Each of its outputs
	// is an object, one record, or null, no record.
	Map string
	// Key is the jq expression that runs on each record and gives its key,
	// exactly one string or number. $event is the event body.
	Key string
	// Group, where it is not "", is a jq expression that runs on each record as Key
	// does, and gives what the record is kept in order with.
	Group string
	// Now, if set, allows the function now and is its clock. Without it a
	// mapping has no clock, so that it gives the same record at each run.
	Now func() time.Time
	// Timeout bounds the mapping of one event. Default 2 s.
	Timeout time.Duration
	// MaxOutputs bounds the outputs of Map for one event. Default 1000.
	MaxOutputs int
	// MaxBytes bounds one record's JSON. Default 8 MiB, at most 16 MiB.
	MaxBytes int
	// Vars are the flow's constants, $vars.NAME in both programs.
	Vars map[string]string
}

// The defaults of Source.
const (
	DefaultTimeout    = 2 * time.Second
	DefaultMaxOutputs = 1000
	DefaultMaxBytes   = 8 << 20
)

// Meta is what is known about an event besides its body. Programs see it as
// $meta {id, stream, version, changed_at}; changed_at is RFC 3339 in UTC, or
// null where ChangedAt is zero. Observed is not shown, because it differs each
// time the same state is read.
type Meta struct {
	SourceID  string
	Stream    string
	Version   int64
	ChangedAt time.Time
	Observed  time.Time
}

// Pair is a record and its key.
type Pair struct {
	// Key is in the form of NormalizeKey.
	Key string
	// Group is what Source.Group gave, in the form of NormalizeKey; "" without one.
	Group string
	// Body is canonical JSON: members sorted, digits kept, no HTML escaping,
	// references as placeholders (see ResolveRefs). Equal records have equal
	// bytes.
	Body []byte
	// Refs are the references in Body, each once, in order of appearance.
	Refs []Ref
}

// Program is a flow's compiled mapping. It is safe for concurrent use.
type Program struct {
	src   Source
	lib   *library
	maker *refMaker
	// wanted is what of an event the programs look at.
	wanted *part

	mu   sync.Mutex
	idle []*instance
}

// maxIdle bounds the instances kept for later events; more are made when more
// events are mapped at once.
const maxIdle = 64

// Compile checks and compiles the programs. The error is a *CompileError.
func Compile(src Source) (*Program, error) {
	if src.Timeout <= 0 {
		src.Timeout = DefaultTimeout
	}
	if src.MaxOutputs <= 0 {
		src.MaxOutputs = DefaultMaxOutputs
	}
	if src.MaxBytes <= 0 {
		src.MaxBytes = DefaultMaxBytes
	}
	src.MaxBytes = min(src.MaxBytes, MaxBodyBytes)
	src.Vars = maps.Clone(src.Vars)
	p := &Program{src: src, maker: newRefMaker()}
	p.lib = newLibrary(p.maker, secondsOf(src.Now))
	in, err := p.newInstance()
	if err != nil {
		return nil, err
	}
	p.wanted = reached(src, p.lib)
	p.give(in)
	return p, nil
}

// take returns an instance for one event. gojq's code is not shared between
// goroutines, because the functions in it know the run they belong to.
func (p *Program) take() (*instance, error) {
	p.mu.Lock()
	if n := len(p.idle); n > 0 {
		in := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return in, nil
	}
	p.mu.Unlock()
	return p.newInstance()
}

func (p *Program) give(in *instance) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.idle) < maxIdle {
		p.idle = append(p.idle, in)
	}
}

// Map turns one event body into zero, one or more records with their keys, in
// the order in which the program gives them. Two records with one key are one
// pair where they are equal, and an error where they differ.
//
// An error is either an *Error, and then about this event: the same body fails
// again, and belongs to the dead letters; or it wraps ctx's error and says
// nothing about the event. body is not changed and not kept.
func (p *Program) Map(ctx context.Context, body []byte, meta Meta) ([]Pair, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("map event: %w", err)
	}
	in, err := p.take()
	if err != nil {
		return nil, &Error{Stage: stageMap, Msg: err.Error()}
	}
	pairs, err := in.mapEvent(ctx, body, meta)
	if !in.broken {
		p.give(in)
	}
	return pairs, err
}
