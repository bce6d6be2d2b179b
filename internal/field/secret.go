package field

import (
	"crypto/subtle"
	"fmt"
	"io"
	"log/slog"

	"syncd/internal/mutant"
)

const hidden = "[secret]"

// Secret holds a credential and never shows it: printed, logged or encoded in any way it is "[secret]". Only Reveal gives it.
type Secret struct {
	// A pointer, because fmt prints the content of unexported fields of other structs without asking our methods; of a pointer
	// it prints the address.
	p *string
}

// NewSecret returns a secret with that value.
func NewSecret(value string) Secret {
	if value == "" {
		return Secret{}
	}
	return Secret{p: &value}
}

// Reveal returns the credential itself, to be used and never to be shown or stored.
func (s Secret) Reveal() string {
	if s.p == nil {
		return ""
	}
	return *s.p
}

// Empty tells whether there is no credential.
func (s Secret) Empty() bool { return s.p == nil }

// Equal tells whether both hold the same credential.
func (s Secret) Equal(o Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(o.Reveal())) == 1
}

// String gives "[secret]".
func (s Secret) String() string { return hidden }

// GoString gives "[secret]".
func (s Secret) GoString() string { return hidden }

// Format writes "[secret]" for every verb.
func (s Secret) Format(f fmt.State, _ rune) {
	if mutant.On("secret-shown") {
		_, _ = io.WriteString(f, s.Reveal())
		return
	}
	_, _ = io.WriteString(f, hidden)
}

// MarshalJSON gives "[secret]".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// MarshalText gives "[secret]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalYAML gives "[secret]".
func (s Secret) MarshalYAML() (any, error) { return hidden, nil }

// LogValue gives "[secret]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
