package httpx

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
)

// JSON is Do for an API that speaks JSON: it says so in the request's headers
// unless they are set, and takes a 2xx only with a body that is one JSON value.
// The byte-order mark and blank lines that some servers put first are cut off.
// 204 and 205 have no body, Response.Body is then nil. An empty body under any
// other 2xx, HTML, a charset that cannot be read, and rubbish before or after the
// value are a BadBody of a read and leave a write Unknown; no attempt is made to
// pick JSON out of them. Bytes that are no UTF-8 within a text are left to the
// caller to look for.
func (c *Client) JSON(ctx context.Context, r *Request) (*Response, error) {
	q := *r
	q.Header = r.Header.Clone()
	if q.Header == nil {
		q.Header = http.Header{}
	}
	if q.Header.Get("Accept") == "" {
		q.Header.Set("Accept", "application/json")
	}
	if len(q.Body) > 0 && q.Header.Get("Content-Type") == "" {
		q.Header.Set("Content-Type", "application/json")
	}
	x, err := c.prepare(&q)
	if err != nil {
		return nil, err
	}
	resp, err := c.run(ctx, x)
	if err != nil || resp.Status < 200 || resp.Status > 299 {
		return resp, err
	}
	if resp.Status == http.StatusNoContent || resp.Status == http.StatusResetContent || x.Method == http.MethodHead {
		resp.Body = nil
		return resp, nil
	}
	if resp.foreign != nil {
		return nil, c.unreadable(ctx, ctx, x, resp, resp.foreign)
	}
	body := trimStart(resp.Body)
	if json.Valid(body) {
		resp.Body = body
		return resp, nil
	}
	e := &Error{Kind: BadBody, Status: resp.Status, Code: "not_json", Sent: true, resp: resp, Shape: shape(resp)}
	e.Detail = statusText(resp.Status) + " with a body that is not one JSON value"
	if len(bytes.TrimSpace(body)) == 0 {
		e.Code, e.Detail = "empty_body", statusText(resp.Status)+" with an empty body"
	}
	if x.Write {
		e.Kind = Unknown
	}
	return nil, c.fail(x, e)
}

// trimStart cuts off a byte-order mark and blanks.
func trimStart(b []byte) []byte {
	b = bytes.TrimPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("\xef\xbb\xbf"))
	return bytes.TrimLeft(b, " \t\r\n")
}
