package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"syncd/internal/quota"
)

// shop is an HTTP server with a quota.
type shop struct {
	scenario
	quota  *quota.Server
	server *http.Server
	url    *url.URL

	mu       sync.Mutex
	called   map[string]bool // daemons that called since somebody looked
	last     time.Time       // when one called last
	replaced *successor      // nil unless one is waited for
}

// successor is the daemon that calls a server after another one has ended.
type successor struct {
	of          string
	last, first time.Time     // the last call of the one, and the first of the other
	came        chan struct{} // closed when first is set
	then        func(now time.Time)
}

// next waits for another daemon to call than the one of a name. then is called just before its first call is counted.
func (p *shop) next(of string, then func(now time.Time)) *successor {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replaced = &successor{of: of, last: p.last, came: make(chan struct{}), then: then}
	return p.replaced
}

// look tells which daemons have called since the last look.
func (p *shop) look() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Sorted(maps.Keys(p.called))
	clear(p.called)
	return names
}

// visited notes the call of a daemon.
func (p *shop) visited(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	p.called[name] = true
	switch r := p.replaced; {
	case r == nil || !r.first.IsZero():
	case name == r.of:
		r.last = p.last
	default:
		r.first = p.last
		r.then(p.last)
		close(r.came)
	}
}

func open(s scenario, t timing, begin time.Time) (*shop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	limit, rate := s.size(t)
	p := &shop{scenario: s, quota: quota.New(s.sort, s.telling, limit, rate, begin), url: &url.URL{Scheme: "http", Host: l.Addr().String()},
		called: map[string]bool{}}
	p.server = &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(l) }() // until it is closed
	return p, nil
}

// told reports whether the server tells its quota in bodies, as Shopify's GraphQL API does.
func (p *shop) told() bool { return p.sort == quota.Cost && p.telling == quota.Headers }

// ServeHTTP takes a call of the cost that its query names, or of cost 1 of a daemon that tells its name.
func (p *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a broken call is answered in vain
	cost, err := strconv.ParseFloat(r.URL.Query().Get("cost"), 64)
	if name := r.Header.Get("X-Daemon"); name != "" {
		p.visited(name)
		cost, err = 1, nil
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if p.told() {
		p.graph(w, cost)
		return
	}
	ok, h := p.quota.Call(time.Now(), cost)
	for name, values := range h {
		w.Header()[name] = values
	}
	if !ok {
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	time.Sleep(latency)
	w.WriteHeader(http.StatusNoContent)
}

// graph takes twice the cost at first, and gives half of that back in the end.
func (p *shop) graph(w http.ResponseWriter, cost float64) {
	ok, _ := p.quota.Call(time.Now(), 2*cost)
	actual, begin := "null", `"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]`
	if ok {
		time.Sleep(latency)
		p.quota.Return(time.Now(), cost)
		actual, begin = strconv.FormatFloat(cost, 'f', -1, 64), `"data":{}`
	}
	left, limit, rate := p.quota.Left(time.Now())
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{%s,"extensions":{"cost":{"requestedQueryCost":%g,"actualQueryCost":%s,"throttleStatus":{"maximumAvailable":%g,"currentlyAvailable":%d,"restoreRate":%g}}}}`,
		begin, 2*cost, actual, limit, int(left), rate)
}

// share has another program take its part of the quota until ctx ends.
func (p *shop) share(ctx context.Context, t timing) {
	_, rate := p.size(t)
	cost := 1.0
	if p.sort == quota.Cost {
		cost = costly
	}
	tick := time.NewTicker(time.Duration(float64(time.Second) * cost / (rate * p.foreign)))
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			p.quota.Foreign(time.Now(), cost)
		case <-ctx.Done():
			return
		}
	}
}
