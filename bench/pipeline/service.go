package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"syncd/bench/internal/lab"
)

// atRest is what syncd costs apart from its work.
type atRest struct {
	first time.Duration // from the start of the process to its first request
	rss   int64         // bytes, after the rest
	cpu   time.Duration // during the rest
}

// restTime is how long syncd has nothing to do before its memory is looked at.
const restTime = 10 * time.Second

// rest starts syncd over an existing journal with an HTTP source that has nothing,
// waits for its first request, and then leaves it alone for a while. The source is
// read by a flow of its own: those who have rows keep theirs.
func (w *world) rest(ctx context.Context, binary string, j journal, leave time.Duration) (r atRest, err error) {
	shop, err := newShop()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, shop.close()) }()
	config, err := w.config("rest", j.setting, "others", restSource(shop.url), w.tableSetting(), "30s")
	if err != nil {
		return r, err
	}
	c, err := lab.StartDaemon(ctx, binary, config)
	if err != nil {
		return r, err
	}
	select {
	case at := <-shop.asked:
		r.first = at.Sub(c.Started)
	case <-c.Ended():
		return r, c.Failed(errors.New("ended before it sent a request"))
	case <-time.After(time.Minute):
		return r, c.Failed(errors.New("no request within a minute"))
	}
	pid := c.PID()
	before, err := lab.ReadStat(pid)
	if err != nil {
		return r, err
	}
	select {
	case <-time.After(leave):
	case <-ctx.Done():
		return r, ctx.Err()
	}
	after, err := lab.ReadStat(pid)
	if err != nil {
		return r, err
	}
	r.cpu = after.CPU - before.CPU
	if r.rss, err = lab.Memory(pid, "VmRSS"); err != nil {
		return r, err
	}
	_, err = c.Stop()
	return r, err
}

// shop is an HTTP server without records.
type shop struct {
	url    string
	server *http.Server
	served chan error
	asked  chan time.Time // when the first request came
}

func newShop() (*shop, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a shop: %w", err)
	}
	s := &shop{url: "http://" + l.Addr().String(), served: make(chan error, 1), asked: make(chan time.Time, 1)}
	var once sync.Once
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { s.asked <- time.Now() })
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte("[]")) // the other side may have gone away
	})}
	go func() { s.served <- s.server.Serve(l) }()
	return s, nil
}

func (s *shop) close() error {
	err := s.server.Close()
	if e := <-s.served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return err
}

func sizeOf(path string) (int64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, fmt.Errorf("look at the binary: %w", err)
	}
	return info.Size(), nil
}
