package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

var testKey = []byte("0123456789abcdef01234567")

// The vector of the standard's own libraries, for instance
// https://github.com/standard-webhooks/standard-webhooks/blob/main/libraries/go/webhook_test.go.
func TestSignatureIsThatOfTheStandard(t *testing.T) {
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	if got := sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`)); got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

func TestSecretsThatAreNoneAreRefusedAndNotRepeated(t *testing.T) {
	for name, text := range map[string]string{
		"empty": "", "no prefix": "Q0FOQVJZQ0FOQVJZQ0FOQVJZQ0FOQVJZ", "not base64": "whsec_CANARY!!",
		"short": "whsec_Q0FOQVJZ", "long": "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)),
	} {
		_, err := ParseSecret(text)
		if err == nil {
			t.Errorf("%s: accepted", name)
		} else if strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "Q0FO") {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
	for _, n := range []int{24, 32, 64} {
		if key, err := ParseSecret("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, n))); err != nil || len(key) != n {
			t.Errorf("%d bytes: %d, %v", n, len(key), err)
		}
	}
}

// hook starts a receiver, and a way to it.
func hook(t *testing.T, h http.HandlerFunc) *webhook {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return newWebhook(Settings{URL: s.URL + "/CANARY-path?token=CANARY", Key: testKey}, "syncd/test")
}

func TestWebhookArrivesSignedAsItIs(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	const body = `{"type":"syncd.notice"}`
	w := hook(t, func(_ http.ResponseWriter, r *http.Request) {
		got, _ := io.ReadAll(r.Body)
		mac := hmac.New(sha256.New, testKey)
		mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(got)))
		want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
		if r.Method != http.MethodPost || string(got) != body || r.Header.Get("webhook-signature") != want || r.Header.Get("webhook-id") != "msg_1" ||
			r.Header.Get("webhook-timestamp") != "1800000000" || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("User-Agent") != "syncd/test" {
			t.Errorf("%s %q with %v", r.Method, got, r.Header)
		}
	})
	if err := w.send(context.Background(), "msg_1", []byte(body), at); err != nil {
		t.Error(err)
	}
}

func TestAnswersOfReceivers(t *testing.T) {
	for _, c := range []struct {
		status int
		last   bool // no other try is made
	}{{500, false}, {503, false}, {429, false}, {408, false}, {425, false}, {400, true}, {401, true}, {404, true}, {410, true}, {304, true}} {
		err := hook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(c.status) }).send(context.Background(), "msg_1", nil, time.Now())
		var p permanent
		if err == nil || errors.As(err, &p) != c.last {
			t.Errorf("%d: %v", c.status, err)
		}
	}
	for _, status := range []int{200, 202, 204} {
		if err := hook(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }).send(context.Background(), "msg_1", nil, time.Now()); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		followed := false
		w := hook(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				followed = true
			} else {
				http.Redirect(w, r, "/elsewhere", status)
			}
		})
		err := w.send(context.Background(), "msg_1", nil, time.Now())
		var p permanent
		if followed || !errors.As(err, &p) || !strings.Contains(err.Error(), "a redirect, which is not followed") {
			t.Errorf("%d: followed %t, %v", status, followed, err)
		}
	}
}

func TestReceiverThatHangsIsLeft(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	over := make(chan struct{})
	defer close(over)
	w := hook(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		cancel() // as the time of a try ends it
		<-over
	})
	err := w.send(ctx, "msg_1", []byte("{}"), time.Now())
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestAnswerWithoutEndIsNotReadToIt(t *testing.T) {
	cut := make(chan struct{})
	w := hook(t, func(w http.ResponseWriter, _ *http.Request) {
		defer close(cut)
		for {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	if err := w.send(context.Background(), "msg_1", nil, time.Now()); err != nil {
		t.Error(err)
	}
	<-cut
}

func TestErrorsDoNotShowTheAddress(t *testing.T) {
	drops := func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = c.Close()
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := newWebhook(Settings{URL: "http://" + l.Addr().String() + "/CANARY-path"}, "")
	_ = l.Close()
	for name, w := range map[string]*webhook{
		"a connection that is closed": hook(t, drops),
		"nobody there":                nobody,
		"a refusal":                   hook(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "CANARY", http.StatusForbidden) }),
		"no address at all":           newWebhook(Settings{URL: "http://CANARY\x7f"}, ""),
	} {
		if err := w.send(context.Background(), "msg_1", nil, time.Now()); err == nil || strings.Contains(err.Error(), "CANARY") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceiversCertificateIsVerified(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a message was sent") }))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	if err := newWebhook(Settings{URL: s.URL}, "").send(context.Background(), "msg_1", nil, time.Now()); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("got %v", err)
	}
}
