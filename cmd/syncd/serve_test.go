package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/rogpeppe/go-internal/testscript"
)

// cmdServe starts a small API until the script ends: serve VARIABLE.
func cmdServe(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve VARIABLE")
	}
	s := httptest.NewServer(api())
	ts.Defer(s.Close)
	ts.Setenv(args[0], s.URL)
}

// api has an empty listing of orders, refuses customers with a text that repeats
// the credentials it was sent, has no time for what is busy, and knows nothing else.
func api() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"data": []}`)
	})
	mux.HandleFunc("/customers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": %q}`, "not a valid token: "+r.Header.Get("Authorization")+" at "+r.URL.String())
	})
	mux.HandleFunc("/busy", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "600")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	return mux
}
