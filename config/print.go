package config

import (
	"encoding/json"
	"fmt"
)

// Values of plain text fields may hold what came from a reference, so the types that hold them print themselves: alike for every verb,
// because fmt follows even pointers where a verb does not fit, and with a method on the value, so that copies do, too.

// Format prints the configuration without secrets, for every verb.
func (c Config) Format(f fmt.State, _ rune) {
	type plain Config // without methods, so that fmt prints the fields
	p := plain(c)
	p.connectors, p.redact = nil, nil
	printRedacted(f, c.redact, p)
}

// MarshalJSON gives what Format prints as a JSON string.
func (c Config) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(c)) }

// Format prints the client without secrets, for every verb. The settings of its connector are left out.
func (c Client) Format(f fmt.State, _ rune) {
	type plain Client
	p := plain(c)
	p.Settings, p.connectors, p.redact = nil, nil, nil
	printRedacted(f, c.redact, p)
}

// MarshalJSON gives what Format prints as a JSON string.
func (c Client) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(c)) }

// Format prints the flow without secrets, for every verb.
func (f Flow) Format(st fmt.State, _ rune) {
	type plain Flow
	p := plain(f)
	p.redact, p.at = nil, nil
	printRedacted(st, f.redact, p)
}

// MarshalJSON gives what Format prints as a JSON string.
func (f Flow) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(f)) }

func printRedacted(f fmt.State, redact func(string) string, v any) {
	_, _ = fmt.Fprint(f, redacted(redact, fmt.Sprintf("%+v", v)))
}

func redacted(redact func(string) string, text string) string {
	if redact == nil {
		return text
	}
	return redact(text)
}
