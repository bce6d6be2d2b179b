package rest

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// entity holds what all primitives of one entity share.
type entity struct {
	api  *api
	name string
	set  *entitySettings
	info connectors.EntityInfo
}

// Info says what the entity is like.
func (e *entity) Info() connectors.EntityInfo { return e.info }

// answered is what came back from a write that the server accepted.
type answered struct {
	body   raw // nil when there was none
	status int
	gone   bool // refused, and the API itself says that there is no such record
}

// wants says which answers to a write are a success.
type wants int

const (
	// wantRecord asks for a JSON value, whatever the status.
	wantRecord wants = iota
	// wantAnswer asks for a JSON value or a status that has none, such as 204. An
	// empty 200 is what some servers answer to everything while in maintenance.
	wantAnswer
	// wantStatus is content with any 2xx that is no page of HTML.
	wantStatus
)

// write sends one write, once. done is false when the outcome says all.
func (e *entity) write(ctx context.Context, req *httpx.Request, want wants) (a answered, o connectors.Outcome, done bool) {
	req.Write = true
	if len(req.Body) > 0 {
		if req.Header == nil {
			req.Header = http.Header{}
		}
		req.Header.Set("Content-Type", "application/json")
	}
	send := e.api.do
	if want == wantStatus {
		send = e.api.plain
	}
	resp, err := send(ctx, req)
	if err != nil {
		o = e.api.writeError(err, e.set.codes)
		a.gone = o.Class == connectors.Missing || notThere(err)
		return a, o, false
	}
	a.status = resp.Status
	if a.body, err = parse(resp.Body); err != nil && (resp.Body != nil && want != wantStatus || isPage(resp)) {
		// A page of HTML under a 200 is maintenance, or a program that died half-way.
		return a, connectors.Fail(connectors.Unknown, "not_json", "%d with a body that is not one JSON value", resp.Status), false
	}
	o, bad := e.api.answers.read(resp.Status, a.body, e.set.codes).outcome(connectors.Outcome{Class: connectors.Applied})
	return a, o, !bad
}

// wanting reads a setting `answer`.
func wanting(answer string) wants {
	if answer == "none" {
		return wantStatus
	}
	return wantRecord
}

// plain is do for answers that need not hold JSON.
func (a *api) plain(ctx context.Context, req *httpx.Request) (*httpx.Response, error) {
	a.addHeaders(req)
	return a.http.Do(ctx, req)
}

func isPage(resp *httpx.Response) bool {
	return resp.ContentType == "text/html" || bytes.HasPrefix(bytes.TrimSpace(resp.Body), []byte("<"))
}

// writeError classifies a failed write: by the codes of the platform where its
// body holds one, else by the status.
func (a *api) writeError(err error, own map[string]meaning) connectors.Outcome {
	o := connectors.FromHTTP(err, true)
	var e *httpx.Error
	if !errors.As(err, &e) {
		return o
	}
	if e.Status == http.StatusMultipleChoices {
		return several(e)
	}
	if said, ok := a.said(e, own); ok {
		code := o.Code
		o, _ = said.outcome(o)
		if !said.known {
			o.Code = code // the status tells more to our own rules than a code we do not know
		}
	}
	return o
}

// several is the outcome of a write under a key that more than one record
// carries. Salesforce answers 300 then, with the addresses of the records
// (https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/dome_upsert.htm).
func several(e *httpx.Error) connectors.Outcome {
	which := ""
	if resp := e.Response(); resp != nil {
		if v, err := parse(resp.Body); err == nil && v.kind() == '[' {
			which = cut(words(v, 3), maxMessage)
		}
	}
	if which == "" {
		return connectors.FromHTTP(e, true)
	}
	return connectors.Fail(connectors.Invalid, "ambiguous", "several records carry the key: %s; leave it to one of them, then replay this job", which)
}

// body builds what is sent of a record.
func (e *entity) body(w connectors.Write, keyField, wrap path) (raw, error) {
	v, err := e.record(w, keyField)
	if err != nil {
		return nil, err
	}
	if n := w.Stamp.Version; e.set.version.given() && n != 0 {
		val := raw(strconv.FormatInt(n, 10))
		if e.set.AsText {
			val = quote(string(val))
		}
		if v, err = e.set.version.put(v, val); err != nil {
			return nil, err
		}
	}
	if wrap.given() && wrap.text != "." {
		return wrap.put(nil, v)
	}
	return v, nil
}

