package httpx

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// sent is a server that answers with bytes of a type, under a status.
func sent(t *testing.T, status int, contentType, body string, change func(*Options)) *Client {
	t.Helper()
	c, _ := newClient(t, newDirect(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})), change)
	return c
}

func TestAnswerInAnotherCharsetIsReadAsWhatItSays(t *testing.T) {
	for _, tt := range []struct{ charset, sent, want string }{
		{"iso-8859-1", "M\xfcller", "Müller"},
		{"ISO-8859-1", "Müller", "Müller"}, // a name by default, and UTF-8
		{"us-ascii", "Müller", "Müller"},
		{"windows-1252", "5 \x80", "5 €"},
		{"iso-8859-15", "5 \xa4", "5 €"},
		{"'latin1'", "M\xfcller", "Müller"},
		{"windows-1251", "\xcc\xee\xf1\xea\xe2\xe0", "Москва"},
		{"koi8-r", "\xed\xcf\xd3\xcb\xd7\xc1", "Москва"},
		{"Shift_JIS", "\x93\x8c\x8b\x9e", "東京"},
		{"gb18030", "\xb1\xb1\xbe\xa9", "北京"},
		{"gb18030", "\x84\x31\xa4\x37", "\uFFFD"}, // the text's own
		{"big5", "\xa5\x78\xa5\x5f", "台北"},
		{"utf-8", "Müller", "Müller"},
		{"utf8mb4", "Müller", "Müller"},
		{"", "Müller", "Müller"},
	} {
		t.Run(tt.charset+" "+tt.want, func(t *testing.T) {
			resp, err := sent(t, 200, `application/json; charset=`+tt.charset, `{"name":"`+tt.sent+`"}`, nil).JSON(t.Context(), &Request{})
			ok(t, resp, err)
			if want := `{"name":"` + tt.want + `"}`; string(resp.Body) != want {
				t.Errorf("read %q, want %q", resp.Body, want)
			}
		})
	}
	for _, body := range []string{"\xff\xfe{\x00\"\x00n\x00\"\x00:\x00\"\x00\xfc\x00\"\x00}\x00", "\xfe\xff\x00{\x00\"\x00n\x00\"\x00:\x00\"\x00\xfc\x00\"\x00}"} {
		resp, err := sent(t, 200, `application/json; charset=utf-16`, body, nil).JSON(t.Context(), &Request{})
		if ok(t, resp, err); string(resp.Body) != `{"n":"ü"}` {
			t.Errorf("read %q", resp.Body)
		}
	}
}

func TestAnswerInACharsetThatCannotBeReadIsRefused(t *testing.T) {
	for _, tt := range []struct{ name, charset, sent, says string }{
		{"not known", "ebcdic-cp-de", "x", "the charset ebcdic-cp-de, which cannot be read; have the server send UTF-8"},
		{"not known, and seemingly harmless", "utf-7", "M+APw-ller", "the charset utf-7, which cannot be read"},
		{"given up", "iso-2022-kr", "x", "the charset iso-2022-kr, which cannot be read"},
		{"no proper name", `"a b"`, "x", "a charset of no proper name"},
		{"bytes that are not of it", "shift_jis", "\x93\xff", "the charset shift_jis and holds bytes that are not"},
		{"bytes that mean nothing", "gb18030", "\xff", "the charset gb18030 and holds bytes that are not"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := sent(t, 200, `application/json; charset=`+tt.charset, `{"name":"`+tt.sent+`"}`, nil)
			_, err := c.JSON(t.Context(), &Request{})
			if e := wantError(t, err, BadBody, "charset"); !strings.Contains(e.Error(), tt.says) {
				t.Errorf("the error is %v", e)
			}
			_, err = c.JSON(t.Context(), write("/orders", "{}"))
			wantError(t, err, Unknown, "charset")
			// Who does not read the body is not troubled by it.
			resp, err := c.Do(t.Context(), write("/orders", "{}"))
			ok(t, resp, err)
		})
	}
	_, err := sent(t, 422, `application/json; charset=ebcdic-cp-de`, `{}`, nil).JSON(t.Context(), &Request{})
	wantError(t, err, Status, "http_422")
}

func TestNothingOfAnAnswerIsLogged(t *testing.T) {
	const marker = "Mustermann"
	types := []string{"", "application/json", "text/html; charset=utf-8", "application/json; charset=ebcdic", "application/json; charset=gb18030", "text/" + marker, "application/" + marker + "+json", marker}
	bodies := []string{marker, "<p>" + marker, `{"name":"` + marker, `["` + marker + `"] x`, `"` + marker, "\xff" + marker, "\x00" + marker, " \n" + marker, "7" + marker, "$" + marker, `{"error":"` + marker + `"}`}
	for _, status := range []int{200, 201, 302, 400, 401, 404, 422, 429, 500, 503} {
		for _, contentType := range types {
			for _, body := range bodies {
				for _, isWrite := range []bool{false, true} {
					var log bytes.Buffer
					c := sent(t, status, contentType, body, func(o *Options) {
						o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
					})
					_, err := c.JSON(t.Context(), &Request{Path: "/orders", Write: isWrite})
					c.Close()
					if err != nil && log.Len() == 0 {
						t.Fatal("a failure is not logged")
					}
					if err != nil && strings.Contains(err.Error(), marker) || strings.Contains(strings.ToLower(log.String()), strings.ToLower(marker)) {
						t.Fatalf("%d, %q, %q: %v\n%s", status, contentType, body, err, &log)
					}
				}
			}
		}
	}
}
