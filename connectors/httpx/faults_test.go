package httpx

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"syncd/connectors/conformance/hostile"
	"syncd/ratelimit"
)

// verdict is what a fault must look like to the caller; an empty kind is a success.
type verdict struct {
	kind Kind
	code string
}

// faultVerdicts says for each fault what a read and what a write must come to.
func faultVerdicts() map[string][2]verdict {
	both := func(k Kind, code string) [2]verdict { return [2]verdict{{k, code}, {k, code}} }
	fine := [2]verdict{}
	// An answer that makes no sense fails a read and leaves a write in doubt.
	senseless := func(code string) [2]verdict { return [2]verdict{{BadBody, code}, {Unknown, code}} }
	v := map[string][2]verdict{
		"hang_before":  both(Unknown, "timeout"),
		"hang_after":   both(Unknown, "timeout"),
		"reset_before": both(Unknown, "reset"),
		"reset_after":  both(Unknown, "reset"),
		"close_before": both(Unknown, "closed"),
		"close_after":  both(Unknown, "closed"),
		"cut_header":   both(Unknown, "closed"),
		"not_http":     both(Unknown, "protocol"),
		"huge_header":  both(Unknown, "protocol"),
		"cut_body":     both(Unknown, "cut"),
		"cut_chunk":    both(Unknown, "cut"),
		"reset_body":   both(Unknown, "reset"),
		"slow_header":  both(Unknown, "timeout"),
		"slow_body":    both(Unknown, "timeout"),
		"close_idle":   fine,

		"html":            senseless("not_json"),
		"html_after":      senseless("not_json"),
		"warning_first":   senseless("not_json"),
		"rubbish_last":    senseless("not_json"),
		"second_value":    senseless("not_json"),
		"truncated_json":  senseless("not_json"),
		"empty":           senseless("empty_body"),
		"empty_after":     senseless("empty_body"),
		"byte_order_mark": fine,
		"blank_lines":     fine,
		"wrong_type":      fine,
		"huge":            {{TooLarge, "too_large"}, {Unknown, "too_large"}},

		"gzip":           fine,
		"gzip_plain":     senseless("gzip"),
		"gzip_truncated": senseless("gzip"),
		"gzip_damaged":   senseless("gzip"),
		"gzip_bomb":      {{TooLarge, "too_large"}, {Unknown, "too_large"}},
		"unknown_coding": senseless("encoding"),

		"redirect_303_after": both(Redirect, "redirect"),
		"redirect_same_host": {{}, {Redirect, "redirect"}},
		"redirect_nowhere":   both(Redirect, "redirect"),

		"status_401":      both(Auth, "http_401"),
		"status_403_html": both(Status, "http_403"),
		"status_501":      both(Status, "http_501"),
		"status_509":      both(Throttled, "throttled"),

		"fail_500_after":   both(Unknown, "http_500"),
		"fail_503_seconds": both(Unknown, "http_503"),
		"fail_503_rubbish": both(Unknown, "http_503"),
		"fail_504_after":   both(Unknown, "http_504"),
	}
	for _, status := range []int{301, 302, 303, 307, 308} {
		v[fmt.Sprintf("redirect_%d", status)] = both(Redirect, "redirect")
	}
	for _, status := range []int{400, 402, 403, 404, 405, 409, 412, 413, 415, 422, 423, 425, 428} {
		v[fmt.Sprintf("status_%d", status)] = both(Status, statusCode(status))
	}
	for _, how := range []string{"seconds", "decimal", "negative", "past", "huge", "overflow", "rubbish", "bare", "date"} {
		v["throttled_"+how] = both(Throttled, "throttled")
	}
	for _, status := range []int{408, 500, 502, 503, 520, 521, 522, 523, 524} {
		v[fmt.Sprintf("fail_%d", status)] = both(Unknown, statusCode(status))
	}
	return v
}

const canary = "CANARY"

