package ratelimit

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told makes headers of lines such as "RateLimit-Limit: 10".
func told(lines ...string) http.Header {
	h := http.Header{}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		h.Add(name, value)
	}
	return h
}

func TestQuotasAreReadInEveryDialect(t *testing.T) {
	date := "Date: " + serverDate.Format(http.TimeFormat)
	for _, tt := range []struct {
		name    string
		dialect Dialect
		header  http.Header
		want    []Quota
	}{
		{"nothing", Automatic, told(date), nil},
		{"draft 06", Automatic, told("RateLimit-Limit: 10", "RateLimit-Remaining: 1", "RateLimit-Reset: 7"),
			[]Quota{{Limit: 10, Remaining: 1, Known: true, Reset: 7 * time.Second}}},
		{"draft 06 with windows", Automatic, told("RateLimit-Limit: 10, 10;w=1, 50;w=60", "RateLimit-Remaining: 9", "RateLimit-Reset: 1"),
			[]Quota{{Limit: 10, Remaining: 9, Known: true, Reset: time.Second, Window: time.Second}}},
		{"draft 07", Automatic, told("RateLimit: limit=100, remaining=50, reset=50", "RateLimit-Policy: 10;w=1, 100;w=60"),
			[]Quota{{Limit: 100, Remaining: 50, Known: true, Reset: 50 * time.Second, Window: time.Minute}}},
		{"draft 10", Automatic, told(`RateLimit: "default";r=50;t=30`, `RateLimit-Policy: "default";q=100;w=60`),
			[]Quota{{Scope: "default", Limit: 100, Remaining: 50, Known: true, Reset: 30 * time.Second, Window: time.Minute}}},
		{"draft 10, several policies on several lines", IETF,
			told(`RateLimit: "burst";r=9;t=1`, `RateLimit: "day";r=3`, `RateLimit-Policy: "burst";q=10;w=1, "day";q=5000;w=86400`),
			[]Quota{{Scope: "burst", Limit: 10, Remaining: 9, Known: true, Reset: time.Second, Window: time.Second},
				{Scope: "day", Limit: 5000, Remaining: 3, Known: true, Window: 24 * time.Hour}}},
		{"draft 10, bytes and calls at one time", IETF,
			told(`RateLimit: "bytes";r=9;t=1, "slots";r=2`, `RateLimit-Policy: "bytes";q=10;qu="content-bytes", "slots";q=5;qu="concurrent-requests"`),
			[]Quota{{Scope: "slots", Limit: 5, Remaining: 2, Known: true, Concurrent: true}}},
		{"draft 10 with a partition", IETF, told(`RateLimit: "a";r=1;t=2;pk=:c2hvcA==:`), []Quota{{Scope: "a", Remaining: 1, Known: true, Reset: 2 * time.Second}}},
		{"the newest form wins", Automatic, told(`RateLimit: "a";r=5;t=2`, "RateLimit-Remaining: 7", "X-RateLimit-Remaining: 8"),
			[]Quota{{Scope: "a", Remaining: 5, Known: true, Reset: 2 * time.Second}}},
		{"GitHub, a moment in seconds", Automatic,
			told(date, "X-RateLimit-Limit: 5000", "X-RateLimit-Remaining: 4999", "X-RateLimit-Reset: "+unix(serverDate.Add(90*time.Second), 1)),
			[]Quota{{Limit: 5000, Remaining: 4999, Known: true, Reset: 90 * time.Second}}},
		{"a moment in milliseconds", Automatic,
			told(date, "X-Rate-Limit-Limit: 50", "X-Rate-Limit-Remaining: 49", "X-Rate-Limit-Reset: "+unix(serverDate.Add(1500*time.Millisecond), 1000)),
			[]Quota{{Limit: 50, Remaining: 49, Known: true, Reset: 1500 * time.Millisecond}}},
		{"a moment that is over", Automatic, told(date, "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: "+unix(serverDate.Add(-time.Hour), 1)),
			[]Quota{{Remaining: 4, Known: true}}},
		{"a date", Automatic, told(date, "X-RateLimit-Limit: 60", "X-RateLimit-Remaining: 4", "X-RateLimit-Reset: "+serverDate.Add(30*time.Second).Format(time.RFC3339)),
			[]Quota{{Limit: 60, Remaining: 4, Known: true, Reset: 30 * time.Second}}},
		{"a fraction of seconds", Automatic, told("Rate-Limit-Limit: 60", "Rate-Limit-Remaining: 59", "Rate-Limit-Reset: 58.3701"),
			[]Quota{{Limit: 60, Remaining: 59, Known: true, Reset: 58371 * time.Millisecond}}},
		{"Kong's windows", XRateLimit, told("X-RateLimit-Limit-Minute: 60", "X-RateLimit-Remaining-Minute: 3", "X-RateLimit-Limit-Day: 1000", "X-RateLimit-Remaining-Day: 900"),
			[]Quota{{Scope: "day", Limit: 1000, Remaining: 900, Known: true, Window: 24 * time.Hour},
				{Scope: "minute", Limit: 60, Remaining: 3, Known: true, Window: time.Minute}}},
		{"BigCommerce", Automatic,
			told("X-Rate-Limit-Time-Window-Ms: 30000", "X-Rate-Limit-Time-Reset-Ms: 15000", "X-Rate-Limit-Requests-Quota: 150", "X-Rate-Limit-Requests-Left: 35"),
			[]Quota{{Limit: 150, Remaining: 35, Known: true, Reset: 15 * time.Second, Window: 30 * time.Second}}},
		{"Shopify's bucket", ShopifyREST, told("X-Shopify-Shop-Api-Call-Limit: 32/40"), []Quota{{Limit: 40, Remaining: 8, Known: true, Restore: 2}}},
		{"Shopify's bucket, overfull", ShopifyREST, told("X-Shopify-Shop-Api-Call-Limit: 41/40"), []Quota{{Limit: 40, Known: true, Restore: 2}}},
		{"Xero", Xero, told("X-MinLimit-Remaining: 59", "X-DayLimit-Remaining: 4000", "X-AppMinLimit-Remaining: 9999"),
			[]Quota{{Scope: "app minute", Remaining: 9999, Known: true, Window: time.Minute}, {Scope: "day", Remaining: 4000, Known: true, Window: 24 * time.Hour},
				{Scope: "minute", Remaining: 59, Known: true, Window: time.Minute}}},
		{"Frappe, in microseconds", RetryAfterOnly, told("X-RateLimit-Limit: 600000000", "X-RateLimit-Remaining: 599000000", "X-RateLimit-Reset: 17"), nil},
		{"another dialect", BigCommerce, told("X-RateLimit-Remaining: 3"), nil},
		{"from a cache", Automatic, told("Age: 20", "RateLimit-Remaining: 3", "RateLimit-Reset: 10"), nil},
		{"fresh from a cache", Automatic, told("Age: 0", "RateLimit-Remaining: 3", "RateLimit-Reset: 10"), []Quota{{Remaining: 3, Known: true, Reset: 10 * time.Second}}},
		{"more left than there is", Automatic, told("RateLimit-Limit: 10", "RateLimit-Remaining: 90"), []Quota{{Limit: 10, Remaining: 10, Known: true}}},
		{"a debt", Automatic, told("X-RateLimit-Limit: 10", "X-RateLimit-Remaining: -3"), []Quota{{Limit: 10, Known: true}}},
		{"beyond any number", Automatic, told("X-RateLimit-Remaining: 99999999999999999999999", "X-RateLimit-Reset: 999999999999999999999"),
			[]Quota{{Remaining: mostQuota, Known: true, Reset: maxRetryAfter}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.dialect.Read(200, tt.header, received)
			if diff := cmp.Diff(tt.want, s.Quotas); diff != "" {
				t.Errorf("quotas (-want +got):\n%s", diff)
			}
			if s.Throttled || s.Pauses() {
				t.Errorf("a good answer pauses: %+v", s)
			}
		})
	}
}

