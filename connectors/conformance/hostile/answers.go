package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
)

const (
	gatewayPage     = "<!DOCTYPE html>\n<html><head><title>Bad gateway</title></head><body>Bad gateway</body></html>\n"
	maintenancePage = "<!DOCTYPE html>\n<html><body>We'll be back soon</body></html>\n"
	blockPage       = "<!DOCTYPE html>\n<html><body>Request blocked</body></html>\n"
	warning         = "<br />\n<b>Warning</b>: Declaration of X::y() should be compatible in /srv/z.php on line <b>110</b><br />\n"

	// bombSize is what the bomb and the huge body come to, in bytes.
	bombSize = 256 << 20
)

func filler(n int) string { return strings.Repeat("a", n) }

func garbledAnswers() []Fault {
	// after answers 200 with a damaged body once the work is done.
	after := func(name, doc string, damage func(whole []byte) []byte) Fault {
		return Fault{Name: name, Doc: doc, Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			b := damage(x.handle().bytes())
			say(x.w, 200, http.Header{"Content-Type": {"application/json"}}, string(b))
		}}
	}
	fine := func(f Fault) Fault { f.Garbled = false; return f }
	return []Fault{
		{Name: "html", Doc: "answers 200 with a page, without doing anything", Status: 200, Garbled: true, play: func(x *exchange) {
			say(x.w, 200, http.Header{"Content-Type": {"text/html"}}, maintenancePage)
		}},
		after("html_after", "does its work and answers 200 with a page", func([]byte) []byte { return []byte(maintenancePage) }),
		after("warning_first", "does its work and prints a warning before its answer", func(b []byte) []byte { return append([]byte(warning), b...) }),
		after("rubbish_last", "does its work and prints a notice after its answer", func(b []byte) []byte {
			return append(bytes.Clone(b), "\n<br />PHP Notice"...)
		}),
		after("second_value", "does its work and answers twice in one body", func(b []byte) []byte { return append(append(bytes.Clone(b), '\n'), b...) }),
		{Name: "empty", Doc: "answers 200 with an empty body, without doing anything", Status: 200, Garbled: true, play: func(x *exchange) {
			say(x.w, 200, nil, "")
		}},
		after("empty_after", "does its work and answers 200 with an empty body", func([]byte) []byte { return nil }),
		after("truncated_json", "does its work and answers half of its JSON as if it were all", func(b []byte) []byte { return b[:len(b)/2] }),
		fine(after("byte_order_mark", "answers with a byte-order mark first", func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) })),
		fine(after("blank_lines", "answers with blank lines first", func(b []byte) []byte { return append([]byte("\n\r\n"), b...) })),
		{Name: "wrong_type", Doc: "answers properly and calls it text/html", Handles: true, Status: 200, play: func(x *exchange) {
			say(x.w, 200, http.Header{"Content-Type": {"text/html; charset=UTF-8"}}, string(x.handle().bytes()))
		}},
		{Name: "huge", Doc: "does its work and answers with 256 MiB", Handles: true, Status: 200, Garbled: true, play: func(x *exchange) {
			x.handle()
			x.w.Header().Set("Content-Type", "application/json")
			part := []byte(filler(1 << 20))
			_, _ = x.w.Write([]byte{'"'})
			for range bombSize / len(part) {
				if _, err := x.w.Write(part); err != nil {
					return
				}
			}
			_, _ = x.w.Write([]byte{'"'})
		}},
	}
}

func compressedAnswers() []Fault {
	zipped := func(name, doc string, garbled bool, coding string, body func(whole []byte) []byte) Fault {
		return Fault{Name: name, Doc: doc, Handles: true, Status: 200, Garbled: garbled, play: func(x *exchange) {
			b := body(x.handle().bytes())
			say(x.w, 200, http.Header{"Content-Type": {"application/json"}, "Content-Encoding": {coding}}, string(b))
		}}
	}
	return []Fault{
		zipped("gzip", "answers properly with gzip, asked for or not", false, "gzip", compressed),
		zipped("gzip_plain", "says gzip and answers plain", true, "gzip", func(b []byte) []byte { return b }),
		zipped("gzip_truncated", "answers with half of a gzip stream as if it were all", true, "gzip", func(b []byte) []byte {
			z := compressed(b)
			return z[:len(z)/2]
		}),
		zipped("gzip_damaged", "answers with a gzip stream whose checksum is wrong", true, "gzip", func(b []byte) []byte {
			z := compressed(b)
			z[len(z)-8] ^= 0xff
			return z
		}),
		zipped("gzip_bomb", "answers with little that expands to 256 MiB", true, "gzip", func([]byte) []byte { return bomb() }),
		zipped("unknown_coding", "answers in a coding that nobody asked for", true, "br", func(b []byte) []byte { return b }),
	}
}

func compressed(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	_, _ = w.Write(b)
	_ = w.Close()
	return z.Bytes()
}

// bomb is a JSON text of bombSize bytes in as little as possible: gzip streams
// can be joined end to end.
func bomb() []byte {
	part := compressed([]byte(filler(1 << 20)))
	z := bytes.Repeat(part, bombSize>>20)
	return append(append(compressed([]byte{'"'}), z...), compressed([]byte{'"'})...)
}

func redirects() []Fault {
	var l []Fault
	for _, status := range []int{301, 302, 303, 307, 308} {
		l = append(l, Fault{Name: fmt.Sprintf("redirect_%d", status), Doc: fmt.Sprintf("redirects to another host with %d", status), Status: status,
			play: func(x *exchange) {
				x.w.Header().Set("Location", x.srv.otherURL+x.r.URL.RequestURI())
				x.w.WriteHeader(status)
			}})
	}
	return append(l,
		Fault{Name: "redirect_303_after", Doc: "does its work and redirects to another host", Handles: true, Status: 303, play: func(x *exchange) {
			x.handle()
			x.w.Header().Set("Location", x.srv.otherURL+x.r.URL.RequestURI())
			x.w.WriteHeader(303)
		}},
		Fault{Name: "redirect_same_host", Doc: "redirects to the same place with 307", Status: 307, play: func(x *exchange) {
			x.w.Header().Set("Location", x.r.URL.RequestURI())
			x.w.WriteHeader(307)
		}},
		Fault{Name: "redirect_nowhere", Doc: "redirects without a Location", Status: 302, play: func(x *exchange) {
			x.w.WriteHeader(302)
		}})
}
