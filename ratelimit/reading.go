package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// reading is one answer while its headers are read.
type reading struct {
	status   int
	header   http.Header
	date     time.Time // of the answer; zero without one
	received time.Time
	now      time.Time // the server's time when the answer arrived, as far as it is known
	quotas   map[string]*Quota
	foreign  map[string]bool // scopes of quotas in units that cannot be kept to
	atOnce   bool            // a refusal is for calls at one time
	nonsense []string        // names of headers that could not be read, or said what cannot be
}

// mostHeader and mostQuotas bound what is read of one header, and how many quotas an answer may have.
const (
	mostHeader = 1 << 10
	mostQuotas = 16
)

// quota is the quota of a scope, made when it is first told of. It is nil for one too many.
func (r *reading) quota(scope string) *Quota {
	scope = printable(scope)
	q := r.quotas[scope]
	if q == nil {
		if len(r.quotas) >= mostQuotas {
			r.odd("too many quotas")
			return &Quota{}
		}
		q = &Quota{Scope: scope}
		r.quotas[scope] = q
	}
	return q
}

func (r *reading) odd(name string) {
	if len(r.nonsense) < mostQuotas {
		r.nonsense = append(r.nonsense, name)
	}
}

// text is a header's value, its lines put together, without spaces and quotes around it.
func (r *reading) text(name string) string {
	v := strings.Join(r.header.Values(name), ", ")
	if len(v) > mostHeader {
		r.odd(name)
		return ""
	}
	return strings.Trim(strings.TrimSpace(v), `"`)
}

// number is a header's value as a number that is not negative.
func (r *reading) number(name string) (float64, bool) {
	v := r.text(name)
	if v == "" {
		return 0, false
	}
	n, ok := number(v)
	if !ok {
		r.odd(name)
	}
	return n, ok
}

// number reads a decimal number; what is negative is 0, and ok is false.
func number(s string) (float64, bool) {
	negative, digits, ok := decimal(strings.TrimSpace(s))
	if !ok || negative {
		return 0, false
	}
	n, err := strconv.ParseFloat(digits, 64)
	if err != nil { // too large even for that
		n = mostQuota
	}
	return n, true
}

// span is a header's value as a length of time in units.
func (r *reading) span(name string, unit time.Duration) (time.Duration, bool) {
	n, ok := r.number(name)
	if !ok {
		return 0, false
	}
	return span(n, unit), true
}

// span is n units, rounded up to a millisecond, and at most maxRetryAfter.
func span(n float64, unit time.Duration) time.Duration {
	ms := math.Ceil(n * float64(unit) / float64(time.Millisecond))
	if ms >= float64(maxRetryAfter/time.Millisecond) {
		return maxRetryAfter
	}
	return time.Duration(ms) * time.Millisecond
}

// until reads when something is over, in any of the forms that are in use: a number of seconds, a moment in seconds or milliseconds since
// 1970, or a date. No server has a quota of 30 years, so that a number of a thousand million and more is a moment.
func (r *reading) until(name string) (time.Duration, bool) {
	v := r.text(name)
	if v == "" {
		return 0, false
	}
	n, ok := number(v)
	var at time.Time
	switch {
	case ok && n >= 1e11 && n < 1e14:
		at = time.UnixMilli(int64(n))
	case ok && n >= 1e9 && n < 1e11:
		at = time.UnixMilli(int64(n * 1000))
	case ok:
		return span(n, time.Second), true
	default:
		var err error
		if at, err = http.ParseTime(v); err != nil {
			if at, err = time.Parse(time.RFC3339, v); err != nil {
				r.odd(name)
				return 0, false
			}
		}
	}
	return min(max(at.Sub(r.now), 0), maxRetryAfter), true
}

// retryAfter reads when the server wants to be called again. Several values can come from several machines on the way: the strictest is
// obeyed. age is how long ago a cache was given the answer.
func (r *reading) retryAfter(s *Signal, age time.Duration) {
	take := func(name, value string, d time.Duration, ok bool) {
		s.Evidence += " " + name + ": " + printable(value)
		if ok {
			s.RetryAfter, s.HasRetryAfter = max(s.RetryAfter, max(d-age, 0)), true
		} else {
			r.odd(name)
		}
	}
	for i, v := range r.header.Values("Retry-After") {
		if i == mostQuotas {
			r.odd("Retry-After")
			break
		}
		d, ok := ParseRetryAfter(v, r.date, r.received)
		take("Retry-After", v, d, ok)
	}
	if s.HasRetryAfter || !s.Throttled {
		return
	}
	// Of Symfony's samples (https://symfony.com/doc/current/rate_limiter.html) and of MailerLite: a moment here, seconds there.
	for _, name := range []string{"X-RateLimit-Retry-After", "X-Rate-Limit-Retry-After", "X-Retry-After"} {
		if v := r.header.Get(name); v != "" {
			d, ok := r.until(name)
			take(name, v, d, ok)
		}
	}
	const window = "X-Rate-Limit-Time-Reset-Ms"
	if v := r.header.Get(window); v != "" && !s.HasRetryAfter {
		d, ok := r.span(window, time.Millisecond)
		take(window, v, d, ok)
	}
}