// unix is a moment since 1970 in parts of a second.
func unix(at time.Time, parts int64) string { return strconv.FormatInt(at.UnixMilli()*parts/1000, 10) }

func TestNonsenseIsNamed(t *testing.T) {
	for _, tt := range []struct {
		header http.Header
		want   []string
	}{
		{told("RateLimit-Limit: many", "RateLimit-Remaining: 3"), []string{"RateLimit-Limit"}},
		{told("X-RateLimit-Remaining: -1"), []string{"X-RateLimit-Remaining"}},
		{told("X-RateLimit-Remaining: 5", "X-RateLimit-Reset: soon"), []string{"X-RateLimit-Reset"}},
		{told(`RateLimit: "a;r=`), []string{"RateLimit"}},
		{told(`RateLimit: "a";t=3`), []string{"RateLimit"}},
		{told("Retry-After: later"), []string{"Retry-After"}},
		{told("X-RateLimit-Remaining: " + strings.Repeat("9", 2000)), []string{"X-RateLimit-Remaining"}},
	} {
		s := Automatic.Read(200, tt.header, received)
		if !slices.Equal(s.Nonsense, tt.want) {
			t.Errorf("%v: nonsense %q, want %q", tt.header, s.Nonsense, tt.want)
		}
	}
}

func TestRefusalsForQuotaTellWhenToComeBack(t *testing.T) {
	date := "Date: " + serverDate.Format(http.TimeFormat)
	for _, tt := range []struct {
		name    string
		dialect Dialect
		status  int
		header  http.Header
		want    time.Duration // -1: refused without a word of when; -2: not refused for quota
	}{
		{"in BigCommerce's milliseconds", Automatic, 429, told("X-Rate-Limit-Time-Reset-Ms: 15000", "X-Rate-Limit-Requests-Left: 0"), 15 * time.Second},
		{"by them, with calls left", Automatic, 429, told("X-Rate-Limit-Time-Reset-Ms: 1500", "X-Rate-Limit-Requests-Left: 35"), 1500 * time.Millisecond},
		{"by the quota that is used up", Automatic, 429, told("RateLimit-Limit: 10", "RateLimit-Remaining: 0", "RateLimit-Reset: 7"), 7 * time.Second},
		{"Retry-After says more than the quota", Automatic, 429, told("Retry-After: 2", "RateLimit-Remaining: 0", "RateLimit-Reset: 70"), 2 * time.Second},
		{"a quota that is not used up tells nothing", Automatic, 429, told("RateLimit-Remaining: 5", "RateLimit-Reset: 70"), -1},
		{"a moment", Automatic, 429, told(date, "X-RateLimit-Retry-After: "+unix(serverDate.Add(9*time.Second), 1)), 9 * time.Second},
		{"an older header", Automatic, 509, told("X-Retry-After: 3"), 3 * time.Second},
		{"403 with nothing left", Automatic, 403, told(date, "X-RateLimit-Remaining: 0", "X-RateLimit-Reset: "+unix(serverDate.Add(time.Minute), 1)), time.Minute},
		{"403 that says when", Automatic, 403, told("Retry-After: 60"), time.Minute},
		{"403 for another reason", Automatic, 403, told("X-RateLimit-Remaining: 10"), -2},
		{"403 where headers are not read", RetryAfterOnly, 403, told("X-RateLimit-Remaining: 0"), -2},
		{"from a cache", Automatic, 429, told("Age: 20", "Retry-After: 60"), 40 * time.Second},
		{"from a cache, a date", Automatic, 429, told(date, "Age: 20", "Retry-After: "+serverDate.Add(time.Minute).Format(http.TimeFormat)), 40 * time.Second},
		{"nothing at all", Automatic, 429, nil, -1},
		{"a full bucket", ShopifyREST, 429, told("X-Shopify-Shop-Api-Call-Limit: 40/40", "Retry-After: 2.0"), 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tt.dialect.Read(tt.status, tt.header, received)
			got := s.RetryAfter
			switch {
			case !s.Throttled:
				got = -2
			case !s.HasRetryAfter:
				got = -1
			}
			if got != tt.want {
				t.Errorf("pause of %v, want %v: %+v", got, tt.want, s)
			}
		})
	}
}

