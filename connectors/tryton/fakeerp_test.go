package tryton

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// row is a record of the ERP, in the form in which it goes over the wire.
type row map[string]any

// fakeERP is a Tryton server over rows in memory, as far as it is used here. It
// behaves as Tryton 6.0 was seen to: errors in a 200, texts without codes,
// buttons that do nothing in silence, one transaction a call.
type fakeERP struct {
	mu     sync.Mutex
	models map[string]*fakeModel
	tables map[string]map[int64]row
	last   int64
	clock  int64

	user, password string
	sessions       map[string]bool
	logins         int
	log            []string

	// before and after are asked before a call does its work, and after that was
	// committed; what they return is answered.
	before, after func(method string) error
	// loginError is what a login is answered, with status 200.
	loginError error
	// away is a database that cannot be reached by a login.
	away bool
	// lazy leaves a sale confirmed, as a server does whose configuration puts the
	// processing off; broken makes the processing fail.
	lazy   bool
	broken error
	// processed counts how often each sale was processed.
	processed map[int64]int
	denied    map[string]bool // rights the user lacks, "create sale.sale"
	// caseless makes "=" compare without regard to case.
	caseless bool
	// contexts are those of the calls of models.
	contexts []map[string]any
}

// trytonError is a typed exception.
type trytonError struct {
	kind string
	args any
}

func (e trytonError) Error() string { return fmt.Sprint(e.kind, e.args) }

func userError(format string, args ...any) error {
	return trytonError{"UserError", []any{fmt.Sprintf(format, args...), "", nil}}
}

// textError is any other exception.
type textError string

func (e textError) Error() string { return string(e) }

// notExposed is a method that cannot be called.
type notExposed struct{}

func (notExposed) Error() string { return "not exposed" }

func (s *fakeERP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var all map[string]any
	if err := d.Decode(&all); err != nil || r.Method != http.MethodPost || len(all) != 3 {
		http.Error(w, "Unable to read JSON request", http.StatusBadRequest)
		return
	}
	method, _ := all["method"].(string)
	params, _ := all["params"].([]any)
	if r.URL.Path != "/erp/" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	s.log = append(s.log, method)
	if method == "common.db.login" {
		s.login(w, params)
		return
	}
	auth, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(r.Header.Get("Authorization"), "Session "))
	if !s.sessions[string(auth)] {
		w.Header().Set("WWW-Authenticate", `Basic realm="Tryton"`)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	result, err := s.transaction(method, params)
	if _, ok := err.(notExposed); ok {
		http.Error(w, "<!doctype html><title>403 Forbidden</title>", http.StatusForbidden)
		return
	}
	s.answer(w, result, err)
}

func (s *fakeERP) answer(w http.ResponseWriter, result any, err error) {
	switch e := err.(type) {
	case nil:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 1, "result": result})
	case trytonError:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 1, "error": []any{e.kind, e.args}})
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"id": 1, "error": []any{err.Error(), ""}})
	}
}

func (s *fakeERP) login(w http.ResponseWriter, params []any) {
	s.logins++
	given, _ := params[1].(map[string]any)
	switch {
	case s.away:
		w.WriteHeader(http.StatusNotFound)
	case s.loginError != nil:
		s.answer(w, nil, s.loginError)
	case params[0] != s.user || given["password"] != s.password:
		w.WriteHeader(http.StatusUnauthorized)
	default:
		key := fmt.Sprintf("key%d", s.logins)
		s.sessions[s.user+":2:"+key] = true
		s.answer(w, []any{2, key}, nil)
	}
}

// transaction runs a call and takes everything back when it fails.
func (s *fakeERP) transaction(method string, params []any) (any, error) {
	if s.before != nil {
		if err := s.before(method); err != nil {
			return nil, err
		}
	}
	saved := map[string]map[int64]row{}
	for name, t := range s.tables {
		saved[name] = map[int64]row{}
		for id, r := range t {
			saved[name][id] = maps.Clone(r)
		}
	}
	result, err := s.call(method, params)
	if err != nil {
		s.tables = saved
		return nil, err
	}
	if s.after != nil {
		if err := s.after(method); err != nil {
			return nil, err
		}
	}
	return result, nil
}

func (s *fakeERP) call(method string, params []any) (any, error) {
	parts := strings.Split(method, ".")
	if parts[0] != "model" || len(params) == 0 {
		return nil, notExposed{}
	}
	context, ok := params[len(params)-1].(map[string]any)
	if !ok {
		return nil, textError("Missing context argument")
	}
	name, verb := strings.Join(parts[1:len(parts)-1], "."), parts[len(parts)-1]
	args := params[:len(params)-1]
	switch name {
	case "res.user":
		return map[string]any{"company": 1, "language": "de"}, nil
	case "ir.model.access":
		return s.access(args[0].([]any)), nil
	}
	m := s.models[name]
	if m == nil {
		return nil, textError("'" + name + "'")
	}
	c := &erpCall{s, m, context}
	s.contexts = append(s.contexts, context)
	switch verb {
	case "fields_get":
		return m.describe(), nil
	case "search", "search_read", "search_count":
		return c.search(verb, args)
	case "create":
		return c.create(args[0].([]any))
	case "write":
		return nil, c.write(idsOf(args[0]), args[1].(map[string]any))
	}
	if name == "sale.sale" && slices.Contains([]string{"quote", "confirm", "process", "draft", "cancel"}, verb) {
		return nil, c.button(verb, idsOf(args[0]))
	}
	return nil, notExposed{}
}

