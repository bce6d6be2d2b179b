package notify

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Event is a kind of thing that people are told of.
type Event string

// The kinds of events.
const (
	// Suspended: the credentials of a client are refused, or the target of a flow refuses
	// record after record.
	Suspended Event = "suspended"
	// Paused: a client has not been called, or is not going to be, for LongPause.
	Paused Event = "paused"
	// Held: jobs of which only a person can say whether they were written.
	Held Event = "held"
	// Dead: jobs that are tried no more until a person or a newer version comes.
	Dead Event = "dead"
)

// Events are all kinds of events.
func Events() []Event { return []Event{Suspended, Paused, Held, Dead} }

// Settings say how people are told, and of what. Without Command and URL nobody is.
type Settings struct {
	// Command is the absolute path of a program, and its arguments.
	Command []string
	// URL is where the webhook is posted.
	URL string
	// Key signs the webhook: 24 to 64 bytes.
	Key []byte
	// Coalesce is the least time between two messages.
	Coalesce time.Duration
	// LongPause is how long a client is paused before anybody is told.
	LongPause time.Duration
	// Events are those that are told of.
	Events []Event
}

const (
	// secretPrefix and the lengths of a key are those of Standard Webhooks, "Signature scheme":
	// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md#signature-scheme
	secretPrefix = "whsec_"
	leastKey     = 24
	mostKey      = 64
)

// ParseSecret reads the secret of a webhook as Standard Webhooks writes it: whsec_ and
// the base64 of 24 to 64 random bytes. The error does not repeat it.
func ParseSecret(text string) (key []byte, err error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("a secret of a webhook begins with " + secretPrefix + "; make one with: echo whsec_$(openssl rand -base64 32)")
	}
	key, err = base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil: // what the error says names a place in the secret
		return nil, errors.New("not base64 after " + secretPrefix + "; make one with: echo whsec_$(openssl rand -base64 32)")
	case len(key) < leastKey || len(key) > mostKey:
		return nil, fmt.Errorf("a secret of %d bytes; between %d and %d are safe; make one with: echo whsec_$(openssl rand -base64 32)", len(key), leastKey, mostKey)
	}
	return key, nil
}
