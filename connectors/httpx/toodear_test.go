package httpx

import (
	"context"
	"testing"
	"time"

	"syncd/ratelimit"
)

func TestACallThatNeverFitsIsAnErrorAndNoPause(t *testing.T) {
	const body = `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}],"extensions":{"cost":{"requestedQueryCost":1002,"actualQueryCost":null,` +
		`"throttleStatus":{"maximumAvailable":1000,"currentlyAvailable":1000,"restoreRate":50}}}}`
	for _, status := range []int{200, 429} {
		c, _ := newClient(t, newDirect(t, answerer(status, body)), func(o *Options) {
			o.Signal = func(resp *Response, sig ratelimit.Signal) ratelimit.Signal {
				return ratelimit.ReadShopifyCost(resp.Body, sig)
			}
		})
		gate, err := ratelimit.NewGate("shop", ratelimit.Settings{}, nil, nil, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.gate = gate
		_, err = c.Do(context.Background(), write("/graphql.json", `{}`))
		wantError(t, err, Status, CodeTooDear)
		if st := gate.State(time.Now()); !st.Open || st.Strikes > 0 {
			t.Errorf("after status %d the gate is %+v", status, st)
		}
	}
}
