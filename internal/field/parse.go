package field

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ParseDuration reads a length of time with its unit: the notation of time.ParseDuration without a sign, and d for days of 24 hours.
// "0" needs no unit. Errors do not repeat the text.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if strings.HasPrefix(text, "-") {
		return 0, errors.New("a duration cannot be negative")
	}
	if plainNumber.MatchString(text) {
		return 0, errors.New("a duration needs a unit, for example 30s, 5m or 2h")
	}
	if text == "" || !durationText.MatchString(text) {
		return 0, errors.New("not a duration; write for example 500ms, 30s, 5m, 1h30m or 7d")
	}
	var sum time.Duration
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "", text
	}
	if days != "" {
		n, err := strconv.ParseInt(days, 10, 64)
		if err != nil || n > math.MaxInt64/int64(24*time.Hour) {
			return 0, errors.New("a duration longer than 290 years")
		}
		sum = time.Duration(n) * 24 * time.Hour
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || sum+d < sum {
			return 0, errors.New("a duration longer than 290 years")
		}
		sum += d
	}
	return sum, nil
}

var (
	plainNumber  = regexp.MustCompile(`\A[0-9]+(\.[0-9]+)?\z`)
	durationText = regexp.MustCompile(`\A([0-9]+d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*\z`)
	sizeText     = regexp.MustCompile(`\A([0-9]{1,18}) ?([A-Za-z]*)\z`)
	wholeNumber  = regexp.MustCompile(`\A[+-]?[0-9]+\z`)
	jsonNumber   = regexp.MustCompile(`\A-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\z`)
)

var sizeUnits = map[string]int64{
	"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// ParseSize reads a number of bytes with its unit: 512B, 64KiB, 16MiB, 1GiB, 64kB, 16MB, 1GB. "0" needs no unit. Errors do not
// repeat the text.
func ParseSize(text string) (int64, error) {
	if text == "0" {
		return 0, nil
	}
	m := sizeText.FindStringSubmatch(text)
	if m == nil {
		return 0, errors.New("not a size; write for example 64KiB or 16MiB")
	}
	unit, ok := sizeUnits[m[2]]
	if !ok {
		if m[2] == "" {
			return 0, errors.New("a size needs a unit, for example 64KiB or 16MiB")
		}
		return 0, errors.New("not a unit of size; use B, kB, MB, GB, TB, KiB, MiB, GiB or TiB")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, errors.New("a size too large to count")
	}
	return n * unit, nil
}

func parseString(text string) (string, error) { return text, nil }

func parseBool(text string) (bool, error) {
	switch text {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	switch strings.ToLower(text) {
	case "true", "yes", "on", "y", "1":
		return false, errors.New("only true and false are accepted here; write true")
	case "false", "no", "off", "n", "0":
		return false, errors.New("only true and false are accepted here; write false")
	}
	return false, errors.New("expected true or false")
}

func parseInt[T int | int64](text string) (T, error) {
	if !wholeNumber.MatchString(text) {
		if strings.Contains(text, "_") || strings.HasPrefix(text, "0x") || strings.HasPrefix(text, "0o") || strings.HasPrefix(text, "0b") || jsonNumber.MatchString(text) {
			return 0, errors.New("not a plain whole number; write it in decimal digits alone")
		}
		return 0, errors.New("expected a whole number")
	}
	digits := strings.TrimLeft(text, "+-")
	if len(digits) > 1 && digits[0] == '0' {
		return 0, fmt.Errorf("a number with a leading zero could be meant as octal; write it without")
	}
	n, err := strconv.ParseInt(text, 10, strconv.IntSize)
	if err != nil {
		return 0, errors.New("a number too large to count")
	}
	return T(n), nil
}

func parseFloat(text string) (float64, error) {
	if !jsonNumber.MatchString(text) {
		if d := strings.TrimLeft(text, "+-"); len(d) > 1 && d[0] == '0' && plainNumber.MatchString(d) {
			return 0, errors.New("a number with a leading zero could be meant as octal; write it without")
		}
		return 0, errors.New("expected a number, for example 0.6")
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, errors.New("a number too large to count")
	}
	return f, nil
}

func parseURL(text string) (string, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		// What net/url says quotes parts of the text, which may be a password.
		return "", errors.New("not a URL that can be read; write for example https://erp.example.com, and credentials in their own fields")
	case u.User != nil:
		return "", errors.New("a URL must not hold a user name or password; give credentials in their own fields")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("a URL must begin with https:// (or http://)")
	case u.Host == "" || u.Hostname() == "":
		return "", errors.New("a URL needs a host name, for example https://erp.example.com")
	case u.Fragment != "":
		return "", errors.New("a URL must not have a part after #")
	}
	return text, nil
}

func less[T cmp.Ordered](a, b T) bool { return a < b }