func readAutomatic(r *reading) {
	for _, read := range []func(*reading){readIETF, readBigCommerce, readXRateLimit} {
		if read(r); len(r.quotas) > 0 {
			return
		}
	}
}

// readIETF reads the newest form that is there.
func readIETF(r *reading) {
	if v := r.text("RateLimit"); v != "" {
		// The lines are given to the parser as they came: a String is quoted in them.
		if list, err := httpsfv.UnmarshalList(r.header.Values("RateLimit")); err == nil && named(list) {
			r.policies()
			r.limits(list)
			return
		}
		if d, err := httpsfv.UnmarshalDictionary(r.header.Values("RateLimit")); err == nil {
			r.dictionary(d)
			return
		}
		r.odd("RateLimit")
		return
	}
	r.three("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "", 0)
	r.three("Rate-Limit-Limit", "Rate-Limit-Remaining", "Rate-Limit-Reset", "", 0)
}

// named reports whether a list is of the names of policies, as since draft 08. A dictionary without values reads as a list of tokens.
func named(l httpsfv.List) bool {
	for _, m := range l {
		i, ok := m.(httpsfv.Item)
		if !ok {
			return false
		}
		if _, ok := i.Value.(string); !ok {
			return false
		}
	}
	return len(l) > 0
}

// policies reads RateLimit-Policy as since draft 08: "default";q=100;w=10.
func (r *reading) policies() {
	values := r.header.Values("RateLimit-Policy")
	if len(values) == 0 || r.text("RateLimit-Policy") == "" {
		return
	}
	list, err := httpsfv.UnmarshalList(values)
	if err != nil {
		r.odd("RateLimit-Policy")
		return
	}
	for _, m := range list {
		i, ok := m.(httpsfv.Item)
		name, isName := i.Value.(string)
		if !ok || !isName {
			r.odd("RateLimit-Policy")
			continue
		}
		q := r.quota(name)
		if n, ok := parameter(i, "q"); ok {
			q.Limit = n
		}
		if n, ok := parameter(i, "w"); ok {
			q.Window = span(n, time.Second)
		}
		// Another unit than calls cannot be kept to, except that of calls at one time.
		switch unit, _ := i.Params.Get("qu"); unit {
		case nil, "requests":
		case "concurrent-requests":
			q.Concurrent = true
		default:
			delete(r.quotas, q.Scope)
			r.foreign[q.Scope] = true
		}
	}
}

// limits reads RateLimit as since draft 08: "default";r=50;t=30.
func (r *reading) limits(list httpsfv.List) {
	for _, m := range list {
		i := m.(httpsfv.Item)
		name := i.Value.(string)
		if r.foreign[printable(name)] {
			continue
		}
		q := r.quota(name)
		q.Remaining, q.Known = parameter(i, "r")
		if !q.Known {
			r.odd("RateLimit")
		}
		if n, ok := parameter(i, "t"); ok {
			q.Reset = span(n, time.Second)
		}
	}
}

// parameter is a number among the parameters of an item, not negative.
func parameter(i httpsfv.Item, name string) (float64, bool) {
	v, ok := i.Params.Get(name)
	if !ok {
		return 0, false
	}
	return positive(v)
}

func positive(v any) (float64, bool) {
	switch n := v.(type) {
	case int64:
		return float64(max(n, 0)), n >= 0
	case float64:
		return max(n, 0), n >= 0
	}
	return 0, false
}

// dictionary reads RateLimit as of draft 07: limit=10, remaining=1, reset=7.
func (r *reading) dictionary(d *httpsfv.Dictionary) {
	value := func(name string) (float64, bool) {
		m, ok := d.Get(name)
		if !ok {
			return 0, false
		}
		i, ok := m.(httpsfv.Item)
		if !ok {
			return 0, false
		}
		return positive(i.Value)
	}
	q := r.quota("")
	q.Limit, _ = value("limit")
	if q.Remaining, q.Known = value("remaining"); !q.Known {
		r.odd("RateLimit")
	}
	if n, ok := value("reset"); ok {
		q.Reset = span(n, time.Second)
	}
	q.Window = windowOf(r.text("RateLimit-Policy"), q.Limit)
}

// windowOf finds the window of a limit among policies as they were up to draft 07: 10;w=1, 50;w=60.
func windowOf(policies string, limit float64) time.Duration {
	for policy := range strings.SplitSeq(policies, ",") {
		parts := strings.Split(policy, ";")
		n, ok := number(parts[0])
		if !ok || n != limit {
			continue
		}
		for _, p := range parts[1:] {
			name, value, _ := strings.Cut(p, "=")
			if w, ok := number(value); ok && strings.TrimSpace(name) == "w" {
				return span(w, time.Second)
			}
		}
	}
	return 0
}

// three reads a quota that is told in three headers, and reports whether it was.
func (r *reading) three(limit, remaining, reset, scope string, window time.Duration) bool {
	left := r.text(remaining)
	most := r.text(limit)
	if left == "" && most == "" {
		return false
	}
	q := r.quota(scope)
	q.Window = window
	if left != "" {
		if q.Remaining, q.Known = number(left); !q.Known {
			// Some go below zero when they have let through too much.
			if negative, _, ok := decimal(left); ok && negative {
				q.Known = true
			}
			r.odd(remaining)
		}
	}
	if most != "" {
		// The first is the one that the others are about; more may follow, with their windows.
		first, policies, _ := strings.Cut(most, ",")
		n, rest, _ := strings.Cut(first, ";")
		ok := false
		if q.Limit, ok = number(n); !ok {
			r.odd(limit)
		} else if q.Window == 0 {
			if q.Window = windowOf(n+";"+rest, q.Limit); q.Window == 0 {
				q.Window = windowOf(policies, q.Limit)
			}
		}
	}
	if d, ok := r.until(reset); ok {
		q.Reset = d
	}
	if negative, _, number := decimal(firstOf(most)); number && (negative || q.Limit == 0) {
		delete(r.quotas, printable(scope)) // so some tell that there is none
	}
	return true
}

// firstOf is the first of several limits, without its window.
func firstOf(limits string) string {
	first, _, _ := strings.Cut(limits, ",")
	first, _, _ = strings.Cut(first, ";")
	return strings.TrimSpace(first)
}

// windows are the ends of header names that tell a window, as Kong has them.
var windows = []struct {
	name  string
	scope string
	span  time.Duration
}{
	{"Second", "second", time.Second},
	{"Minute", "minute", time.Minute},
	{"Hour", "hour", time.Hour},
	{"Day", "day", 24 * time.Hour},
}

func readXRateLimit(r *reading) {
	for _, begin := range []string{"X-RateLimit", "X-Rate-Limit"} {
		found := r.three(begin+"-Limit", begin+"-Remaining", begin+"-Reset", "", 0)
		for _, w := range windows {
			found = r.three(begin+"-Limit-"+w.name, begin+"-Remaining-"+w.name, begin+"-Reset-"+w.name, w.scope, w.span) || found
		}
		if found {
			return
		}
	}
}

func readBigCommerce(r *reading) {
	const begin = "X-Rate-Limit-"
	left, known := r.number(begin + "Requests-Left")
	limit, told := r.number(begin + "Requests-Quota")
	if !known && !told {
		return
	}
	q := r.quota("")
	q.Remaining, q.Known, q.Limit = left, known, limit
	q.Reset, _ = r.span(begin+"Time-Reset-Ms", time.Millisecond)
	q.Window, _ = r.span(begin+"Time-Window-Ms", time.Millisecond)
}

// readShopifyREST reads 32/40: of a bucket of 40 there are 32 used. What leaks out of it in a second depends on the shop's plan: a bucket of
// 40 loses 2, one of 400 loses 20.
func readShopifyREST(r *reading) {
	const name = "X-Shopify-Shop-Api-Call-Limit"
	v := r.text(name)
	if v == "" {
		return
	}
	used, size, ok := strings.Cut(v, "/")
	u, ok1 := number(used)
	n, ok2 := number(size)
	if !ok || !ok1 || !ok2 || n == 0 {
		r.odd(name)
		return
	}
	q := r.quota("")
	q.Limit, q.Remaining, q.Known, q.Restore = n, max(n-u, 0), true, n/20
}

func readXero(r *reading) {
	// The other problems are minute, day and appminute.
	r.atOnce = strings.EqualFold(r.text("X-Rate-Limit-Problem"), "concurrent")
	for _, x := range []struct {
		header, scope string
		window        time.Duration
	}{
		{"X-MinLimit-Remaining", "minute", time.Minute},
		{"X-DayLimit-Remaining", "day", 24 * time.Hour},
		{"X-AppMinLimit-Remaining", "app minute", time.Minute},
	} {
		if n, ok := r.number(x.header); ok {
			q := r.quota(x.scope)
			q.Remaining, q.Known, q.Window = n, true, x.window
		}
	}
}
