package httpx

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// told tells of the credentials that requests bear, each once while it stays the same.
type told struct {
	conceal func(string)
	mu      sync.Mutex
	last    map[string]string // by header
}

// about looks for what an authorizer has put on a request: with is its header
// after that, without the one before.
func (t *told) about(without, with http.Header) {
	if t.conceal == nil {
		return
	}
	for name, values := range with {
		if len(values) == 0 || slices.Equal(values, without[name]) {
			continue
		}
		t.mu.Lock()
		is := t.last[name] == values[0]
		if t.last == nil {
			t.last = map[string]string{}
		}
		t.last[name] = values[0]
		t.mu.Unlock()
		if !is {
			t.credential(values[0])
		}
	}
}

// credential tells of a header's value, without the name of its scheme, and of the
// last part of what it encodes: a password, or the key of a session.
func (t *told) credential(value string) {
	if scheme, rest, ok := strings.Cut(value, " "); ok && isToken(scheme) {
		value = strings.TrimSpace(rest)
	}
	t.conceal(value)
	plain, err := base64.StdEncoding.DecodeString(value)
	if at := strings.LastIndexByte(string(plain), ':'); err == nil && at >= 0 {
		t.conceal(string(plain[at+1:]))
	}
}
