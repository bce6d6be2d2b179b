package rest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"syncd/connectors"
)

// keyring is how a server remembers idempotency keys. mismatch is what it does with a
// known key when another body comes with it.
type keyring struct {
	mismatch string
	quoted   bool
	known    map[string]*answer
}

// answer is what was answered to the first request under a key.
type answer struct {
	http.ResponseWriter
	sent   string
	status int
	text   bytes.Buffer
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Write(b []byte) (int, error) {
	a.text.Write(b)
	return a.ResponseWriter.Write(b)
}

// use answers a request under a known key, or returns a writer that keeps the answer.
func (k *keyring) use(w http.ResponseWriter, key, body string) (answered bool, keep http.ResponseWriter) {
	quoted := len(key) > 2 && strings.HasPrefix(key, `"`) && strings.HasSuffix(key, `"`)
	if quoted != k.quoted {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "this is no key"})
		return true, nil
	}
	if k.known == nil {
		k.known = map[string]*answer{}
	}
	a := k.known[key]
	switch {
	case a == nil:
		a = &answer{ResponseWriter: w, sent: body}
		k.known[key] = a
		return false, a
	case a.sent == body, k.mismatch == "ignored":
		w.WriteHeader(a.status)
		_, _ = w.Write(a.text.Bytes())
		return true, nil
	case k.mismatch == "refused":
		w.WriteHeader(http.StatusUnprocessableEntity)
		_ = json.NewEncoder(w).Encode(map[string]any{"errors": "the key was used with another body"})
		return true, nil
	}
	return false, w
}

func TestWhatIsSaidOfKeysIsChecked(t *testing.T) {
	for how, want := range map[string]string{
		`{form: uuid, max_length: 35}`:    "a key of at most 35 characters cannot be a UUID, which has 36",
		`{header: authorization}`:         "Authorization is not a header for keys",
		`{header: "X Key"}`:               "the name of a header",
		`{mismatch: sometimes}`:           "refused, ignored, creates",
		`{form: hex, max_length: 16}`:     "32",
		`{retention: -1h}`:                "negative",
		`{form: hex, max_length: 32}`:     "",
		`{form: base64}`:                  "uuid, hex",
		`{quoted: true, retention: 24h}`:  "",
		`{header: Stripe-Idempotent-Key}`: "",
	} {
		t.Run(how, func(t *testing.T) {
			got := problems(t, "url: http://localhost\nentities:\n  things:\n"+keyed(how)+findOrders)
			if want == "" && got != "" || !strings.Contains(got, want) {
				t.Errorf("the problems are %q, want %q", got, want)
			}
		})
	}
}

func TestEntitiesCarryTheStrategiesThatTheirSettingsAllow(t *testing.T) {
	for yaml, want := range map[string]string{
		orders:                           "lookup at_most_once",
		"    unique: true" + orders:      "external_ref lookup at_most_once",
		keyed("{}") + findOrders:         "idempotency_key lookup at_most_once",
		keyed("{}") + changeOrders:       "idempotency_key at_most_once",
		create + changeOrders:            "at_most_once",
		"    unique: true" + keyed("{}"): "",
		"    put: {path: \"/items/{key}\", key_field: ref}\n": "natural_key",
	} {
		text := "url: http://localhost\nentities:\n  things:\n" + yaml
		if want == "" {
			if got := problems(t, text); !strings.Contains(got, "has to be looked up") {
				t.Errorf("%s: the problems are %q", yaml, got)
			}
			continue
		}
		var got []string
		for _, s := range settings(t, text).Entities()[0].Strategies {
			got = append(got, string(s.Strategy))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: it carries %v, want %s", yaml, got, want)
		}
	}
}

var _ connectors.Composer = creator{}

// problems are what is wrong with settings, in one text.
func problems(t testing.TB, text string) string {
	t.Helper()
	_, ps := read(t, text)
	var out []string
	for _, p := range ps {
		out = append(out, p.Path+": "+p.Msg)
	}
	return strings.Join(out, "\n")
}
