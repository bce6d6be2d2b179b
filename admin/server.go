package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers on the listen address: /metrics, /healthz and /readyz.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// Health says how the daemon is.
type Health struct {
	// Ready returns nil when the daemon does its work: journal writable, lanes running.
	Ready func(ctx context.Context) error
}

// Listen opens the address. Nothing is answered before Serve.
func Listen(addr string, m *Metrics, h Health, log *slog.Logger) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		var op *net.OpError
		if errors.As(err, &op) {
			err = op.Err
		}
		return nil, fmt.Errorf("listen on %s: %w; %s with listen: in the configuration, or switch it off with listen: off", addr, err, listenAdvice(err))
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4, Timeout: 20 * time.Second}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		defer cancel()
		if err := h.Ready(ctx); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ready")
	})
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "syncd\n\n/metrics  for Prometheus\n/healthz  whether the process lives\n/readyz   whether it does its work")
	})
	s := &Server{listener: l, http: &http.Server{
		Handler:           local(l.Addr(), mux),
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}}
	return s, nil
}

// listenAdvice says what to do about an address that cannot be listened on.
func listenAdvice(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "another program (perhaps another syncd) has the port: choose another"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "this machine does not have the address: choose one that it has, or 127.0.0.1,"
	case errors.Is(err, syscall.EACCES):
		return "only a privileged user may listen on such a port: choose one from 1024 on"
	default:
		return "choose another address"
	}
}

// local refuses requests that reach a loopback address under a foreign name: a
// web page in a browser on the same machine must not be able to read it.
func local(addr net.Addr, next http.Handler) http.Handler {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		ip := net.ParseIP(strings.Trim(host, "[]"))
		if !strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "this address answers to localhost only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// Addr is the address listened on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve answers until Close.
func (s *Server) Serve() error {
	if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.Addr(), err)
	}
	return nil
}

// Close stops listening and gives answers under way a moment.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return s.http.Shutdown(ctx)
}
