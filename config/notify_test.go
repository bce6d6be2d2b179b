package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"syncd/notify"
)

const hookSecret = "HOOK_SECRET=whsec_Q0FOQVJZLWNhbmFyeS1DQU5BUlktY2FuYXJ5"

func notifying(section string) string { return "notify: " + section + minimal }

func TestPeopleAreToldAsConfigured(t *testing.T) {
	c := mustLoad(t, notifying(`{command: [/usr/local/bin/page-me, --now], webhook: {url: "https://hooks.test/CANARY-path", secret: "${env:HOOK_SECRET}"}, coalesce: 5m, events: [held, dead]}`), hookSecret)
	s := c.Notify.Settings()
	if strings.Join(s.Command, " ") != "/usr/local/bin/page-me --now" || s.URL != "https://hooks.test/CANARY-path" || string(s.Key) != "CANARY-canary-CANARY-canary" {
		t.Errorf("got %+v", s)
	}
	if s.Coalesce != 5*time.Minute || s.LongPause != 15*time.Minute || len(s.Events) != 2 || s.Events[0] != notify.Held {
		t.Errorf("got %+v", s)
	}
	js, err := json.Marshal(map[string]any{"c": c, "n": c.Notify, "w": c.Notify.Webhook})
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprintf("%v %+v %#v %v %+v %#v %v %+v %#v %s", *c, *c, *c, c.Notify, c.Notify, c.Notify, c.Notify.Webhook, c.Notify.Webhook, c.Notify.Webhook, js)
	for _, part := range []string{"CANARY", "67 65 78 65", "Q0FOQVJZ", "page-me"} {
		if strings.Contains(shown, part) {
			t.Errorf("printed, the configuration shows %s", part)
		}
	}
}

func TestWithoutNotifyNobodyIsTold(t *testing.T) {
	s := mustLoad(t, minimal).Notify.Settings()
	if len(s.Command) > 0 || s.URL != "" || len(s.Events) != len(notify.Events()) {
		t.Errorf("got %+v", s)
	}
}

func TestMistakesInNotifyAreTold(t *testing.T) {
	const secret = `secret: "${env:HOOK_SECRET}"`
	for _, c := range []struct{ name, section, env, want string }{
		{"a program without a path", "{command: [page-me, now]}", hookSecret, "1:10: notify.command: the program is not named by its absolute path; write for example /usr/local/bin/page-me, and each argument as an item of its own"},
		{"a line for a shell", "{command: /bin/page-me --now}", hookSecret, `1:19: notify.command: expected a list, not a single value; write [ ] around it, or - before each item`},
		{"no events", "{command: [/x], events: []}", hookSecret, "1:25: notify.events: empty, so that nobody would be told of anything; name some, or take notify out"},
		{"an event that is none", "{command: [/x], events: [dead, hold]}", hookSecret, `1:40: notify.events[1]: "hold": not accepted; did you mean held? (one of suspended, paused, held, dead)`},
		{"a webhook without a secret", "{webhook: {url: https://hooks.test}}", hookSecret, "1:25: notify.webhook.url: without secret nobody could tell our messages from others'; give secret, by reference"},
		{"a secret without an address", "{webhook: {" + secret + "}}", hookSecret, "1:28: notify.webhook.secret: without url there is nothing to sign; give url, or take secret out"},
		{"http to another machine", "{webhook: {url: http://hooks.test, " + secret + "}}", hookSecret, "1:25: notify.webhook.url: http to another machine, where anybody on the way can read it; write https"},
		{"a secret of another kind", "{webhook: {url: https://hooks.test, " + secret + "}}", "HOOK_SECRET=CANARY-hook-secret", "1:53: notify.webhook.secret: a secret of a webhook begins with whsec_; make one with: echo whsec_$(openssl rand -base64 32)"},
		{"a secret that is not base64", "{webhook: {url: https://hooks.test, " + secret + "}}", "HOOK_SECRET=whsec_CANARY-hook-secret", "1:53: notify.webhook.secret: not base64 after whsec_; make one with: echo whsec_$(openssl rand -base64 32)"},
		{"a short secret", "{webhook: {url: https://hooks.test, " + secret + "}}", "HOOK_SECRET=whsec_Q0FOQVJZLWNhbmFyeQ==", "1:53: notify.webhook.secret: a secret of 13 bytes; between 24 and 64 are safe; make one with: echo whsec_$(openssl rand -base64 32)"},
		{"messages without a pause", "{command: [/x], coalesce: 0s}", hookSecret, `1:35: notify.coalesce: "0s": out of range; 1s to 24h`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.TrimPrefix(problems(t, notifying(c.section), c.env), "syncd.yaml:"); got != c.want {
				t.Errorf("\n got: %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestWebhookOfThisMachineNeedsNoTLS(t *testing.T) {
	for _, host := range []string{"localhost", "127.0.0.1:8080", "[::1]:8080"} {
		if got := problems(t, notifying(`{webhook: {url: "http://`+host+`/x", secret: "${env:HOOK_SECRET}"}}`), hookSecret); got != "" {
			t.Errorf("%s: %s", host, got)
		}
	}
}
