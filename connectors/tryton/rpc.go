package tryton

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// rpc calls the methods of models.
type rpc struct {
	http    *httpx.Client
	company int
	now     func() time.Time

	mu      sync.Mutex
	context map[string]any                  // the user's own, once asked for
	models  map[string]map[string]fieldInfo // fields by model
	named   map[string]int64                // ids of records named by a text, by model and text
}

// request has exactly the members that make the server answer in the form
// {id, result} or {id, error}; one more and it answers the bare result, and
// errors as pages of HTML.
type request struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params []any  `json:"params"`
}

// call is one call of a method.
type call struct {
	// op says what is attempted on what, for errors.
	op     string
	method string
	params []any
	// write says that it changes something.
	write bool
	// with is added to the context.
	with map[string]any
	// hide are texts of the record, which no error may repeat.
	hide []string
	// out takes the result; nil to ignore it.
	out any
}

// do makes a call. Its errors are of type *connectors.Error.
func (r *rpc) do(ctx context.Context, c call) error {
	user, err := r.userContext(ctx)
	if err != nil {
		return err
	}
	if len(c.with) > 0 {
		user = maps.Clone(user)
		maps.Copy(user, c.with)
	}
	c.params = append(c.params[:len(c.params):len(c.params)], user)
	return r.send(ctx, c)
}

// read calls a method that changes nothing.
func (r *rpc) read(ctx context.Context, op, method string, out any, params ...any) error {
	return r.do(ctx, call{op: op, method: method, params: params, out: out})
}

// userContext is the context that every call takes last. Archived records are
// part of the world: a search that hides them makes a taken key look free.
func (r *rpc) userContext(ctx context.Context) (map[string]any, error) {
	r.mu.Lock()
	c := r.context
	r.mu.Unlock()
	if c != nil {
		return c, nil
	}
	err := r.send(ctx, call{op: "read the user's preferences", method: "model.res.user.get_preferences", params: []any{true, map[string]any{}}, out: &c})
	if err != nil {
		return nil, err
	}
	if c == nil {
		c = map[string]any{}
	}
	c["active_test"] = false
	c["language"] = "en"
	if r.company != 0 {
		c["company"] = r.company
	}
	r.mu.Lock()
	r.context = c
	r.mu.Unlock()
	return c, nil
}

// answer is the answer to a call.
type answer struct {
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// failed reports whether the answer holds an error.
func (a *answer) failed() bool { return len(a.Error) > 0 && !bytes.Equal(a.Error, []byte("null")) }

// send sends a call as it is.
func (r *rpc) send(ctx context.Context, c call) error {
	body, err := json.Marshal(request{ID: 1, Method: c.method, Params: c.params})
	if err != nil {
		return fault(c.op, connectors.Fail(connectors.Invalid, "record", "the record cannot be sent: %s", err))
	}
	resp, err := r.http.JSON(ctx, &httpx.Request{Method: http.MethodPost, Body: body, Write: c.write, Shape: c.method})
	if err != nil {
		return &connectors.Error{Outcome: status(connectors.FromHTTP(err, c.write)), Op: c.op, Err: err}
	}
	var a answer
	if err := json.Unmarshal(resp.Body, &a); err != nil || a.Result == nil && a.Error == nil {
		return fault(c.op, doubt(c.write, "not_rpc", "the answer is no JSON-RPC answer; is url the address of a Tryton server?"))
	}
	if a.failed() {
		return fault(c.op, exception(a.Error, c.write, c.hide))
	}
	if c.out == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(a.Result))
	d.UseNumber()
	if err := d.Decode(c.out); err != nil {
		return fault(c.op, doubt(c.write, "result", "the result is not of the expected form"))
	}
	return nil
}
