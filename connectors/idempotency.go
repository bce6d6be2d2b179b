package connectors

import (
	"fmt"
	"time"
)

// Idempotency says what a target promises of creates under an idempotency key. No
// two vendors promise the same, so nothing is taken for granted.
type Idempotency struct {
	// Retention is how long the server remembers a key at least, counted from its
	// first use; 0 when that is not known. After that a repeat may create a second record.
	Retention time.Duration
	// Mismatch says what a known key with another body comes to. We never send that:
	// it tells how much harm it would do after a journal was restored.
	Mismatch Mismatch
	// KeepsErrors says that a server error (a 500) is remembered too and answered
	// again, so that only another key can have success. It is false only where the
	// vendor says that such a request did nothing and may be sent again under its key.
	KeepsErrors bool
	// Form is what a key looks like.
	Form KeyForm
	// MaxLength is how many characters a key may have at most; 0 for any number.
	MaxLength int
}

// Mismatch is what a server does with a key that it knows when another body comes with it.
type Mismatch string

const (
	// MismatchRefused refuses the request.
	MismatchRefused Mismatch = "refused"
	// MismatchIgnored answers as it answered the first one, and does nothing.
	MismatchIgnored Mismatch = "ignored"
	// MismatchCreates takes no heed of the key and creates another record.
	MismatchCreates Mismatch = "creates"
)

// KeyForm is the form of an idempotency key.
type KeyForm string

const (
	// KeyUUID is 36 characters in the layout of a random UUID.
	KeyUUID KeyForm = "uuid"
	// KeyHex is lower-case hexadecimal digits: 64, or as many as MaxLength lets.
	KeyHex KeyForm = "hex"
)

// MinKeyLength is how many characters a key in hexadecimal digits must have, so that
// no two records get the same one.
const MinKeyLength = 32

// UUIDLength is how many characters a key in the form of a UUID has.
const UUIDLength = 36

// Problem says what is wrong with i; "" for nothing.
func (i *Idempotency) Problem() string {
	switch {
	case i.Retention < 0:
		return fmt.Sprintf("the retention %s is negative", i.Retention)
	case i.Form != KeyUUID && i.Form != KeyHex:
		return fmt.Sprintf("the form of the key is %q; it must be %s or %s", i.Form, KeyUUID, KeyHex)
	case i.Form == KeyUUID && i.MaxLength > 0 && i.MaxLength < UUIDLength:
		return fmt.Sprintf("a key of at most %d characters cannot be a UUID, which has %d", i.MaxLength, UUIDLength)
	case i.MaxLength > 0 && i.MaxLength < MinKeyLength:
		return fmt.Sprintf("a key of at most %d characters is too short; it takes %d to tell all records apart", i.MaxLength, MinKeyLength)
	case i.Mismatch != MismatchRefused && i.Mismatch != MismatchIgnored && i.Mismatch != MismatchCreates:
		return fmt.Sprintf("mismatch is %q; it must be %s, %s or %s", i.Mismatch, MismatchRefused, MismatchIgnored, MismatchCreates)
	}
	return ""
}