func (s *fakeERP) access(models []any) any {
	out := map[string]any{}
	for _, m := range models {
		rights := map[string]any{}
		for _, r := range []string{"read", "write", "create", "delete"} {
			rights[r] = !s.denied[r+" "+m.(string)]
		}
		out[m.(string)] = rights
	}
	return out
}

// erpCall is a call of a method of a model.
type erpCall struct {
	*fakeERP
	m       *fakeModel
	context map[string]any
}

func (c *erpCall) on(model string) *erpCall { return &erpCall{c.fakeERP, c.models[model], c.context} }

func (c *erpCall) rows() map[int64]row { return c.tables[c.m.name] }

func (c *erpCall) search(verb string, args []any) (any, error) {
	var found []int64
	for _, id := range slices.Sorted(maps.Keys(c.rows())) {
		ok, err := c.matches(c.rows()[id], args[0].([]any))
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, id)
		}
	}
	if verb == "search_count" {
		return len(found), nil
	}
	offset, limit := intOf(args[1]), intOf(args[2])
	found = found[min(offset, len(found)):min(offset+limit, len(found))]
	if verb == "search" {
		return append([]int64{}, found...), nil
	}
	out := []any{}
	for _, id := range found {
		r, err := c.read(id, args[4].([]any))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func (c *erpCall) matches(r row, domain []any) (bool, error) {
	if c.context["active_test"] != false && r["active"] == false {
		return false, nil
	}
	for _, x := range domain {
		clause := x.([]any)
		name, op, want := clause[0].(string), clause[1].(string), clause[2]
		f, known := c.m.fields[name]
		if !known {
			return false, textError("'" + name + "'")
		}
		have := c.value(r, name)
		if f.kind == "one2many" {
			have = nil
			for _, id := range c.children(r, f) {
				if id == int64(intOf(want)) {
					have = want
				}
			}
		}
		if c.caseless {
			have, want = strings.ToLower(fmt.Sprint(have)), strings.ToLower(fmt.Sprint(want))
		}
		if op != "=" || !sameValue(have, want) {
			return false, nil
		}
	}
	return true, nil
}

// value is a field's value, computed where it is a function.
func (c *erpCall) value(r row, name string) any {
	switch {
	case name == "rec_name":
		return r["name"]
	case name == "_timestamp":
		return fmt.Sprintf("1795986157.%06d", intOf(r["_stamp"]))
	case c.m.name == "product.product" && name == "code":
		code, _ := c.tables["product.template"][int64(intOf(r["template"]))]["code"].(string)
		suffix, _ := r["suffix_code"].(string)
		return code + suffix
	}
	if f := c.m.fields[name]; f.kind == "one2many" {
		return c.children(r, f)
	}
	return r[name]
}

// children are the ids of a one-to-many field, hidden ones only if asked for.
func (c *erpCall) children(r row, f fakeField) []int64 {
	out := []int64{}
	for _, id := range slices.Sorted(maps.Keys(c.tables[f.relation])) {
		child := c.tables[f.relation][id]
		if sameValue(child[f.back], r["id"]) && (c.context["active_test"] == false || child["active"] != false) {
			out = append(out, id)
		}
	}
	return out
}

func (c *erpCall) read(id int64, names []any) (row, error) {
	r, out := c.rows()[id], row{"id": id}
	for _, n := range names {
		name := n.(string)
		parent, rest, dotted := strings.Cut(name, ".")
		f, known := c.m.fields[parent]
		if !known && name != "_timestamp" {
			return nil, textError("'" + name + "'")
		}
		if !dotted {
			out[name] = c.value(r, name)
			continue
		}
		sub := c.on(f.relation)
		ids := c.children(r, f)
		list, _ := out[parent+"."].([]any)
		for i := len(ids) - 1; i >= 0; i-- { // in an order of the server's own
			x, err := sub.read(ids[i], []any{rest})
			if err != nil {
				return nil, err
			}
			if at := len(ids) - 1 - i; at < len(list) {
				maps.Copy(list[at].(row), x)
			} else {
				list = append(list, x)
			}
		}
		out[parent+"."] = list
	}
	return out, nil
}

func intOf(v any) int {
	n, _ := strconv.Atoi(fmt.Sprint(v))
	return n
}

func idsOf(v any) (out []int64) {
	for _, x := range v.([]any) {
		out = append(out, int64(intOf(x)))
	}
	return out
}

func sameValue(a, b any) bool { return a != nil && b != nil && fmt.Sprint(a) == fmt.Sprint(b) }
