package ratelimit

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Dialect is how a server tells its quota in the headers of its answers. The zero value is Automatic.
type Dialect struct {
	name, doc string
	read      func(*reading)
	// refuses reports whether an answer that is no 429 is a refusal for quota all the same.
	refuses func(*reading) bool
	// atOnce: a refusal is for the calls under way beside the one refused, not for those before.
	atOnce bool
	// crowded reports whether an answer that is no refusal says that too many calls are under way; nil for never.
	crowded func(*reading) bool
}

// Name is what the dialect is called in a configuration.
func (d Dialect) Name() string {
	if d.name == "" {
		return Automatic.name
	}
	return d.name
}

// Doc says in a line what is read.
func (d Dialect) Doc() string {
	if d.name == "" {
		return Automatic.doc
	}
	return d.doc
}

// AtOnce reports whether the server refuses calls for those under way beside them.
func (d Dialect) AtOnce() bool { return d.atOnce }

// The dialects.
var (
	// Automatic reads what means the same wherever it is sent, in this order of trust: the RateLimit fields of the IETF's drafts,
	// BigCommerce's milliseconds, and X-RateLimit-*.
	Automatic = Dialect{name: "automatic", doc: "what is usual: the fields of the IETF's drafts, X-Rate-Limit-* in milliseconds, or X-RateLimit-*", read: readAutomatic, refuses: forbiddenForQuota}
	// RetryAfterOnly heeds refusals and Retry-After, and takes no header for a quota. It is for servers that count something else than calls in
	// headers of the usual names, as Frappe does, which counts microseconds of work
	// (https://github.com/frappe/frappe/blob/develop/frappe/rate_limiter.py).
	RetryAfterOnly = Dialect{name: "retry_after", doc: "refusals and Retry-After alone; for servers that count something else than calls in headers of the usual names, as Frappe does", read: func(*reading) {}}
	// IETF reads the RateLimit fields alone, as drafts 00 to 10 have them
	// (https://datatracker.ietf.org/doc/draft-ietf-httpapi-ratelimit-headers/).
	IETF = Dialect{name: "ietf", doc: "RateLimit and RateLimit-Policy, or RateLimit-Limit, -Remaining and -Reset", read: readIETF}
	// XRateLimit reads X-RateLimit-Limit, -Remaining and -Reset and their variants with more hyphens or with a window at the end.
	XRateLimit = Dialect{name: "x_ratelimit", doc: "X-RateLimit-Limit, -Remaining and -Reset, also with -Minute and the like at the end", read: readXRateLimit, refuses: forbiddenForQuota}
	// BigCommerce reads X-Rate-Limit-*, in milliseconds
	// (https://developer.bigcommerce.com/docs/start/best-practices/api-rate-limits).
	BigCommerce = Dialect{name: "bigcommerce", doc: "X-Rate-Limit-Requests-Left, -Requests-Quota, -Time-Reset-Ms and -Time-Window-Ms", read: readBigCommerce}
	// ShopifyREST reads the fill of the bucket from X-Shopify-Shop-Api-Call-Limit
	// (https://shopify.dev/docs/api/admin-rest/usage/rate-limits).
	ShopifyREST = Dialect{name: "shopify_rest", doc: "X-Shopify-Shop-Api-Call-Limit", read: readShopifyREST}
	// Xero reads what is left of the minute, of the day and of the app's minute
	// (https://developer.xero.com/documentation/guides/oauth2/limits/).
	Xero = Dialect{name: "xero", doc: "X-MinLimit-Remaining, X-DayLimit-Remaining and X-AppMinLimit-Remaining; X-Rate-Limit-Problem tells a refusal for calls at one time", read: readXero}
	// NetSuite tells nothing in headers, and refuses calls for those under way at one time in the whole account: SuiteTalk REST with 429, RESTlets
	// with 400 and SSS_REQUEST_LIMIT_EXCEEDED in the body, which is the connector's to read
	// (https://docs.oracle.com/en/cloud/saas/netsuite/ns-online-help/bridgehead_1525252812.html).
	NetSuite = Dialect{name: "netsuite", doc: "refusals, which are for calls at one time; for RESTlets say besides that the code SSS_REQUEST_LIMIT_EXCEEDED is a refusal", read: func(*reading) {}, atOnce: true}
	// BusinessCentral tells nothing in headers, and refuses with 429 what goes beyond 6,000 calls in any five minutes. Five calls of a user are
	// worked on at one time; others wait, and one that has waited for eight minutes is answered with 503. What became of it is left open here: a 503
	// may come from something before the server (https://learn.microsoft.com/en-us/dynamics365/business-central/dev-itpro/administration/operational-limits-online).
	BusinessCentral = Dialect{name: "business_central", doc: "refusals, and 503 without Retry-After, which says that too many calls wait at one time", read: func(*reading) {}, crowded: func(r *reading) bool {
		return r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") == ""
	}}
)

