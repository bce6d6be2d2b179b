package httpx

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"syncd/connectors/conformance/hostile"
)

func TestReadFollowsRedirectsWithinItsOrigin(t *testing.T) {
	var tokens []string
	mux := http.NewServeMux()
	mux.HandleFunc("/a", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/b?page=2#x", http.StatusFound) })
	mux.HandleFunc("/b", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "c/", http.StatusPermanentRedirect) })
	mux.HandleFunc("/c/", func(w http.ResponseWriter, r *http.Request) {
		tokens = append(tokens, r.Header.Get("X-Access-Token")+" "+r.Header.Get("X-Ref"))
		_, _ = fmt.Fprint(w, `{}`)
	})
	for _, method := range []string{"GET", "HEAD"} {
		c, g := newClient(t, newDirect(t, mux), func(o *Options) { o.Auth = Header("X-Access-Token", secret("T")) })
		resp, err := c.Do(t.Context(), &Request{Method: method, Path: "a", Header: http.Header{"X-Ref": {"7"}}})
		if ok(t, resp, err); g.waits != 3 || len(g.signals()) != 3 {
			t.Errorf("%d times at the gate, %d answers shown", g.waits, len(g.signals()))
		}
	}
	if strings.Join(tokens, ",") != "T 7,T 7" {
		t.Errorf("headers at the end: %q", tokens)
	}
}

func TestRedirectsInALoopEnd(t *testing.T) {
	times := 0
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		times++
		http.Redirect(w, r, "/again?token=CANARY", http.StatusFound)
	})), nil)
	_, err := c.Do(t.Context(), &Request{Path: "a"})
	e := wantError(t, err, Redirect, "too_many_redirects")
	if times != maxRedirects+1 || strings.Contains(e.Error(), canary) {
		t.Errorf("%d requests, error %v", times, e)
	}
}

func TestRedirectErrorNamesTheURLToConfigure(t *testing.T) {
	redirectTo := func(status int, location string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(status)
		})
	}
	tests := []struct {
		name     string
		status   int
		location string
		r        Request
		want     string // after the client, method and path; BASE is the server
	}{
		{"write to another host", 301, "https://www.shop.test/orders?key=CANARY", *write("/orders", "{}"),
			"the answer is 301 Moved Permanently and points to https://www.shop.test/orders; requests and credentials stay at BASE. If it is the right place, set url to https://www.shop.test"},
		{"read to another host", 302, "https://user:CANARY@www.shop.test/orders", Request{Path: "/orders"},
			"the answer is 302 Found and points to https://www.shop.test/orders; requests and credentials stay at BASE. If it is the right place, set url to https://www.shop.test"},
		{"write within the host", 308, "/orders/", *write("/orders", "{}"),
			"the answer is 308 Permanent Redirect and points to BASE/orders/, where a POST is not repeated. If that is the right place, change the url or the path"},
		{"query by POST within the host", 307, "/orders/", Request{Method: "POST", Path: "/orders"},
			"the answer is 307 Temporary Redirect and points to BASE/orders/, where a POST is not repeated. If that is the right place, change the url or the path"},
		{"write answered with an odd 3xx", 300, "", *write("/orders", "{}"),
			"the answer is 300 Multiple Choices, without a Location; check the client's url"},
		{"write answered with 304", 304, "", *write("/orders", "{}"),
			"the answer is 304 Not Modified, without a Location; check the client's url"},
		{"broken location", 302, "http://[::1", Request{Path: "/orders"},
			"the answer is 302 Found, with a Location that cannot be read; check the client's url"},
		{"file", 302, "file:///etc/passwd", Request{Path: "/orders"},
			"the answer is 302 Found and points to file:///etc/passwd; requests and credentials stay at BASE. If it is the right place, set url to file:"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			base := newDirect(t, redirectTo(tt.status, tt.location))
			c, _ := newClient(t, base, nil)
			_, err := c.Do(t.Context(), &tt.r)
			e := wantError(t, err, Redirect, "redirect")
			_, said, _ := strings.Cut(e.Error(), " /orders: ")
			if got := strings.ReplaceAll(said, base, "BASE"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if !e.Sent || e.Status != tt.status {
				t.Errorf("sent %t, status %d", e.Sent, e.Status)
			}
		})
	}
}

func TestCredentialsStayAtSchemeHostAndPort(t *testing.T) {
	evil := hostile.Wrap(answerer(200, "{}"))
	defer evil.Close()
	_, port, err := net.SplitHostPort(strings.TrimPrefix(evil.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t)
	secure := ca.serve(t, &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, nil)
	places := map[string]string{
		"another port":  "http://127.0.0.1:" + port,
		"another host":  "http://localhost:" + port,
		"another IP":    "http://127.0.0.2:" + port,
		"HTTP to HTTPS": secure,
	}
	for name, place := range places {
		for _, status := range []int{301, 302, 303, 307, 308} {
			for _, isWrite := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %d, write %t", name, status, isWrite), func(t *testing.T) {
					good := newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						http.Redirect(w, r, place+"/orders", status)
					}))
					c, _ := newClient(t, good, func(o *Options) { o.Auth = Bearer(secret("T")) })
					r := &Request{Path: "orders", Header: http.Header{"X-Access-Token": {"T"}}}
					if isWrite {
						r.Method, r.Write, r.Body = "POST", true, []byte("{}")
					}
					_, err := c.Do(t.Context(), r)
					var e *Error
					if !errors.As(err, &e) || e.Kind != Redirect {
						t.Errorf("got %v", err)
					}
				})
			}
		}
	}
	if l := evil.Log(); len(l) > 0 {
		t.Errorf("the other server received %+v", l)
	}
}