// record is the desired record with its key, without what only steers advance.
func (e *entity) record(w connectors.Write, keyField path) (raw, error) {
	v, err := parse(w.Body)
	if err != nil {
		return nil, err
	}
	if v.kind() != '{' {
		return nil, errors.New("the record is " + v.kindName() + ", not an object")
	}
	if len(e.set.Unsent) > 0 {
		m := v.asMap()
		for _, name := range e.set.Unsent {
			delete(m, name)
		}
		v = object(m)
	}
	if keyField.given() && w.Key != "" {
		return keyField.put(v, quote(w.Key))
	}
	return v, nil
}

// address fills a path that names a record by its link or key.
func address(tmpl string, w connectors.Write) (string, error) {
	f := fill{}
	if w.Key != "" {
		f["key"] = w.Key
	}
	if w.Link != "" {
		text, err := linkText(w.Link)
		if err != nil {
			return "", err
		}
		f["link"] = text
	}
	return f.path(tmpl)
}

func unsendable(err error) connectors.Outcome {
	return connectors.Fail(connectors.Invalid, "request", "%v", err)
}

// confirm makes sure that the answer to an accepted write is about the record
// that was sent: a redirect, a cache or a proxy may have answered with another.
func confirm(a answered, shape answerShape, w connectors.Write) connectors.Outcome {
	rec, found, err := shape.Record.in(a.body)
	if err != nil || !found || rec.kind() != '{' {
		return connectors.Fail(connectors.Unknown, "no_record", "%d, but the answer holds no record at %s", a.status, shape.Record)
	}
	o := connectors.Outcome{Class: connectors.Applied, Link: w.Link}
	if shape.KeyField.given() {
		v, found, err := shape.KeyField.in(rec)
		key, ok := v.text()
		switch {
		case err != nil || found && !v.isNull() && (!ok || key != w.Key):
			return connectors.Fail(connectors.Unknown, "foreign_answer", "%d, but the answer is about another record: its %s is not the key that was sent", a.status, shape.KeyField)
		case !ok && !shape.ID.given():
			return connectors.Fail(connectors.Unknown, "no_key", "%d, but the answer holds no key at %s", a.status, shape.KeyField)
		}
	}
	if !shape.ID.given() {
		return o
	}
	v, found, err := shape.ID.in(rec)
	link, ok := scalarLink(v)
	if err != nil || !found || !ok {
		return connectors.Fail(connectors.Unknown, "no_id", "%d, but the answer holds no id at %s", a.status, shape.ID)
	}
	if w.Link != "" && !sameLink(w.Link, link) {
		return connectors.Fail(connectors.Unknown, "foreign_answer", "%d, but the answer is about another record: its %s is not the link that was written to", a.status, shape.ID)
	}
	if o.Link == "" {
		o.Link = link
	}
	return o
}

// sameLink compares links by their text: some servers write an id as a number
// here and as a text there.
func sameLink(a, b string) bool {
	x, errA := linkText(a)
	y, errB := linkText(b)
	return errA == nil && errB == nil && x == y
}

// upserter is an entity with put.
type upserter struct{ *entity }

// Upsert writes one record after the other.
func (u upserter) Upsert(ctx context.Context, ws []connectors.Write) []connectors.Outcome {
	out := make([]connectors.Outcome, len(ws))
	for i, w := range ws {
		out[i] = u.put(ctx, w)
	}
	return out
}

func (u upserter) put(ctx context.Context, w connectors.Write) connectors.Outcome {
	set := u.set.Put
	body, err := u.body(w, set.KeyField, set.Wrap)
	if err != nil {
		return unsendable(err)
	}
	p, err := address(set.Path, w)
	if err != nil {
		return unsendable(err)
	}
	a, o, done := u.write(ctx, &httpx.Request{Method: set.Method, Path: p, Body: body, Shape: shape(set.Method, set.Path)}, wanting(set.Answer))
	if !done {
		return o
	}
	if set.Answer == "none" {
		return connectors.Outcome{Class: connectors.Applied, Link: w.Link}
	}
	return confirm(a, set.answerShape, w)
}

// creator is an entity with create.
type creator struct{ *entity }

