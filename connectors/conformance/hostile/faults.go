package hostile

import (
	"fmt"
	"net/http"
	"time"
)

// Fault is one way to misbehave.
type Fault struct {
	// Name is unique and stable.
	Name string
	// Doc says in words what happens.
	Doc string
	// Handles says that the wrapped handler does its work: a write takes effect.
	Handles bool
	// Status is the status the client gets to see, 0 when it gets none.
	Status int
	// Garbled says that the answer under Status is not what the handler meant, or
	// does not arrive whole.
	Garbled bool

	play func(x *exchange)
}

// Faults lists every fault there is, always in the same order.
func Faults() []Fault {
	var l []Fault
	l = append(l, brokenConnections()...)
	l = append(l, garbledAnswers()...)
	l = append(l, compressedAnswers()...)
	l = append(l, redirects()...)
	l = append(l, refusals()...)
	l = append(l, throttles()...)
	l = append(l, failures()...)
	return l
}

// Named returns the fault of that name. It panics when there is none.
func Named(name string) Fault {
	for _, f := range Faults() {
		if f.Name == name {
			return f
		}
	}
	panic(fmt.Sprintf("hostile: there is no fault %q", name))
}

func brokenConnections() []Fault {
	return []Fault{
		{Name: "hang_before", Doc: "does nothing and answers nothing, until the client goes", play: func(x *exchange) {
			x.hang()
		}},
		{Name: "hang_after", Doc: "does its work and answers nothing, until the client goes", Handles: true, play: func(x *exchange) {
			x.handle()
			x.hang()
		}},
		{Name: "reset_before", Doc: "resets the connection without doing anything", play: func(x *exchange) {
			reset(x.conn())
		}},
		{Name: "reset_after", Doc: "does its work and resets the connection", Handles: true, play: func(x *exchange) {
			x.handle()
			reset(x.conn())
		}},
		{Name: "close_before", Doc: "closes the connection without doing anything", play: func(x *exchange) {
			_ = x.conn().Close()
		}},
		{Name: "close_after", Doc: "does its work and closes the connection", Handles: true, play: func(x *exchange) {
			x.handle()
			_ = x.conn().Close()
		}},
		{Name: "cut_header", Doc: "does its work and closes the connection within the header", Handles: true, play: func(x *exchange) {
			x.handle()
			x.raw("HTTP/1.1 200 OK\r\nContent-Type: applic")
		}},
		{Name: "not_http", Doc: "does its work and answers something that is not HTTP", Handles: true, play: func(x *exchange) {
			x.handle()
			x.raw("220 mail.example.com ESMTP ready\r\n")
		}},
		{Name: "huge_header", Doc: "does its work and answers with a header of 2 MiB, more than a client takes", Handles: true, play: func(x *exchange) {
			x.handle()
			x.raw("HTTP/1.1 200 OK\r\nX-Filler: " + filler(2<<20) + "\r\nContent-Length: 2\r\n\r\n{}")
		}},
		{Name: "cut_body", Doc: "does its work and closes the connection in the middle of the body", Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			b := x.handle().bytes()
			x.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(b), b[:len(b)/2]))
		}},
		{Name: "cut_chunk", Doc: "does its work and closes the connection before the last chunk", Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			b := x.handle().bytes()
			x.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(b), b))
		}},
		{Name: "reset_body", Doc: "does its work and resets the connection in the middle of the body", Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			b := x.handle().bytes()
			c := x.conn()
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(b), b[:len(b)/2])
			reset(c)
		}},
		{Name: "slow_header", Doc: "does its work and sends its header byte by byte, without end", Handles: true, play: func(x *exchange) {
			x.handle()
			x.drip("HTTP/1.1 200 OK\r\nX-Filler: ")
		}},
		{Name: "slow_body", Doc: "does its work and sends its body byte by byte, without end", Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			x.handle()
			x.drip("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n\"")
		}},
		{Name: "close_idle", Doc: "does its work, answers properly, and closes the connection without a word", Handles: true, Status: 200, play: func(x *exchange) {
			b := x.handle().bytes()
			x.raw(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(b), b))
		}},
	}
}

// raw sends bytes as they are and closes the connection.
func (x *exchange) raw(s string) {
	c := x.conn()
	_, _ = c.Write([]byte(s))
	_ = c.Close()
}

