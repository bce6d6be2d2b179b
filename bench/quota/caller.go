package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"syncd/connectors/httpx"
	"syncd/internal/quota"
	"syncd/ratelimit"
)

// caller is one program that calls a server as often as its gate lets it.
type caller struct {
	shop   *shop
	client *httpx.Client
	gate   *ratelimit.Gate
	ended  context.Context // when no call is begun any more
	end    context.CancelFunc
	kill   context.CancelFunc
	work   sync.WaitGroup
	mu     sync.Mutex
	err    error // the first that is no refusal
}

// call has a new program call a server with some workers.
func call(ctx context.Context, p *shop, workers int) (*caller, error) {
	gate, err := ratelimit.NewGate("shop", ratelimit.Settings{}, nil, nil, nil, nil)
	if err != nil {
		return nil, err
	}
	o := httpx.Options{Client: "shop", Gate: gate, BaseURL: p.url, Concurrency: workers}
	if p.told() {
		o.Signal = func(resp *httpx.Response, sig ratelimit.Signal) ratelimit.Signal {
			return ratelimit.ReadShopifyCost(resp.Body, sig)
		}
	}
	client, err := httpx.New(o)
	if err != nil {
		return nil, err
	}
	c := &caller{shop: p, client: client, gate: gate}
	hard, kill := context.WithCancel(ctx)
	c.kill = kill
	c.ended, c.end = context.WithCancel(hard)
	for range workers {
		c.work.Go(func() {
			for c.ended.Err() == nil {
				c.one(hard)
			}
		})
	}
	return c, nil
}

// one makes a call, or waits until the gate is open again.
func (c *caller) one(hard context.Context) {
	cost := 1
	if c.shop.sort == quota.Cost {
		cost = 1 + 4*rand.IntN(3)
	}
	n := strconv.Itoa(cost)
	// What waits at the gate is not under way, and ends at once.
	if err := c.gate.Ready(c.ended, ratelimit.Ask{Kind: ratelimit.Writing, Shape: n}); err != nil {
		if p := (*ratelimit.PausedError)(nil); errors.As(err, &p) {
			c.rest(p.Pause.Until)
		}
		return
	}
	_, err := c.client.Do(hard, &httpx.Request{Method: http.MethodPost, Query: url.Values{"cost": {n}}, Write: true, Shape: n, Body: []byte(`{"a":1}`)})
	e := (*httpx.Error)(nil)
	switch {
	case err == nil || hard.Err() != nil:
	case errors.As(err, &e) && (e.Kind == httpx.Throttled || e.Kind == httpx.Paused):
		if st := c.gate.State(time.Now()); !st.Open {
			c.rest(st.Pause.Until)
		}
	default:
		c.mu.Lock()
		c.err = errors.Join(c.err, err)
		c.mu.Unlock()
		c.end()
	}
}

// rest waits for the end of a pause.
func (c *caller) rest(until time.Time) {
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-t.C:
	case <-c.ended.Done():
	}
}

// stop ends the program: at once with what is under way, or when that is answered.
func (c *caller) stop(atOnce bool) error {
	if atOnce {
		c.kill()
	}
	c.end()
	c.work.Wait()
	c.kill()
	c.gate.Close()
	c.client.Close()
	if c.err != nil {
		return fmt.Errorf("%s: %w", c.shop, c.err)
	}
	return nil
}