func TestRefusalsForCallsAtOneTimeAreToldApart(t *testing.T) {
	for _, tt := range []struct {
		name              string
		dialect           Dialect
		status            int
		header            http.Header
		throttled, atOnce bool
	}{
		{"NetSuite refuses for nothing else", NetSuite, 429, nil, true, true},
		{"NetSuite: another 400", NetSuite, 400, nil, false, false},
		{"Xero: too many at one time", Xero, 429, told("X-Rate-Limit-Problem: concurrent"), true, true},
		{"Xero: the minute is used up", Xero, 429, told("X-Rate-Limit-Problem: minute", "Retry-After: 20"), true, false},
		{"Business Central: waited for too long", BusinessCentral, 503, nil, false, true},
		{"Business Central: is being upgraded", BusinessCentral, 503, told("Retry-After: 60"), false, false},
		{"Business Central: too many in five minutes", BusinessCentral, 429, nil, true, false},
		{"elsewhere a 503 says nothing of that", Automatic, 503, nil, false, false},
		{"elsewhere a 429 says nothing of that", Automatic, 429, told("X-Rate-Limit-Problem: concurrent"), true, false},
	} {
		s := tt.dialect.Read(tt.status, tt.header, received)
		if s.Throttled != tt.throttled || s.Concurrent != tt.atOnce {
			t.Errorf("%s: refused for quota %v, for calls at one time %v, want %v and %v", tt.name, s.Throttled, s.Concurrent, tt.throttled, tt.atOnce)
		}
	}
}