// Dialects lists the dialects by name.
func Dialects() []Dialect {
	return []Dialect{Automatic, IETF, XRateLimit, BigCommerce, ShopifyREST, Xero, NetSuite, BusinessCentral, RetryAfterOnly}
}

// Named finds a dialect by its name.
func Named(name string) (Dialect, error) {
	var names []string
	for _, d := range Dialects() {
		if d.name == name {
			return d, nil
		}
		names = append(names, d.name)
	}
	return Dialect{}, fmt.Errorf("%q is no way to tell a quota; there are %s", name, strings.Join(names, ", "))
}

// Read reads an HTTP answer that arrived at received. Refusals that a platform words in a body are the connector's to add.
//
// What an answer says of times is measured against its own Date, so that a wrong clock on either side does not matter. Of an answer from
// a cache (one with an Age, RFC 9111, 5.1) the quota is not heeded: it was told to somebody else, some time ago.
func (d Dialect) Read(status int, h http.Header, received time.Time) Signal {
	if d.read == nil {
		d = Automatic
	}
	r := &reading{status: status, header: h, date: serverTime(h), received: received, quotas: map[string]*Quota{}, foreign: map[string]bool{}}
	r.now = r.date
	if r.now.IsZero() {
		r.now = received
	}
	age, aged := r.span("Age", time.Second)
	cached := aged && age > 0
	r.now = r.now.Add(age)
	s := Signal{Status: status, ServerTime: r.date, Evidence: fmt.Sprint(status)}
	d.read(r)
	// 509 is not registered; hosting platforms and BigCommerce's older API send it for a used up quota.
	s.Throttled = status == http.StatusTooManyRequests || status == 509 || d.refuses != nil && d.refuses(r)
	s.Concurrent = s.Throttled && (d.atOnce || r.atOnce) || d.crowded != nil && d.crowded(r)
	r.retryAfter(&s, age)
	if !cached {
		for _, scope := range slices.Sorted(maps.Keys(r.quotas)) {
			if q := r.quotas[scope]; q.sensible() {
				s.Quotas = append(s.Quotas, *q)
			}
		}
	}
	s.Nonsense = r.nonsense
	if s.Throttled && !s.HasRetryAfter {
		s.fromQuotas()
	}
	return s
}

// fromQuotas takes the end of a refusal from the quota that is used up, if that says when it is whole again.
func (s *Signal) fromQuotas() {
	for _, q := range s.Quotas {
		if q.Known && q.Remaining < 1 && q.Reset > 0 && !q.Concurrent && q.Restore == 0 {
			s.RetryAfter, s.HasRetryAfter, s.Reckoned = max(s.RetryAfter, q.Reset), true, true
			s.Evidence += " " + q.String()
		}
	}
}

// forbiddenForQuota recognises a 403 that is a refusal for quota: it says when to come back, or that nothing is left
// (https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api).
func forbiddenForQuota(r *reading) bool {
	if r.status != http.StatusForbidden {
		return false
	}
	if r.header.Get("Retry-After") != "" {
		return true
	}
	for _, q := range r.quotas {
		if q.Known && q.Remaining < 1 {
			return true
		}
	}
	return false
}