func TestEveryFaultOfAServerIsSeenForWhatItIs(t *testing.T) {
	verdicts := faultVerdicts()
	for _, f := range hostile.Faults() {
		want, known := verdicts[f.Name]
		if !known {
			t.Errorf("no verdict on fault %s", f.Name)
			continue
		}
		for i, what := range []string{"read", "write"} {
			t.Run(f.Name+"/"+what, func(t *testing.T) {
				t.Parallel() // some end by a timeout only
				meetFault(t, f, what == "write", want[i])
			})
		}
	}
}

func meetFault(t *testing.T, f hostile.Fault, isWrite bool, want verdict) {
	var effects atomic.Int32
	srv := hostile.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		effects.Add(1)
		answerer(http.StatusCreated, `{"id":12,"name":"green tea"}`).ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c, g := newClient(t, srv.URL, func(o *Options) {
		o.Auth = Header("X-Access-Token", secret(canary))
		o.MaxBody = 1 << 20
		if strings.HasPrefix(f.Name, "hang") || strings.HasPrefix(f.Name, "slow") {
			o.Timeout = 2 * time.Second
		}
	})
	r := &Request{Path: "/orders", Query: map[string][]string{"consumer_secret": {canary}}}
	if isWrite {
		r.Method, r.Write, r.Body, r.Header = "POST", true, []byte(`{"ref":"`+canary+`"}`), http.Header{"Idempotency-Key": {canary}}
	}
	if isWrite { // on a connection that was used before net/http is tempted to repeat
		if _, err := c.JSON(t.Context(), &Request{Path: "/first"}); err != nil {
			t.Fatal(err)
		}
		effects.Store(0)
	}
	srv.Next(f)
	resp, err := c.JSON(t.Context(), r)

	if want.kind == "" {
		ok(t, resp, err)
		if got := string(resp.Body); got != `{"id":12,"name":"green tea"}` {
			t.Errorf("body %q", got)
		}
	} else {
		checkFailure(t, f, isWrite, want, err)
	}
	checkWire(t, srv, f, isWrite, int(effects.Load()))
	checkGate(t, g, f)
}

func checkFailure(t *testing.T, f hostile.Fault, isWrite bool, want verdict, err error) {
	t.Helper()
	e := wantError(t, err, want.kind, want.code)
	if wantSent := want.kind != Auth; e.Sent != wantSent {
		t.Errorf("sent: %t, want %t", e.Sent, wantSent)
	}
	if e.Write != isWrite || e.Client != "shop" || e.Path != "/orders" || e.Status != f.Status && want.code != "reset" {
		t.Errorf("error is %+v", e)
	}
	if (e.Response() != nil) != (e.Status != 0) {
		t.Errorf("status %d, response %v", e.Status, e.Response())
	}
	if len(e.Shape) > 100 || strings.ContainsAny(e.Shape, "\n\r\x1b\x00") {
		t.Errorf("shape %q", e.Shape)
	}
	for _, text := range []string{e.Error(), fmt.Sprintf("%v %+v", e, e), fmt.Sprint(e.Unwrap())} {
		if strings.Contains(text, canary) {
			t.Errorf("the error tells a secret: %s", text)
		}
	}
}

// checkWire looks at what the server saw: a write once, nothing elsewhere.
func checkWire(t *testing.T, srv *hostile.Server, f hostile.Fault, isWrite bool, effects int) {
	t.Helper()
	if l := srv.Elsewhere(); len(l) > 0 {
		t.Errorf("another host received %+v", l)
	}
	times := 0
	for _, e := range srv.Log() {
		if e.Path == "/orders" {
			times++
		}
	}
	want := 1
	if !isWrite && f.Name == "redirect_same_host" {
		want = 2
	}
	if times != want {
		t.Errorf("%d requests on the wire, want %d", times, want)
	}
	if isWrite {
		wantEffects := 0
		if f.Handles {
			wantEffects = 1
		}
		if effects != wantEffects {
			t.Errorf("%d effects, want %d", effects, wantEffects)
		}
	}
}

