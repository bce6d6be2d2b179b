// Package quota is a server's side of a quota, for tests and benchmarks: it lets calls through as real servers do, and tells of it in the
// ways that they do.
package quota

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Sort is how a quota comes back.
type Sort int

// Sorts of quotas.
const (
	// Bucket fills all the time, and takes calls of cost 1.
	Bucket Sort = iota
	// Window is whole again at once, at fixed moments.
	Window
	// Cost is a bucket of which calls take different parts.
	Cost
)

func (s Sort) String() string { return [...]string{"bucket", "window", "cost"}[s] }

// Telling is what a server says of its quota.
type Telling int

// Ways of telling.
const (
	// Headers tell limit, what remains and when it is whole again with each answer, and Retry-After with a refusal.
	Headers Telling = iota
	// Seconds is as Headers, in whole seconds.
	Seconds
	// RetryAfter is told with a refusal alone, in whole seconds.
	RetryAfter
	// Nothing is told but that a call is refused.
	Nothing
)

func (t Telling) String() string {
	return [...]string{"headers", "whole seconds", "Retry-After", "nothing"}[t]
}

// Server is a quota. It is safe for concurrent use.
type Server struct {
	sort    Sort
	telling Telling

	mu     sync.Mutex
	limit  float64
	rate   float64 // what comes back in a second, on average
	tokens float64
	last   time.Time // as of when a bucket was looked at
	begin  time.Time // of the window
	counts Counts
	marks  []*Mark
}

// Mark is a moment at which the counts of a server are kept.
type Mark struct {
	// At is the moment. What is let through at it comes after the mark; a window that ends then is over.
	At time.Time
	// Counts are those of that moment, and Left is what was left of the quota then; both are set once a later call, or Counts, has passed it.
	Counts Counts
	Left   float64
}

// Counts is what a server has done.
type Counts struct {
	// Allowed is what it could have let through, Ours and Others what it did, in its unit.
	Allowed, Ours, Others float64
	// Calls and Refused count our calls, Denied those of others that were refused.
	Calls, Refused, Denied int
}

// Sub is what was done since an earlier moment.
func (c Counts) Sub(o Counts) Counts {
	return Counts{c.Allowed - o.Allowed, c.Ours - o.Ours, c.Others - o.Others, c.Calls - o.Calls, c.Refused - o.Refused, c.Denied - o.Denied}
}

// Used is the part of what others left that our calls took, from 0 to 1.
func (c Counts) Used() float64 { return c.Ours / (c.Allowed - c.Others) }

// New returns a server that lets rate units through in a second on average, and limit at once or in a window.
func New(sort Sort, telling Telling, limit, rate float64, now time.Time) *Server {
	return &Server{sort: sort, telling: telling, limit: limit, rate: rate, tokens: limit, last: now, begin: now, counts: Counts{Allowed: limit}}
}

// length is how long a window lasts. The caller holds mu.
func (s *Server) length() time.Duration {
	return time.Duration(s.limit / s.rate * float64(time.Second))
}

// Mark has the counts be kept as of moments to come, in their order. Read the marks after Counts was asked for at a later time.
func (s *Server) Mark(ms ...*Mark) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks = append(s.marks, ms...)
}

// pass lets time pass, and keeps the counts of moments that are marked. The caller holds mu.
func (s *Server) pass(now time.Time) {
	for len(s.marks) > 0 && !s.marks[0].At.After(now) {
		m := s.marks[0]
		s.marks = s.marks[1:]
		s.passTo(m.At)
		m.Counts, m.Left = s.counts, s.tokens
	}
	s.passTo(now)
}

func (s *Server) passTo(now time.Time) {
	if s.sort != Window {
		came := max(now.Sub(s.last).Seconds(), 0) * s.rate
		s.tokens = min(s.limit, s.tokens+came)
		if now.After(s.last) {
			s.last = now
		}
		s.counts.Allowed += came
		return
	}
	for w := s.length(); now.Sub(s.begin) >= w; s.begin = s.begin.Add(w) {
		s.tokens = s.limit
		s.counts.Allowed += s.limit
	}
}

// Change gives the quota another size from now on, by a factor.
func (s *Server) Change(now time.Time, factor float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	w := s.length()
	s.limit *= factor
	s.rate = s.limit / w.Seconds()
	s.tokens = min(s.tokens, s.limit)
}

// Foreign is a call of somebody else; it is refused like any other.
func (s *Server) Foreign(now time.Time, cost float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	if s.tokens < cost {
		s.counts.Denied++
		return
	}
	s.tokens -= cost
	s.counts.Others += cost
}

// Call is a call of ours. The header is what the server says with its answer.
func (s *Server) Call(now time.Time, cost float64) (ok bool, h http.Header) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	s.counts.Calls++
	if ok = s.tokens >= cost; ok {
		s.tokens -= cost
		s.counts.Ours += cost
	} else {
		s.counts.Refused++
	}
	h = http.Header{"Date": {now.UTC().Format(http.TimeFormat)}}
	whole := (s.limit - s.tokens) / s.rate
	retry := (cost - s.tokens) / s.rate
	if s.sort == Window {
		whole = (s.length() - now.Sub(s.begin)).Seconds()
		retry = whole
	}
	if s.telling == Seconds {
		whole = math.Ceil(whole)
	}
	if s.telling <= Seconds {
		h.Set("X-RateLimit-Limit", strconv.Itoa(int(s.limit)))
		h.Set("X-RateLimit-Remaining", strconv.Itoa(int(s.tokens)))
		h.Set("X-RateLimit-Reset", strconv.FormatFloat(whole, 'f', 3, 64))
	}
	if !ok && s.telling != Nothing {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(retry))))
	}
	return ok, h
}

// Return gives back a part of what a call of ours had taken, as a server does that first takes the most a call can cost.
func (s *Server) Return(now time.Time, cost float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	s.tokens = min(s.limit, s.tokens+cost)
	s.counts.Ours -= cost
}

// Left is what is left of the quota, its limit and what comes back in a second, as a server with costs tells in its answers.
func (s *Server) Left(now time.Time) (left, limit, rate float64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	return s.tokens, s.limit, s.rate
}

// Counts is what the server has done until now.
func (s *Server) Counts(now time.Time) Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pass(now)
	return s.counts
}
