package config

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"syncd/internal/field"
	"syncd/notify"
)

// Notify says how people are told of what needs them. Printed in any way it shows
// neither arguments nor address, which may hold what came from a reference.
type Notify struct {
	// Command is the absolute path of a program and its arguments; empty for none.
	Command []string
	Webhook Webhook
	// Coalesce is the least time between two messages.
	Coalesce time.Duration
	// LongPause is how long a client is paused before anybody is told.
	LongPause time.Duration
	// Events are those that are told of.
	Events []string
}

// Webhook is an address that messages are posted to.
type Webhook struct {
	// URL is https, or http on this machine; "" for none.
	URL    string
	Secret field.Secret
}

// Fields declares the fields of notify.
func (n *Notify) Fields(s *field.Set) {
	var events []field.Choice
	for _, e := range notify.Events() {
		events = append(events, field.Choice{Name: string(e), Doc: eventDoc[e]})
	}
	s.Strings(&n.Command, "command", "A program that is run for each message, and its arguments: the absolute path first. It gets the message as JSON on its standard input, and has ten seconds. No shell stands between, of the environment it gets PATH, HOME, LANG, TZ and TMPDIR, and what it prints goes nowhere.",
		field.Example("/usr/local/bin/page-me"))
	s.Struct(&n.Webhook, "webhook", "An address that each message is posted to, signed as Standard Webhooks has it.")
	s.Duration(&n.Coalesce, "coalesce", "The least time between two messages. What happens meanwhile is summed up in the next one.",
		field.Default("1m"), field.Range("1s", "24h"))
	s.Duration(&n.LongPause, "long_pause", "How long a client is paused, or counts as down, before anybody is told. A server that asks for more at once is told of at once.",
		field.Default("15m"), field.Range("1m", "30d"))
	s.Strings(&n.Events, "events", "What people are told of.",
		field.Choices(events...), field.Default("suspended,paused,held,dead"))
}

var eventDoc = map[notify.Event]string{
	notify.Suspended: "a client whose credentials are refused, or a flow whose target refuses record after record, and the end of it",
	notify.Paused:    "a client that is paused for `long_pause`, and the end of it",
	notify.Held:      "jobs of which only a person can say whether they were written",
	notify.Dead:      "jobs that are tried no more until a person or a newer version comes",
}

// Fields declares the fields of a webhook.
func (w *Webhook) Fields(s *field.Set) {
	s.URL(&w.URL, "url", "Where messages are posted. It must be https, or http on this machine; redirects are not followed.",
		field.Example("https://hooks.example.com/syncd"))
	s.Secret(&w.Secret, "secret", "What messages are signed with: whsec_ and the base64 of 24 to 64 random bytes. `echo whsec_$(openssl rand -base64 32)` makes one; the receiver has the same.")
}

// mostArguments bounds the command's arguments.
const mostArguments = 64

// Validate checks the command and the events.
func (n *Notify) Validate(r *field.Report) {
	switch {
	case len(n.Command) == 0 || r.Failed("command"):
	case !filepath.IsAbs(n.Command[0]):
		r.At("command").Errorf("the program is not named by its absolute path; write for example /usr/local/bin/page-me, and each argument as an item of its own")
	case len(n.Command) > mostArguments:
		r.At("command").Errorf("more than %d arguments; put them into a script", mostArguments-1)
	case slices.ContainsFunc(n.Command, func(s string) bool { return strings.ContainsRune(s, 0) }):
		r.At("command").Errorf("an argument holds a zero byte, which no program can be given")
	}
	if len(n.Events) == 0 && r.Given("events") && !r.Failed("events") {
		r.At("events").Errorf("empty, so that nobody would be told of anything; name some, or take notify out")
	}
}

// Validate checks the address and the secret against each other.
func (w *Webhook) Validate(r *field.Report) {
	switch {
	case r.Given("url") && !r.Given("secret"):
		r.At("url").Errorf("without secret nobody could tell our messages from others'; give secret, by reference")
	case r.Given("secret") && !r.Given("url"):
		r.At("secret").Errorf("without url there is nothing to sign; give url, or take secret out")
	}
	if u, err := url.Parse(w.URL); err == nil && u.Scheme == "http" && !onThisMachine(u.Hostname()) && !r.Failed("url") {
		r.At("url").Errorf("http to another machine, where anybody on the way can read it; write https")
	}
	if w.Secret.Empty() || r.Failed("secret") {
		return
	}
	if _, err := notify.ParseSecret(w.Secret.Reveal()); err != nil {
		r.At("secret").Errorf("%v", err)
	}
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Settings gives what the package notify needs.
func (n *Notify) Settings() notify.Settings {
	key, _ := notify.ParseSecret(n.Webhook.Secret.Reveal()) // Validate has seen to it
	s := notify.Settings{Command: n.Command, URL: n.Webhook.URL, Key: key, Coalesce: n.Coalesce, LongPause: n.LongPause}
	for _, e := range n.Events {
		s.Events = append(s.Events, notify.Event(e))
	}
	return s
}

// Format says which ways there are, for every verb.
func (n Notify) Format(f fmt.State, _ rune) {
	_, _ = fmt.Fprintf(f, "{command:%t webhook:%t coalesce:%s long_pause:%s events:%s}", len(n.Command) > 0, n.Webhook.URL != "", n.Coalesce, n.LongPause, n.Events)
}

// MarshalJSON gives what Format prints as a JSON string.
func (n Notify) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(n)) }

// Format says whether there is an address, for every verb.
func (w Webhook) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "{url:%t}", w.URL != "") }

// MarshalJSON gives what Format prints as a JSON string.
func (w Webhook) MarshalJSON() ([]byte, error) { return json.Marshal(fmt.Sprint(w)) }
