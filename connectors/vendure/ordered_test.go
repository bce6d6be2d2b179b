package vendure

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestARecordIsTheSameInWhateverOrderItsPartsAreTold(t *testing.T) {
	const told = `{"id":"7","total":12345678901234567890,"note":"a<b & ü",
 "lines":[{"id":"9","quantity":1},{"id":"10","quantity":2.50},{"id":"11","quantity":3}],
 "payments":[{"id":3,"refunds":[{"id":4},{"id":12}]},{"id":20,"refunds":[]}],
 "fulfillments":[{"id":"1","lines":[{"orderLineId":"9"},{"orderLineId":"10"}]}],
 "options":[{"code":"blue"},{"code":"large"}],
 "couponCodes":["B","A"]}`
	const want = `{"couponCodes":["B","A"],"fulfillments":[{"id":"1","lines":[{"orderLineId":"9"},{"orderLineId":"10"}]}],"id":"7",` +
		`"lines":[{"id":"9","quantity":1},{"id":"10","quantity":2.50},{"id":"11","quantity":3}],"note":"a<b & ü",` +
		`"options":[{"code":"blue"},{"code":"large"}],"payments":[{"id":3,"refunds":[{"id":4},{"id":12}]},{"id":20,"refunds":[]}],"total":12345678901234567890}`
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		ev := event(shuffled(t, told, rnd))
		if string(ev.Body) != want || ev.SourceID != "7" {
			t.Fatalf("%q %s\nwant %s", ev.SourceID, ev.Body, want)
		}
	}
}

func TestAMarkIsTheSameInWhateverOrderTheShopTellsTheParts(t *testing.T) {
	const told = `{"id":"7","state":"Shipped","updatedAt":"2026-11-29T12:00:00Z",
 "payments":[{"state":"Settled","refunds":[{"state":"Pending"},{"state":"Settled"}]},{"state":"Declined"}],
 "fulfillments":[{"state":"Shipped"},{"state":"Pending"}],"stockLevels":[{"stockOnHand":1},{"stockOnHand":2}]}`
	rnd := rand.New(rand.NewPCG(1, 2))
	first := ""
	for range 50 {
		var s stamps
		if err := json.Unmarshal(shuffled(t, told, rnd), &s); err != nil {
			t.Fatal(err)
		}
		if first == "" {
			first = s.mark()
		}
		if m := s.mark(); m != first {
			t.Fatalf("%q and %q", first, m)
		}
	}
}

// shuffled is a document with every list of objects in another order.
func shuffled(t *testing.T, doc string, rnd *rand.Rand) json.RawMessage {
	t.Helper()
	var shuffle func(v any)
	shuffle = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for _, x := range v {
				shuffle(x)
			}
		case []any:
			for _, x := range v {
				shuffle(x)
			}
			if len(v) == 0 {
				return
			}
			if _, objects := v[0].(map[string]any); objects {
				rnd.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
			}
		}
	}
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	shuffle(v)
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