// Compose builds what Create sends.
func (c creator) Compose(w connectors.Write) ([]byte, error) {
	return c.body(w, c.set.Create.KeyField, c.set.Create.Wrap)
}

// Create sends the record once.
func (c creator) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	set := c.set.Create
	w.Link = ""
	body, err := w.Sent, error(nil)
	if body == nil {
		body, err = c.Compose(w)
	}
	if err != nil {
		return unsendable(err)
	}
	p, err := address(set.Path, w)
	if err != nil {
		return unsendable(err)
	}
	req := &httpx.Request{Method: set.Method, Path: p, Body: body, Shape: shape(set.Method, set.Path)}
	if w.IdempotencyKey != "" {
		req.Header = http.Header{}
		req.Header.Set(set.Idempotency.Header, set.Idempotency.value(w.IdempotencyKey))
	}
	a, o, done := c.write(ctx, req, wantRecord)
	if !done {
		// A refusal inside a 200 may be that of a duplicate, too.
		if a.status != 0 && o.Class == connectors.Invalid {
			o.MaybeDuplicate = true
		}
		return connectors.OnCreate(o)
	}
	return confirm(a, set.answerShape, w)
}

// updater is an entity with update.
type updater struct{ *entity }

// Update sends the record's fields to the link.
func (u updater) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	set := u.set.Update
	body, err := u.body(w, u.updatedKey(w), set.Wrap)
	if err != nil {
		return unsendable(err)
	}
	p, err := address(set.Path, w)
	if err != nil {
		return unsendable(err)
	}
	req := &httpx.Request{Method: set.Method, Path: p, Body: body, Shape: shape(set.Method, set.Path)}
	if set.IfMatch {
		tag, o, ok := u.etag(ctx, w, orElse(set.Read, set.Path))
		if !ok {
			return o
		}
		req.Header = http.Header{"If-Match": {tag}} // verbatim, also a weak one
	}
	a, o, done := u.write(ctx, req, wanting(set.Answer))
	if !done {
		return u.throughLink(a, o)
	}
	if set.Answer == "none" {
		return connectors.Outcome{Class: connectors.Applied, Link: w.Link}
	}
	return confirm(a, answerShape{Record: set.Record, ID: set.ID}, w)
}

// updatedKey is where an update sends the key, as the text that the create sent there: with PUT, which may
// empty what is not sent, always, else where the record holds something there. A key that the mapping took
// from a number would else become one with the first update, and look-ups would no longer find the record.
func (e *entity) updatedKey(w connectors.Write) path {
	keyField := e.set.Create.KeyField
	if e.set.Update.Method == http.MethodPut || !keyField.given() {
		return keyField
	}
	if v, err := parse(w.Body); err == nil {
		if _, found, err := keyField.in(v); err == nil && found {
			return keyField
		}
	}
	return path{}
}

// throughLink says what a refusal means for a request that went to a record's
// own address.
func (e *entity) throughLink(a answered, o connectors.Outcome) connectors.Outcome {
	if a.gone {
		return connectors.ThroughLink(o)
	}
	if connectors.ThroughLink(o).Class == connectors.Missing {
		// Not the API's own words: something before it has no such path at present.
		// To take that for a missing record would create it a second time.
		o.Class = connectors.Transient
		o.Message += ", and the answer is not the API's own"
	}
	return o
}

// etag reads the tag of the record's present state.
func (u updater) etag(ctx context.Context, w connectors.Write, tmpl string) (tag string, o connectors.Outcome, ok bool) {
	p, err := address(tmpl, w)
	if err != nil {
		return "", unsendable(err), false
	}
	resp, _, _, err := u.api.readMany(ctx, &httpx.Request{Path: p, Shape: shape("", tmpl)})
	if err != nil {
		return "", goneOr(err, connectors.Missing), false
	}
	if tag = resp.Header.Get("ETag"); tag == "" {
		return "", connectors.Fail(connectors.Invalid, "no_etag", "the record's answer bears no ETag; turn if_match off"), false
	}
	return tag, o, true
}

// goneOr gives the outcome of a failed read of a record: what says that the
// record is not there becomes class gone.
func goneOr(err error, gone connectors.Class) connectors.Outcome {
	e := withOp(err, "")
	if notThere(err) {
		return connectors.Fail(gone, e.Code, "the record does not exist")
	}
	return e.Outcome
}
