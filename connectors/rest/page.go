package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"syncd/connectors"
	"syncd/connectors/httpx"
)

// maxID bounds a record's id in bytes.
const maxID = 512

// source reads the streams of one client.
type source struct {
	api     *api
	streams map[string]*stream
}

// stream is one stream, ready to be read.
type stream struct {
	name string
	set  *streamSettings
	plan *plan
	seen seen
}

// list asks for the page that the position stands at.
func (s *source) list(ctx context.Context, st *stream, pos *position) (listing, error) {
	req, err := st.request(pos)
	if err != nil {
		return listing{}, connectors.Errorf(connectors.Invalid, "request", "%v", err)
	}
	resp, body, whole, err := s.api.readMany(ctx, req)
	if err != nil {
		return listing{}, err
	}
	l := listing{total: -1, date: resp.ServerTime, observed: resp.Started}
	if body == nil { // 204: no records, and no more pages
		no := false
		l.more = &no
		return l, nil
	}
	if err := s.readListing(st, &l, body, resp, whole); err != nil {
		return listing{}, asShape(err)
	}
	return l, nil
}

// asShape makes of what is wrong with an answer's shape an error, unless it is one.
func asShape(err error) error {
	var e *connectors.Error
	if errors.As(err, &e) {
		return e
	}
	return connectors.Errorf(connectors.Transient, "answer_shape", "%v", err)
}

// request builds the request of the page.
func (st *stream) request(pos *position) (*httpx.Request, error) {
	set, sc := st.set, pos.Scan
	req := &httpx.Request{Method: set.List.Method, Path: set.List.Path, Shape: shape(set.List.Method, set.List.Path)}
	if sc.Token != "" && (st.plan.kind == pageLink || st.plan.kind == pageURL) {
		// The server's own link, unchanged: some refuse filters beside it.
		return &httpx.Request{Method: http.MethodGet, URL: sc.Token, Shape: req.Shape}, nil
	}
	f := st.fill(sc)
	req.Query = f.query(set.List.Query)
	for param, name := range map[string]string{
		set.Since.Param: "since", set.Paging.SizeParam: "limit", set.Paging.Cursor.Param: "cursor",
		set.Paging.Page.Param: "page", set.Paging.Offset.Param: "offset",
		set.Paging.Keyset.PageParam: "page", set.Paging.Keyset.OffsetParam: "offset",
	} {
		if v, ok := f[name]; ok && param != "" {
			req.Query.Set(param, v)
		}
	}
	if set.List.Body != nil {
		b, err := f.body(set.List.Body)
		if err != nil {
			return nil, fmt.Errorf("the body of list: %w", err)
		}
		req.Body = b
		req.Header = http.Header{"Content-Type": {"application/json"}}
	}
	return req, nil
}

// fill gives the placeholders of a listing their values.
func (st *stream) fill(sc *scan) fill {
	p := st.plan
	f := fill{}
	if sc.Size > 0 {
		f["limit"] = strconv.Itoa(sc.Size)
	}
	bound := sc.Since
	if p.kind == pageKeyset && sc.At > 0 {
		bound = sc.At
	}
	switch {
	case bound > 0:
		f["since"] = p.sinceFmt.write(bound, p.inclusive)
	case st.set.Since.All != "":
		f["since"] = st.set.Since.All
	}
	// The first pass has no upper bound, for the sake of records that bear a
	// time in the future; the others have, so that they come to an end.
	if sc.Until > 0 && sc.Pass > 0 {
		f["until"] = p.sinceFmt.writeUpper(sc.Until)
	}
	switch p.kind {
	case pageNumber:
		f["page"] = strconv.Itoa(sc.Page)
	case pageOffset:
		f["offset"] = strconv.Itoa(sc.Offset)
	case pageCursor:
		if sc.Token != "" {
			f["cursor"] = sc.Token
		}
	case pageKeyset:
		if p.subOffset {
			f["offset"] = strconv.Itoa(sc.Sub)
		} else {
			f["page"] = strconv.Itoa(p.first + sc.Sub)
		}
	}
	return f
}

// holds names the first fields of an answer that is not as the settings say.
func holds(v raw) string {
	const most = 5
	if v.kind() != '{' {
		return "; it is " + v.kindName()
	}
	names := slices.Sorted(maps.Keys(v.asMap()))
	switch {
	case len(names) == 0:
		return "; it is empty"
	case len(names) > most:
		names = append(names[:most], "…")
	}
	return "; its fields are " + cut(strings.Join(names, ", "), 100)
}

// readListing takes a page apart. Records of one that is not whole are looked at
// one by one.
func (s *source) readListing(st *stream, l *listing, body raw, resp *httpx.Response, whole bool) error {
	set := st.set
	v, found, err := set.Records.in(body)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("the answer holds nothing at records: %s%s", set.Records, holds(body))
	}
	items, err := s.api.records(v)
	if err != nil {
		return fmt.Errorf("records: %s: %w", set.Records, err)
	}
	l.recs = make([]record, 0, len(items))
	for _, it := range items {
		if whole || !bytes.Contains(it, []byte(broken)) {
			l.recs = append(l.recs, st.record(it))
		} else {
			l.recs = append(l.recs, st.damaged(it))
		}
	}
	if err := st.readTotal(l, body, resp.Header); err != nil {
		return err
	}
	if set.Paging.More.given() {
		if m, found, err := set.Paging.More.in(body); err != nil {
			return err
		} else if found {
			t := m.truthy()
			l.more = &t
		}
	}
	var told bool
	l.token, told, err = st.nextToken(body, resp.Header)
	if st.plan.kind == pageLink || st.plan.kind == pageURL {
		l.token = s.api.withoutSecret(l.token)
	}
	if err == nil && !whole && strings.Contains(l.token, broken) {
		err = errors.New("the next page's cursor or address holds bytes that are not UTF-8")
	}
	l.unsure = !told && l.more == nil && len(l.recs) > 0 && len(l.recs) >= st.set.Paging.Size
	return err
}

