package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxRetryAfter is the longest wait ParseRetryAfter returns; far beyond any
// pause, and far from overflowing when added to a time.
const maxRetryAfter = 10 * 365 * 24 * time.Hour

// ParseRetryAfter reads the value of a Retry-After header: whole seconds or one
// of the three date forms (RFC 9110, 10.2.3, https://www.rfc-editor.org/rfc/rfc9110#field.retry-after),
// and also seconds with a fraction, which Shopify's REST API sends
// (https://shopify.dev/docs/api/admin-rest/usage/rate-limits). A fraction is rounded
// up to a tenth of a second.
//
// A date is measured against serverDate, the Date header of the same answer, so
// that a wrong clock on either side does not matter; against received when the
// answer had none. A negative number and a date in the past are 0: the server
// did ask for a pause, and gave no length that can be used. Values beyond ten
// years are ten years. ok is false when the value is none of these.
func ParseRetryAfter(value string, serverDate, received time.Time) (wait time.Duration, ok bool) {
	value = strings.Trim(strings.TrimSpace(value), `"`)
	if negative, number, isNumber := decimal(value); isNumber {
		if negative {
			return 0, true
		}
		return seconds(number), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	base := serverDate
	if base.IsZero() {
		base = received
	}
	return min(max(at.Sub(base), 0), maxRetryAfter), true
}

// decimal splits a number such as "-2.50" into its sign and its digits.
func decimal(s string) (negative bool, number string, ok bool) {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	if whole == "" && fraction == "" || !digits(whole) || !digits(fraction) {
		return false, "", false
	}
	return negative, s, true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// seconds converts a number of seconds, which may be too large for a duration
// or even for a float.
func seconds(number string) time.Duration {
	f, err := strconv.ParseFloat(number, 64)
	if err != nil || f >= maxRetryAfter.Seconds() {
		return maxRetryAfter
	}
	tenths := math.Ceil(f * 10)
	return time.Duration(tenths) * (time.Second / 10)
}
