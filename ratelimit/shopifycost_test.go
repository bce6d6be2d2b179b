package ratelimit

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func shopify(errors, requested, actual, maximum, available string) []byte {
	return fmt.Appendf(nil, `{%s"extensions":{"cost":{"requestedQueryCost":%s,"actualQueryCost":%s,"throttleStatus":{"maximumAvailable":%s,"currentlyAvailable":%s,"restoreRate":50.0}}}}`,
		errors, requested, actual, maximum, available)
}

func TestCostsThatShopifyTellsAreRead(t *testing.T) {
	const throttled = `"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],`
	for name, c := range map[string]struct {
		body      []byte
		throttled bool
		dear      bool
		after     time.Duration
		quota     Quota
	}{
		"a query that was answered":               {shopify(`"data":{},`, "101", "46", "1000.0", "954"), false, false, 0, Quota{Limit: 1000, Remaining: 954, Known: true, Restore: 50, Cost: 46, Asked: 101}},
		"one that cost nothing":                   {shopify(`"data":{},`, "10", "0", "1000.0", "1000"), false, false, 0, Quota{Limit: 1000, Remaining: 1000, Known: true, Restore: 50, Asked: 10}},
		"refused while points are left":           {shopify(throttled, "752", "null", "1000.0", "666"), true, false, 1720 * time.Millisecond, Quota{Limit: 1000, Remaining: 666, Known: true, Restore: 50, Cost: 752, Asked: 752}},
		"refused though what is left would do":    {shopify(throttled, "10", "null", "1000.0", "66"), true, false, 20 * time.Millisecond, Quota{Limit: 1000, Remaining: 66, Known: true, Restore: 50, Cost: 10, Asked: 10}},
		"refused, and points below nothing":       {shopify(throttled, "10", "null", "1000.0", "-40"), true, false, 200 * time.Millisecond, Quota{Limit: 1000, Known: true, Restore: 50, Cost: 10, Asked: 10}},
		"it can never fit":                        {shopify(throttled, "1002", "null", "1000.0", "1000"), false, true, 0, Quota{Limit: 1000, Remaining: 1000, Known: true, Restore: 50, Cost: 1002, Asked: 1002}},
		"more than any query may cost":            {[]byte(`{"errors":[{"message":"Query cost is 1002","extensions":{"code":"MAX_COST_EXCEEDED","cost":1002,"maxCost":1000}}]}`), false, true, 0, Quota{}},
		"refused without a word about points":     {[]byte(`{` + throttled + `"data":null}`), true, false, 0, Quota{}},
		"a text in the place of errors":           {[]byte(`{"errors":"[API] Not Found"}`), false, false, 0, Quota{}},
		"a number in the place of the extensions": {[]byte(`{"errors":[{"extensions":7}],"extensions":[1]}`), false, false, 0, Quota{}},
		"no JSON":            {[]byte(`<html>`), false, false, 0, Quota{}},
		"no throttle status": {[]byte(`{"extensions":{"cost":{"requestedQueryCost":3}}}`), false, false, 0, Quota{}},
		"other errors are none of quota's business": {[]byte(`{"errors":[{"message":"x","extensions":{"code":"ACCESS_DENIED"}}]}`), false, false, 0, Quota{}},
	} {
		t.Run(name, func(t *testing.T) {
			sig := ReadShopifyCost(c.body, Signal{Status: 200, Evidence: "200"})
			if sig.Throttled != c.throttled || sig.TooDear != c.dear || sig.RetryAfter != c.after || sig.HasRetryAfter != (c.after > 0) {
				t.Errorf("read %+v", sig)
			}
			if _, pauses := sig.pauses(); pauses != c.throttled {
				t.Errorf("asks for a pause: %v", pauses)
			}
			var q Quota
			if len(sig.Quotas) > 0 {
				q = sig.Quotas[0]
			}
			if q != c.quota {
				t.Errorf("quota %+v, want %+v", q, c.quota)
			}
		})
	}
}

// TestWhatAServerTakesAtFirstIsKeptTo has calls of which the server takes more than they cost in the end.
func TestWhatAServerTakesAtFirstIsKeptTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, err := NewGate("shop", Settings{}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		ask := Ask{Shape: "orders"}
		call := func(available string) {
			p, err := g.Enter(t.Context(), ask)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Millisecond)
			p.Answer(t.Context(), ReadShopifyCost(shopify("", "100", "40", "1000", available), Signal{Status: 200}), time.Now())
		}
		call("290")
		n := 0
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
			_, err := g.Enter(ctx, ask)
			cancel()
			if err != nil {
				break
			}
			n++
		}
		if n != 2 {
			t.Errorf("%d calls went soon with 290 points left that take 100 each at first, want 2", n)
		}
	})
}