func (st *stream) readTotal(l *listing, body raw, h http.Header) error {
	var text string
	switch p := st.set.Paging; {
	case p.Total.given():
		v, found, err := p.Total.in(body)
		if err != nil {
			return err
		}
		if !found || v.isNull() {
			return nil
		}
		text = v.word()
	case p.TotalHead != "":
		if text = strings.TrimSpace(h.Get(p.TotalHead)); text == "" {
			return nil
		}
	default:
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return fmt.Errorf("the total %q is not a number of records", cut(text, 20))
	}
	l.total = n
	return nil
}

// maxLink bounds a server's cursor or link in bytes.
const maxLink = 8 << 10

// nextToken returns the server's cursor or link to the next page, "" for none;
// found is false when the answer has no place for one.
func (st *stream) nextToken(body raw, h http.Header) (token string, found bool, err error) {
	var p path
	switch st.plan.kind {
	case pageCursor:
		p = st.set.Paging.Cursor.Next
	case pageURL:
		p = st.set.Paging.NextURL.Path
	case pageLink:
		token, err = nextLink(h.Values("Link"))
		return token, true, err // the last page has no link
	default:
		return "", true, nil
	}
	v, found, err := p.in(body)
	if err != nil || !found || v.empty() {
		return "", found, err
	}
	t, ok := v.text()
	if ok && st.plan.kind == pageCursor && slices.Contains(st.set.Paging.Cursor.End, t) {
		return "", true, nil
	}
	if !ok {
		return "", true, fmt.Errorf("%s: expected the next page's cursor or address, not %s", p, v.kindName())
	}
	if len(t) > maxLink {
		return "", true, fmt.Errorf("%s: the next page's cursor or address has %d bytes, more than %d", p, len(t), maxLink)
	}
	return t, true, nil
}

// record takes one record out of a page. Whatever is wrong with it becomes its
// own problem, not the page's.
func (st *stream) record(v raw) record {
	r := record{event: connectors.Event{Body: json.RawMessage(v)}}
	if v.kind() != '{' {
		r.event.Problem = "the record is " + v.kindName() + ", not an object"
		return r
	}
	var err error
	if r.id, err = st.recordID(v); err != nil {
		r.event.Problem = err.Error()
	}
	r.event.SourceID = r.id
	if err := st.stamps(&r, v); err != nil && r.event.Problem == "" {
		r.event.Problem = err.Error()
	}
	gone, err := st.set.Deleted.marks(v)
	if err != nil && r.event.Problem == "" {
		r.event.Problem = err.Error()
	}
	r.event.Gone = gone
	return r
}

// damaged is record for one that holds bytes which are not UTF-8. Nobody can tell
// what they stand for, so that it is kept apart rather than written in a changed
// form. To delete it, its id is enough.
func (st *stream) damaged(v raw) record {
	r := st.record(bytes.ReplaceAll(v, []byte(broken), []byte("\uFFFD")))
	if r.event.Problem == "" && !r.event.Gone {
		r.event.Problem = "the record holds bytes that are not UTF-8, shown as \uFFFD, and the answer does not say what else they are; correct it at the source, or have the server name its charset"
	}
	return r
}

func (st *stream) recordID(rec raw) (string, error) {
	parts := make([]string, len(st.set.ids))
	for i, p := range st.set.ids {
		v, found, err := p.in(rec)
		if err != nil {
			return "", fmt.Errorf("id: %w", err)
		}
		t, ok := v.text()
		switch {
		case !found || v.isNull() || ok && connectors.BlankID(t):
			return "", fmt.Errorf("the record has no id at %s", p)
		case !ok:
			return "", fmt.Errorf("the id at %s is %s, not a text or a number", p, v.kindName())
		}
		if problem := connectors.IDProblem(t); problem != "" {
			return "", fmt.Errorf("the id at %s %s", p, problem)
		}
		parts[i] = t
	}
	id := strings.Join(parts, ":")
	if len(id) > maxID {
		return "", fmt.Errorf("the id has %d bytes, more than %d", len(id), maxID)
	}
	return id, nil
}

func (st *stream) stamps(r *record, rec raw) error {
	if ver := st.set.Version; ver.given() {
		n, found, err := readStamp(ver, rec)
		if err != nil {
			return fmt.Errorf("version: %w", err)
		}
		// The places of a reading begin above 0; what has a lower number is read as what has none.
		r.stamp, r.event.Version, r.event.Versioned = max(n, 0), n, found
		if begin, ok := ver.format.repeated(n); ok {
			// A later change can bear an earlier label. With one version for all of
			// that time, the later reading counts.
			r.event.Version = begin
		}
		if ver.format.isTime() && n > 0 {
			r.changed = n
		}
	}
	if ch := st.set.Changed; ch.given() {
		n, _, err := readStamp(ch, rec)
		if err != nil {
			return fmt.Errorf("changed_at: %w", err)
		}
		if n > 0 {
			r.changed = n
		}
	}
	if r.changed > 0 {
		r.event.ChangedAt = timeOf(r.changed)
	}
	return nil
}

func readStamp(s stampSettings, rec raw) (stamp int64, found bool, err error) {
	v, found, err := s.Path.in(rec)
	if err != nil || !found {
		return 0, false, err
	}
	stamp, found, err = s.format.read(v)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", s.Path, err)
	}
	return stamp, found, nil
}
