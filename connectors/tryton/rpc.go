package tryton

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// request has exactly the members that make the server answer in the form
// {id, result} or {id, error}; one more and it answers the bare result, and
// errors as pages of HTML.
type request struct {
	ID     int    `json:"id"`
	Method string `json:"method"`
	Params []any  `json:"params"`
}

// rpc calls the methods of models.
type rpc struct {
	http    *httpx.Client
	company int

	mu      sync.Mutex
	context map[string]any                  // the user's own, once asked for
	models  map[string]map[string]fieldInfo // fields by model
	named   map[string]int64                // ids of records named by a text, by model and text
}

// read calls a method that changes nothing.
func (r *rpc) read(ctx context.Context, op, method string, out any, params ...any) error {
	c, err := r.userContext(ctx)
	if err != nil {
		return err
	}
	o := r.call(ctx, op, method, false, out, append(params, c))
	return o
}

// write calls a method that changes something.
func (r *rpc) write(ctx context.Context, op, method string, out any, with map[string]any, params ...any) error {
	c, err := r.userContext(ctx)
	if err != nil {
		return err
	}
	if len(with) > 0 {
		merged := map[string]any{}
		for k, v := range c {
			merged[k] = v
		}
		for k, v := range with {
			merged[k] = v
		}
		c = merged
	}
	return r.call(ctx, op, method, true, out, append(params, c))
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
	c = map[string]any{}
	if err := r.call(ctx, "read the user's preferences", "model.res.user.get_preferences", false, &c, []any{true, map[string]any{}}); err != nil {
		return nil, err
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

// call makes one call. Its errors are of type *connectors.Error.
func (r *rpc) call(ctx context.Context, op, method string, write bool, out any, params []any) error {
	body, err := json.Marshal(request{ID: 1, Method: method, Params: params})
	if err != nil {
		return fault(op, connectors.Fail(connectors.Invalid, "record", "the record cannot be sent: %s", err))
	}
	resp, err := r.http.JSON(ctx, &httpx.Request{Method: http.MethodPost, Body: body, Write: write})
	if err != nil {
		return &connectors.Error{Outcome: refused(connectors.FromHTTP(err, write)), Op: op, Err: err}
	}
	var a struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	d := json.NewDecoder(bytes.NewReader(resp.Body))
	if err := d.Decode(&a); err != nil || a.Result == nil && a.Error == nil {
		return fault(op, doubt(write, "not_rpc", "the answer is no JSON-RPC answer; is url the address of a Tryton server?"))
	}
	if len(a.Error) > 0 && !bytes.Equal(a.Error, []byte("null")) {
		return fault(op, exception(a.Error, write))
	}
	if out == nil {
		return nil
	}
	n := json.NewDecoder(bytes.NewReader(a.Result))
	n.UseNumber()
	if err := n.Decode(out); err != nil {
		return fault(op, doubt(write, "result", "the result is not of the expected form"))
	}
	return nil
}

// refused corrects what a status means here: 403 is a method that is not
// exposed, 404 a database that does not exist, never a record.
func refused(o connectors.Outcome) connectors.Outcome {
	switch o.Code {
	case "http_403":
		o.Class, o.Message = connectors.Invalid, "the server does not know this method; a module is missing"
	case "http_404":
		o.Class, o.Message = connectors.Auth, "there is no such database, or url is not the address of a Tryton server"
	}
	return o
}

func doubt(write bool, code, message string) connectors.Outcome {
	if write {
		return connectors.Fail(connectors.Unknown, code, "%s", message)
	}
	return connectors.Fail(connectors.Transient, code, "%s", message)
}

func fault(op string, o connectors.Outcome) *connectors.Error {
	return &connectors.Error{Outcome: o, Op: op}
}

// exception translates the error member: a typed exception of Tryton, or the
// text of any other one.
func exception(raw json.RawMessage, write bool) connectors.Outcome {
	var parts []json.RawMessage
	var name string
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 || json.Unmarshal(parts[0], &name) != nil {
		return doubt(write, "exception", "the server failed")
	}
	switch name {
	case "UserError":
		return connectors.Fail(connectors.Invalid, "user_error", "%s", sentence(parts))
	case "UserWarning":
		return connectors.Fail(connectors.Invalid, "user_warning", "the server asks a person to confirm: %s", sentence(parts))
	case "ConcurrencyException":
		return connectors.Fail(connectors.Conflict, "concurrency", "the record was changed meanwhile")
	case "LoginException", "AccessError":
		return connectors.Fail(connectors.Auth, "login", "the session is refused")
	case "RateLimitException":
		return connectors.Fail(connectors.Throttled, "rate_limit", "too many logins")
	}
	// Anything else is the text of some exception: a field that does not exist, a
	// database that went away. Whether the transaction was committed it does not say.
	o := doubt(write, "exception", "the server failed: "+cut(name))
	o.Answered = write
	return o
}

// sentence is what the server tells a person; it names fields, and may repeat
// the value that is refused.
func sentence(parts []json.RawMessage) string {
	if len(parts) < 2 {
		return "refused"
	}
	var text string
	if json.Unmarshal(parts[1], &text) == nil {
		return cut(text)
	}
	var list []json.RawMessage
	if json.Unmarshal(parts[1], &list) != nil {
		return "refused"
	}
	for _, l := range list {
		if json.Unmarshal(l, &text) == nil && text != "" {
			return cut(text)
		}
	}
	return "refused"
}

func cut(s string) string {
	r := []rune(s)
	if len(r) > 300 {
		return string(r[:300]) + "…"
	}
	return s
}

// outcome is the outcome of an error of a call.
func outcome(err error) connectors.Outcome {
	if e, ok := err.(*connectors.Error); ok { //nolint:errorlint // call returns this very type
		return e.Outcome
	}
	return connectors.Fail(connectors.Unknown, "error", "%s", err)
}

// fieldInfo is what the server says of a field.
type fieldInfo struct {
	Type     string `json:"type"`
	Relation string `json:"relation"`
	String   string `json:"string"`
}

// fields returns the fields of a model; the server is asked once.
func (r *rpc) fields(ctx context.Context, model string) (map[string]fieldInfo, error) {
	r.mu.Lock()
	f := r.models[model]
	r.mu.Unlock()
	if f != nil {
		return f, nil
	}
	if err := r.read(ctx, "read the fields of "+model, "model."+model+".fields_get", &f, []string{}); err != nil {
		return nil, err
	}
	r.mu.Lock()
	r.models[model] = f
	r.mu.Unlock()
	return f, nil
}

// one finds the one record of a model that a text names: by its code, where the
// model has one, else by its name.
func (r *rpc) one(ctx context.Context, model, text string) (int64, error) {
	key := model + "\x00" + text
	r.mu.Lock()
	id, ok := r.named[key]
	r.mu.Unlock()
	if ok {
		return id, nil
	}
	fs, err := r.fields(ctx, model)
	if err != nil {
		return 0, err
	}
	op := fmt.Sprintf("find %s %q", model, text)
	var ids []int64
	for _, by := range []string{"code", "symbol", "rec_name"} {
		if _, has := fs[by]; !has {
			continue
		}
		if err := r.read(ctx, op, "model."+model+".search", &ids, []any{[]any{by, "=", text}}, 0, 2, nil); err != nil {
			return 0, err
		}
		if len(ids) == 1 {
			r.mu.Lock()
			r.named[key] = ids[0]
			r.mu.Unlock()
			return ids[0], nil
		}
		if len(ids) > 1 {
			return 0, fault(op, connectors.Fail(connectors.Invalid, "ambiguous", "several records of %s are called %q; give the id", model, text))
		}
	}
	return 0, fault(op, connectors.Fail(connectors.Invalid, "relation", "no record of %s is called %q", model, text))
}
