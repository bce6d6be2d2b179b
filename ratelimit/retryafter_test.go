package ratelimit

import (
	"strings"
	"testing"
	"time"
)

var (
	serverDate = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)
	// The local clock runs five minutes ahead of the server's.
	received = serverDate.Add(5 * time.Minute)
)

func TestRetryAfterIsReadInEveryFormServersSend(t *testing.T) {
	tests := []struct {
		name  string
		value string
		want  time.Duration
		ok    bool
	}{
		{"whole seconds", "60", time.Minute, true},
		{"zero", "0", 0, true},
		{"blanks around", "  120 ", 2 * time.Minute, true},
		{"leading zeros", "007", 7 * time.Second, true},
		{"plus sign", "+5", 5 * time.Second, true},
		{"quoted", `"2"`, 2 * time.Second, true},
		{"decimal without rest", "2.0", 2 * time.Second, true},
		{"decimal is rounded up", "0.493", 500 * time.Millisecond, true},
		{"decimal just above", "2.01", 2100 * time.Millisecond, true},
		{"decimal without whole part", ".5", 500 * time.Millisecond, true},
		{"decimal with bare point", "3.", 3 * time.Second, true},
		{"negative", "-5", 0, true},
		{"negative decimal", "-0.5", 0, true},
		{"date, IMF-fixdate", "Sun, 29 Nov 2026 10:00:30 GMT", 30 * time.Second, true},
		{"date, RFC 850", "Sunday, 29-Nov-26 10:00:30 GMT", 30 * time.Second, true},
		{"date, asctime", "Sun Nov 29 10:00:30 2026", 30 * time.Second, true},
		{"date at the server's now", "Sun, 29 Nov 2026 10:00:00 GMT", 0, true},
		{"date in the past", "Wed, 21 Oct 2015 07:28:00 GMT", 0, true},
		{"date far away", "Fri, 31 Dec 9999 23:59:59 GMT", maxRetryAfter, true},
		{"large but sensible", "86400", 24 * time.Hour, true},
		{"many years", "9999999999", maxRetryAfter, true},
		{"overflows when multiplied", "9223372037", maxRetryAfter, true},
		{"largest integer", "9223372036854775807", maxRetryAfter, true},
		{"beyond integers", "99999999999999999999", maxRetryAfter, true},
		{"beyond floats", strings.Repeat("9", 400), maxRetryAfter, true},
		{"empty", "", 0, false},
		{"words", "soon", 0, false},
		{"unit", "5s", 0, false},
		{"exponent", "1e3", 0, false},
		{"hexadecimal", "0x10", 0, false},
		{"infinity", "Inf", 0, false},
		{"not a number", "NaN", 0, false},
		{"point alone", ".", 0, false},
		{"sign alone", "-", 0, false},
		{"two points", "1.2.3", 0, false},
		{"underscores", "1_000", 0, false},
		{"decimal comma", "2,5", 0, false},
		{"ISO date", "2026-11-29T10:00:30Z", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := ParseRetryAfter(tt.value, serverDate, received)
			if got != tt.want || ok != tt.ok {
				t.Errorf("ParseRetryAfter(%q) = %s, %t; want %s, %t", tt.value, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestRetryAfterDateIsMeasuredAgainstArrivalWithoutADateHeader(t *testing.T) {
	got, ok := ParseRetryAfter("Sun, 29 Nov 2026 10:05:30 GMT", time.Time{}, received)
	if want := 30 * time.Second; got != want || !ok {
		t.Errorf("got %s, %t; want %s", got, ok, want)
	}
}

func FuzzRetryAfterIsNeverNegativeNorBeyondItsBound(f *testing.F) {
	for _, s := range []string{"60", "2.0", "0.493", "-5", `"2"`, "9223372037", "99999999999999999999", "Sun, 29 Nov 2026 10:00:30 GMT",
		"Sunday, 29-Nov-26 10:00:30 GMT", "Sun Nov 29 10:00:30 2026", "soon", ".", "1e400", "\x00", "１２"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		d, ok := ParseRetryAfter(value, serverDate, received)
		if d < 0 || d > maxRetryAfter {
			t.Errorf("ParseRetryAfter(%q) = %s", value, d)
		}
		if !ok && d != 0 {
			t.Errorf("ParseRetryAfter(%q) = %s without ok", value, d)
		}
		if n := strings.TrimSpace(value); n != "" && digits(n) && !ok {
			t.Errorf("ParseRetryAfter(%q) refuses a whole number", value)
		}
	})
}
