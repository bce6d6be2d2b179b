package httpx

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// maxRedirects bounds the redirects that a read follows.
const maxRedirects = 5

// redirected reports whether a status sends the call elsewhere. Every 3xx does
// so for a write: whatever it means, it is no answer to it.
func (x *call) redirected(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return x.Write && status >= 300 && status < 400
}

// follow returns where a read is to be repeated. Nothing but a GET or HEAD is
// repeated elsewhere, and nothing at another scheme, host or port: the answer
// to a write that was turned into a GET looks like a success, and tokens in
// headers of their own would be sent along.
func (c *Client) follow(x *call, resp *Response, hops int) (*url.URL, error) {
	e := &Error{Kind: Redirect, Status: resp.Status, Code: "redirect", Sent: true, resp: resp}
	said := "the answer is " + statusText(resp.Status)
	location := resp.Header.Get("Location")
	if location == "" {
		e.Detail = said + ", without a Location; check the client's url"
		return nil, c.fail(x, e)
	}
	parsed, err := url.Parse(location)
	if err != nil {
		e.Detail = said + ", with a Location that cannot be read; check the client's url"
		return nil, c.fail(x, e)
	}
	next := x.url.ResolveReference(parsed)
	next.Fragment, next.RawFragment = "", ""
	at := origin(x.url)
	switch {
	case next.User != nil || !sameOrigin(next, c.base) || x.anonymous:
		e.Detail = fmt.Sprintf("%s and points to %s; requests and credentials stay at %s. If it is the right place, set url to %s",
			said, bare(next), at, bare(&url.URL{Scheme: next.Scheme, Host: next.Host}))
	case x.Write || !safeMethod(x.Method):
		e.Detail = fmt.Sprintf("%s and points to %s, where a %s is not repeated. If that is the right place, change the url or the path",
			said, bare(next), x.Method)
	case hops >= maxRedirects:
		e.Code = "too_many_redirects"
		e.Detail = fmt.Sprintf("%s, the %dth in a row, and points to %s", said, hops+1, bare(next))
	default:
		return next, nil
	}
	return nil, c.fail(x, e)
}

// parseAbsolute reads an address from the configuration.
func parseAbsolute(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return nil, errors.New("the URL cannot be read")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, errors.New("the URL must begin with https:// or http://, name a host, and hold no user name")
	}
	return u, nil
}
