package ratelimit

import (
	"encoding/json"
	"fmt"
	"time"
)

// ReadShopifyCost adds to a signal what the body of an answer of Shopify's GraphQL Admin API says of the client's quota, which is a bucket of
// points: before a query runs the server takes the most that it can cost, and gives back what it did not
// (https://shopify.dev/docs/api/usage/rate-limits). All numbers are in points, and points in each second.
//
// A refusal comes with status 200 and the code THROTTLED, also while points are left, when they do not suffice for this query; the pause then
// lasts until they do. A query that asks for more than the whole bucket holds, or than any query may (code MAX_COST_EXCEEDED), has the signal be
// TooDear: it is refused whenever it is sent, so no pause follows. A body in another form leaves the signal as it was; there are no errors.
func ReadShopifyCost(body []byte, sig Signal) Signal {
	var b struct {
		Errors     json.RawMessage `json:"errors"`
		Extensions struct {
			Cost *struct {
				Requested *float64 `json:"requestedQueryCost"`
				Actual    *float64 `json:"actualQueryCost"`
				Throttle  *struct {
					Maximum   float64  `json:"maximumAvailable"`
					Available *float64 `json:"currentlyAvailable"`
					Restore   float64  `json:"restoreRate"`
				} `json:"throttleStatus"`
			} `json:"cost"`
		} `json:"extensions"`
	}
	if json.Unmarshal(body, &b) != nil {
		return sig
	}
	refused := shopifyCodes(b.Errors)
	q := Quota{}
	if c := b.Extensions.Cost; c != nil {
		if c.Requested != nil {
			q.Asked = *c.Requested
		}
		q.Cost = q.Asked
		if c.Actual != nil {
			q.Cost = *c.Actual
		}
		if t := c.Throttle; t != nil && t.Available != nil {
			q.Limit, q.Remaining, q.Known, q.Restore = t.Maximum, *t.Available, true, t.Restore
			if q.sensible() {
				sig.Quotas = append(sig.Quotas, q)
			}
		}
	}
	throttled := refused["THROTTLED"]
	switch {
	case refused["MAX_COST_EXCEEDED"], throttled && q.Limit > 0 && q.Asked > q.Limit:
		sig.TooDear, sig.Throttled = true, false
		sig.Evidence += fmt.Sprintf(" %g points asked for, of %g", q.Asked, q.Limit)
	case throttled:
		sig.Throttled = true
		sig.Evidence += " THROTTLED"
		if lack := q.Asked - q.Remaining; q.Restore > 0 && !sig.HasRetryAfter {
			sig.RetryAfter, sig.HasRetryAfter = span(max(lack, 1)/q.Restore, time.Second), true
			sig.Evidence += fmt.Sprintf(", %g of %g points left, %g asked for", q.Remaining, q.Limit, q.Asked)
		}
	}
	return sig
}

// shopifyCodes are the codes of an answer's errors. An error without one is passed over, and so is a text in their place.
func shopifyCodes(errors json.RawMessage) map[string]bool {
	var list []struct {
		Extensions struct {
			Code string `json:"code"`
		} `json:"extensions"`
	}
	codes := map[string]bool{}
	if json.Unmarshal(errors, &list) != nil {
		return codes
	}
	for _, e := range list {
		codes[e.Extensions.Code] = true
	}
	return codes
}