func TestDialectsAreFoundByName(t *testing.T) {
	for _, d := range Dialects() {
		if got, err := Named(d.Name()); err != nil || got.Name() != d.Name() {
			t.Errorf("%s: %s, %v", d.Name(), got.Name(), err)
		}
	}
	if (Dialect{}).Name() != Automatic.Name() {
		t.Error("the zero value is not automatic")
	}
	if _, err := Named("frappe"); err == nil || !strings.Contains(err.Error(), "retry_after") {
		t.Errorf("got %v", err)
	}
}

func TestAHostileAnswerIsRead(t *testing.T) {
	h := http.Header{}
	for i := range 1000 {
		h.Add("RateLimit", `"p`+strconv.Itoa(i)+`";r=1;t=1`)
		h.Add("Retry-After", "1")
	}
	var many []string
	for i := range 100 {
		many = append(many, fmt.Sprintf(`"%d";r=1`, i))
	}
	if s := Automatic.Read(200, told("RateLimit: "+strings.Join(many, ",")), received); len(s.Quotas) != mostQuotas || !slices.Contains(s.Nonsense, "too many quotas") {
		t.Errorf("%d quotas, nonsense %q", len(s.Quotas), s.Nonsense)
	}
	s := Automatic.Read(429, h, received)
	if len(s.Quotas) > mostQuotas || len(s.Nonsense) > mostQuotas || len(s.Evidence) > 2000 {
		t.Errorf("%d quotas, %d headers of nonsense, evidence of %d bytes", len(s.Quotas), len(s.Nonsense), len(s.Evidence))
	}
}

func FuzzAnswer(f *testing.F) {
	f.Add(200, `"default";r=50;t=30`, `"default";q=100;w=10`, "10", "1", "7", "2.0")
	f.Add(429, "limit=10, remaining=1, reset=7", "10;w=1", "-1", "1e9", "1710334800", "Wed, 21 Oct 2026 07:28:00 GMT")
	f.Fuzz(func(t *testing.T, status int, limits, policies, limit, remaining, reset, after string) {
		h := http.Header{"Ratelimit": {limits}, "Ratelimit-Policy": {policies}, "X-Ratelimit-Limit": {limit}, "X-Ratelimit-Remaining": {remaining},
			"X-Ratelimit-Reset": {reset}, "X-Rate-Limit-Requests-Left": {remaining}, "X-Rate-Limit-Time-Reset-Ms": {reset},
			"X-Shopify-Shop-Api-Call-Limit": {limit}, "Retry-After": {after}, "Age": {reset}}
		for _, d := range Dialects() {
			s := d.Read(status, h, received)
			if s.RetryAfter < 0 || s.RetryAfter > maxRetryAfter || len(s.Quotas) > mostQuotas {
				t.Fatalf("%s: %+v", d.Name(), s)
			}
			for _, q := range s.Quotas {
				if q.Reset < 0 || q.Reset > maxRetryAfter || q.Window < 0 || q.Window > maxRetryAfter || !(q.Remaining >= 0 && q.Limit >= 0 && q.Restore >= 0) ||
					q.Limit > 0 && q.Remaining > q.Limit || !q.Known && q.Limit == 0 || q.String() == "" {
					t.Fatalf("%s: %+v", d.Name(), q)
				}
			}
		}
	})
}
