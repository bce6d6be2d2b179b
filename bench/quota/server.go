package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"syncd/internal/quota"
)

// shop is an HTTP server with a quota.
type shop struct {
	scenario
	quota  *quota.Server
	server *http.Server
	url    *url.URL
}

func open(s scenario, t timing, begin time.Time) (*shop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a server: %w", err)
	}
	limit, rate := s.size(t)
	p := &shop{scenario: s, quota: quota.New(s.sort, s.telling, limit, rate, begin), url: &url.URL{Scheme: "http", Host: l.Addr().String()}}
	p.server = &http.Server{Handler: p, ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = p.server.Serve(l) }() // until it is closed
	return p, nil
}

// told reports whether the server tells its quota in bodies, as Shopify's GraphQL API does.
func (p *shop) told() bool { return p.sort == quota.Cost && p.telling == quota.Headers }

// ServeHTTP takes a call of the cost that its query names.
func (p *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // a broken call is answered in vain
	cost, err := strconv.ParseFloat(r.URL.Query().Get("cost"), 64)
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
