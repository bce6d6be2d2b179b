package rest

import (
	"fmt"
	"net/url"
	"strings"
)

// nextLink finds the address of rel="next" in Link headers (RFC 8288).
func nextLink(headers []string) (string, error) {
	for _, h := range headers {
		for h != "" {
			var link, params string
			link, params, h = cutLink(h)
			if link == "" {
				break
			}
			if !hasRelNext(params) {
				continue
			}
			if len(link) > maxLink {
				return "", fmt.Errorf("the next page's link has %d bytes, more than %d", len(link), maxLink)
			}
			if _, err := url.Parse(link); err != nil {
				return "", fmt.Errorf("the next page's link cannot be read")
			}
			return link, nil
		}
	}
	return "", nil
}

// cutLink takes the first <address>; parameters off a Link header. Addresses
// may hold commas, and quoted parameters too.
func cutLink(h string) (link, params, rest string) {
	open := strings.IndexByte(h, '<')
	if open < 0 {
		return "", "", ""
	}
	end := strings.IndexByte(h[open:], '>')
	if end < 0 {
		return "", "", ""
	}
	end += open
	link = strings.TrimSpace(h[open+1 : end])
	n := unquotedIndex(h[end+1:], ',')
	rest = h[end+1:]
	return link, rest[:n], strings.TrimPrefix(rest[n:], ",")
}

// unquotedIndex is the index of the first c outside quotes, or the length.
func unquotedIndex(s string, c byte) int {
	quoted := false
	for i := 0; i < len(s); i++ {
		switch {
		case quoted && s[i] == '\\':
			i++
		case s[i] == '"':
			quoted = !quoted
		case !quoted && s[i] == c:
			return i
		}
	}
	return len(s)
}

func hasRelNext(params string) bool {
	for params != "" {
		n := unquotedIndex(params, ';')
		name, value, _ := strings.Cut(params[:n], "=")
		params = strings.TrimPrefix(params[n:], ";")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(rel, "next") {
				return true
			}
		}
	}
	return false
}
