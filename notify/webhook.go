package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// webhook posts messages as Standard Webhooks has it:
// https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
type webhook struct {
	url       string
	key       []byte
	userAgent string
	client    *http.Client
}

const (
	// mostAnswer bounds what is read of an answer, whose content says nothing, so that
	// its connection ends in good order.
	mostAnswer = 4 << 10
	// mostHeaders bounds the headers of an answer.
	mostHeaders = 16 << 10
)

// newWebhook makes a way to an address. It follows no redirect, since the message is
// signed for this one alone, and uses no proxy. Each message has a connection of its own: they are rare.
func newWebhook(s Settings, userAgent string) *webhook {
	return &webhook{url: s.URL, key: s.Key, userAgent: userAgent, client: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{DisableKeepAlives: true, MaxResponseHeaderBytes: mostHeaders,
			TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}},
	}}
}

func (w *webhook) name() string { return "webhook" }

// send posts a message. The id stays the same over its tries; the time is that of the try.
func (w *webhook) send(ctx context.Context, id string, body []byte, now time.Time) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return permanent{errors.New("make the request: the url cannot be read")} // err repeats it
	}
	stamp := strconv.FormatInt(now.Unix(), 10)
	// As the standard writes them; to HTTP their case says nothing.
	req.Header.Set("webhook-id", id)
	req.Header.Set("webhook-timestamp", stamp)
	req.Header.Set("webhook-signature", sign(w.key, id, stamp, body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", w.userAgent)
	res, err := w.client.Do(req)
	if err != nil {
		// What net/http says begins with the whole address, which may hold a token.
		var ue *url.Error
		if errors.As(err, &ue) {
			err = ue.Err
		}
		return fmt.Errorf("post to %s: %w", req.URL.Host, err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, mostAnswer))
	return answered(req.URL.Host, res.StatusCode)
}

// answered says what a status means: 2xx that the message has arrived. What was refused
// for itself is refused again however often it is sent.
func answered(host string, status int) error {
	err := fmt.Errorf("post to %s: it answered %d", host, status)
	switch {
	case status >= 200 && status < 300:
		return nil
	case status == http.StatusRequestTimeout, status == http.StatusTooEarly, status == http.StatusTooManyRequests, status >= 500:
		return err
	case status >= 300 && status < 400:
		return permanent{fmt.Errorf("%w, a redirect, which is not followed; give the address that it leads to", err)}
	default:
		return permanent{err}
	}
}

// sign gives the header webhook-signature: v1, and the base64 of the HMAC-SHA256 of
// id, time and body, with dots between them ("Signature scheme" in the standard).
func sign(key []byte, id, stamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// permanent is a failure that comes again with every try.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }
