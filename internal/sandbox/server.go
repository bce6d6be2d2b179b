package sandbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// server is what shop and ERP have in common: a listener, a quota and a log of
// what it did to its callers.
type server struct {
	URL string

	http   *http.Server
	mu     sync.Mutex
	rnd    *rand.Rand
	bucket bucket
	faults map[string]int
	closed chan struct{}
	once   sync.Once
}

func (s *server) open(seed uint64, b bucket, h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("open a sandbox server on loopback: %w", err)
	}
	s.URL = "http://" + l.Addr().String()
	s.rnd = rand.New(rand.NewPCG(seed, seed))
	s.bucket, s.faults, s.closed = b, map[string]int{}, make(chan struct{})
	s.http = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(l) }() // ends with Close
	return nil
}

// Close ends the server; callers that it let hang are cut off.
func (s *server) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.http.Close()
}

// Faults counts what was done to callers, by kind.
func (s *server) Faults() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.faults))
	for k, n := range s.faults {
		out[k] = n
	}
	return out
}

// Quota sets how many requests a caller may make: size at once, perSecond in the long run.
func (s *server) Quota(size, perSecond float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bucket = bucket{size: size, perSecond: perSecond}
}

// chance reports an event of probability p, and counts it as kind. The server
// must be locked.
func (s *server) chance(p float64, kind string) bool {
	if s.rnd.Float64() >= p {
		return false
	}
	s.faults[kind]++
	return true
}

// bucket is a token bucket as platforms have it.
type bucket struct {
	size, perSecond float64
	level           float64
	at              time.Time
}

// take takes a token if there is one, and says what is left.
func (b *bucket) take(now time.Time) (left int, ok bool) {
	if b.at.IsZero() {
		b.level, b.at = b.size, now
	}
	b.level = min(b.size, b.level+now.Sub(b.at).Seconds()*b.perSecond)
	b.at = now
	if b.level < 1 {
		return 0, false
	}
	b.level--
	return int(b.level), true
}

// quota takes a token for a request, tells what is left, and refuses the
// request when nothing is.
func (s *server) quota(w http.ResponseWriter) bool {
	s.mu.Lock()
	left, ok := s.bucket.take(time.Now())
	size := s.bucket.size
	if !ok {
		s.faults["429 over quota"]++
	}
	s.mu.Unlock()
	w.Header().Set("X-RateLimit-Limit", strconv.Itoa(int(size)))
	w.Header().Set("X-RateLimit-Remaining", strconv.Itoa(left))
	if !ok {
		w.Header().Set("Retry-After", "1")
		problem(w, http.StatusTooManyRequests, "over quota")
	}
	return ok
}

func problem(w http.ResponseWriter, status int, text string) {
	answer(w, status, map[string]string{"error": text})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a caller that is gone is no concern
}