// drip sends a beginning and then a byte at a time, until the client has gone or
// the server is closed.
func (x *exchange) drip(s string) {
	c := x.conn()
	defer func() { _ = c.Close() }()
	if _, err := c.Write([]byte(s)); err != nil {
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-x.srv.closed:
			return
		case <-tick.C:
			if _, err := c.Write([]byte{'x'}); err != nil {
				return
			}
		}
	}
}

func refusals() []Fault {
	var l []Fault
	for _, status := range []int{400, 401, 402, 403, 404, 405, 409, 412, 413, 415, 422, 423, 425, 428} {
		l = append(l, says(fmt.Sprintf("status_%d", status), fmt.Sprintf("refuses with %d and a JSON body", status), status, nil,
			fmt.Sprintf(`{"error":{"status":%d,"message":"refused"}}`, status)))
	}
	return append(l,
		says("status_403_html", "refuses with 403 and a firewall's page", 403, http.Header{"Content-Type": {"text/html"}}, blockPage),
		says("status_501", "refuses with 501", 501, nil, `{"error":"not implemented"}`))
}

func throttles() []Fault {
	var l []Fault
	for _, t := range []struct{ name, value string }{
		{"throttled_seconds", "2"},
		{"throttled_decimal", "2.0"},
		{"throttled_negative", "-5"},
		{"throttled_past", "Wed, 21 Oct 2015 07:28:00 GMT"},
		{"throttled_huge", "9999999999"},
		{"throttled_overflow", "9223372036854775807"},
		{"throttled_rubbish", "soon"},
	} {
		l = append(l, says(t.name, fmt.Sprintf("refuses with 429 and Retry-After: %s", t.value), 429,
			http.Header{"Retry-After": {t.value}}, `{"error":"too many requests"}`))
	}
	return append(l,
		says("throttled_bare", "refuses with 429 and nothing else", 429, nil, ""),
		Fault{Name: "throttled_date", Doc: "refuses with 429 and a date 30 s after its own", Status: 429, play: func(x *exchange) {
			// Its clock is an hour slow: only the difference means anything.
			now := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
			x.w.Header().Set("Date", now.Format(http.TimeFormat))
			x.w.Header().Set("Retry-After", now.Add(30*time.Second).Format(http.TimeFormat))
			x.w.WriteHeader(429)
		}},
		says("status_509", "refuses with 509, a used up quota", 509, nil, ""),
	)
}

func failures() []Fault {
	html := http.Header{"Content-Type": {"text/html"}}
	l := []Fault{
		says("fail_408", "gives up reading the request", 408, nil, ""),
		says("fail_500", "fails before its work", 500, nil, `{"error":"internal"}`),
		{Name: "fail_500_after", Doc: "does its work and then fails", Handles: true, Status: 500, play: func(x *exchange) {
			x.handle()
			say(x.w, 500, nil, `{"error":"internal"}`)
		}},
		says("fail_502", "is a gateway that cannot reach its server", 502, html, gatewayPage),
		says("fail_503", "is overloaded", 503, html, maintenancePage),
		says("fail_503_seconds", "is overloaded for 2 s", 503, http.Header{"Content-Type": {"text/html"}, "Retry-After": {"2"}}, maintenancePage),
		says("fail_503_rubbish", "is overloaded, until when is not to be read", 503, http.Header{"Retry-After": {"later"}}, ""),
		{Name: "fail_504_after", Doc: "is a gateway that did not wait for its server's work", Handles: true, Status: 504, play: func(x *exchange) {
			x.handle()
			say(x.w, 504, html, gatewayPage)
		}},
	}
	for status := 520; status <= 524; status++ {
		l = append(l, says(fmt.Sprintf("fail_%d", status), fmt.Sprintf("is a content network that answers %d", status), status, html, gatewayPage))
	}
	return l
}

// says makes a fault that answers without doing anything.
func says(name, doc string, status int, h http.Header, body string) Fault {
	return Fault{Name: name, Doc: doc, Status: status, play: func(x *exchange) { say(x.w, status, h, body) }}
}

func say(w http.ResponseWriter, status int, h http.Header, body string) {
	if body != "" {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, v := range h {
		w.Header()[name] = v
	}
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}