func checkGate(t *testing.T, g *gate, f hostile.Fault) {
	t.Helper()
	pauses := 0
	for _, s := range g.signals() {
		if s.Pauses() {
			pauses++
		}
	}
	want := 0
	if f.Status == 429 || f.Status == 509 || f.Name == "fail_503_seconds" {
		want = 1
	}
	if pauses != want {
		t.Errorf("the gate was shown %d signals to pause, want %d", pauses, want)
	}
}

func TestRetryAfterReachesTheCaller(t *testing.T) {
	tests := []struct {
		fault string
		want  time.Duration
	}{
		{"throttled_seconds", 2 * time.Second},
		{"throttled_decimal", 2 * time.Second},
		{"throttled_date", 30 * time.Second},
		{"throttled_past", 0},
		{"throttled_negative", 0},
		{"throttled_rubbish", 0},
		{"throttled_bare", 0},
		{"fail_503_seconds", 2 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			srv := hostile.Wrap(answerer(200, "{}"))
			defer srv.Close()
			c, g := newClient(t, srv.URL, nil)
			srv.Next(hostile.Named(tt.fault))
			_, err := c.Do(t.Context(), write("/orders", "{}"))
			e, isError := err.(*Error)
			if !isError || e.RetryAfter != tt.want {
				t.Errorf("error %v, want to wait %s", err, tt.want)
			}
			if s := g.signals(); len(s) != 1 || s[0].RetryAfter != tt.want {
				t.Errorf("gate was shown %+v", s)
			}
		})
	}
}

func TestServerCanHaveNobodyWaitLongerThanTheGateAllows(t *testing.T) {
	for _, status := range []int{409, 429, 500, 503} {
		for _, most := range []time.Duration{10 * time.Minute, 48 * time.Hour} {
			t.Run(fmt.Sprintf("%d, at most %s", status, most), func(t *testing.T) {
				const asked = 36 * time.Hour
				c, g := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Retry-After", fmt.Sprint(asked.Seconds()))
					w.WriteHeader(status)
				})), nil)
				g.most = most
				_, err := c.Do(t.Context(), write("/orders", "{}"))
				if e, isError := err.(*Error); !isError || e.RetryAfter != min(asked, most) {
					t.Errorf("error %v, want to wait %s", err, min(asked, most))
				}
				if s := g.signals(); len(s) != 1 || s[0].RetryAfter != asked {
					t.Errorf("gate was shown %+v, which is to say what the server asked for", s)
				}
			})
		}
	}
}

func TestThrottlingIsKnownBeforeASlowBodyIsRead(t *testing.T) {
	seen := make(chan struct{})
	direct := newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
		_ = http.NewResponseController(w).Flush() // and no body before the gate knows
		select {
		case <-seen:
		case <-r.Context().Done():
			t.Error("the client gave up before its gate knew")
		}
	}))
	c, g := newClient(t, direct, nil)
	g.onShow = func(s ratelimit.Signal) {
		if s.Throttled {
			close(seen)
		}
	}
	_, err := c.Do(t.Context(), &Request{})
	wantError(t, err, Throttled, "throttled")
}

func TestCancelledCallerIsTold(t *testing.T) {
	tests := []struct {
		name  string
		write bool
		kind  Kind
	}{
		{"read", false, Canceled},
		{"write", true, Unknown},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := hostile.Wrap(answerer(200, "{}"))
			defer srv.Close()
			c, _ := newClient(t, srv.URL, nil)
			ctx, cancel := context.WithCancel(t.Context())
			// The server has the request whole when it looks for a fault.
			srv.Next(hostile.Named("hang_after"), func(*http.Request) bool { cancel(); return true })
			_, err := c.Do(ctx, &Request{Method: "POST", Write: tt.write, Body: []byte("{}")})
			e := wantError(t, err, tt.kind, "canceled")
			if !e.Sent || e.Unwrap() != context.Canceled {
				t.Errorf("sent %t, cause %v", e.Sent, e.Unwrap())
			}
		})
	}
}
