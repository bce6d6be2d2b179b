package vendure

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator"
	"github.com/vektah/gqlparser/v2/validator/rules"
)

//go:embed testdata/admin.graphql
var adminSchema string

// row is a record of the shop. What a row does not hold is null, or empty where
// the schema allows no null.
type row map[string]any

// fakeShop is an admin API over rows in memory. It refuses what the schema does
// not know, and behaves as Vendure 3.7 on PostgreSQL was seen to.
type fakeShop struct {
	schema *ast.Schema

	mu     sync.Mutex
	clock  func() time.Time
	tables map[string][]row // by root field
	ids    int
	docs   map[string]*ast.QueryDocument

	user, password string
	sessions       map[string]bool
	apiKeys        map[string]bool
	logins         int
	mayNot         string // a root field that the user may not read
	noToken        bool   // tokenMethod lacks bearer
	broken         string // the code of an error that every query gets
	repeat         bool   // every list is answered with its first page
	half           bool   // data and an error together
	unsorted       bool   // the latest first, whatever is asked for
	asked          int
	generous       bool // a list is answered with all that fits, whatever is asked for
	confused       bool // a record that is asked for is answered with another
	before         func(root string)
	log            []asked
}

// asked is one query as it came.
type asked struct {
	root    string
	header  http.Header
	options map[string]any
	light   bool
}

func newFakeShop(clock func() time.Time) *fakeShop {
	return &fakeShop{schema: gqlparser.MustLoadSchema(&ast.Source{Name: "admin.graphql", Input: adminSchema}), clock: clock,
		tables: map[string][]row{}, docs: map[string]*ast.QueryDocument{}, user: "reader", password: "pa55word",
		sessions: map[string]bool{}, apiKeys: map[string]bool{}}
}

func (s *fakeShop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Date", s.clock().UTC().Format(http.TimeFormat))
	var req struct {
		Query     string         `json:"query"`
		Variables map[string]any `json:"variables"`
	}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &req); err != nil || r.Method != http.MethodPost {
		s.fail(w, 400, "BAD_REQUEST", "no query")
		return
	}
	doc, vars, code, err := s.load(req.Query, req.Variables)
	if err != nil {
		s.fail(w, 400, code, err.Error())
		return
	}
	op := doc.Operations[0]
	field := op.SelectionSet[0].(*ast.Field)
	args := field.ArgumentMap(vars)
	if field.Name == "login" {
		s.login(w, field, args)
		return
	}
	options, _ := args["options"].(map[string]any)
	items := strings.Contains(req.Query, "createdAt:DESC")
	s.log = append(s.log, asked{root: field.Name, header: r.Header.Clone(), options: options, light: options != nil && !items})
	if s.before != nil {
		s.before(field.Name)
	}
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !s.sessions[token] && !s.apiKeys[r.Header.Get("vendure-api-key")], s.mayNot == field.Name:
		s.fail(w, 200, "FORBIDDEN", "You are not currently authorized to perform this action")
		return
	case s.broken != "":
		s.fail(w, 200, s.broken, "something went wrong")
		return
	}
	v, err := s.root(field, args, vars)
	if err != nil {
		s.fail(w, 200, "USER_INPUT_ERROR", err.Error())
		return
	}
	answer := map[string]any{"data": map[string]any{field.Alias: v}}
	if s.half {
		answer["errors"] = []any{gqlFailure("INTERNAL_SERVER_ERROR", "one of the records could not be read")}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// load parses and checks a document, and coerces its variables.
func (s *fakeShop) load(text string, given map[string]any) (*ast.QueryDocument, map[string]any, string, error) {
	doc := s.docs[text]
	if doc == nil {
		d, errs := gqlparser.LoadQueryWithRules(s.schema, text, rules.NewDefaultRules())
		if len(errs) > 0 {
			return nil, nil, "GRAPHQL_VALIDATION_FAILED", errs
		}
		doc = d
		s.docs[text] = doc
	}
	vars, err := validator.VariableValues(s.schema, doc.Operations[0], given)
	if err != nil {
		return nil, nil, "BAD_USER_INPUT", err
	}
	return doc, vars, "", nil
}

func gqlFailure(code, message string) map[string]any {
	return map[string]any{"message": message, "extensions": map[string]any{"code": code}}
}

func (s *fakeShop) fail(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"errors": []any{gqlFailure(code, message)}, "data": nil})
}

func (s *fakeShop) login(w http.ResponseWriter, f *ast.Field, args map[string]any) {
	s.logins++
	who := row{"__typename": "InvalidCredentialsError", "errorCode": "INVALID_CREDENTIALS_ERROR", "message": "The provided credentials are invalid"}
	switch {
	case s.broken != "":
		s.fail(w, 200, s.broken, "the database is away")
		return
	case args["username"] == s.user && args["password"] == s.password:
		token := "session-" + strconv.Itoa(s.logins)
		s.sessions[token] = true
		if !s.noToken {
			w.Header().Set("vendure-auth-token", token)
		}
		who = row{"__typename": "CurrentUser", "identifier": s.user}
	}
	out, _ := s.object(s.schema.Types[who["__typename"].(string)], f.SelectionSet, who, nil)
	_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{f.Alias: out}})
}

// root answers a root field: a list, or one record.
func (s *fakeShop) root(f *ast.Field, args, vars map[string]any) (any, error) {
	if id, one := args["id"]; one {
		for _, r := range s.tables[f.Name+"s"] {
			if r["id"] == id || s.confused {
				return s.object(s.schema.Types[f.Definition.Type.Name()], f.SelectionSet, r, vars)
			}
		}
		return nil, nil
	}
	options, _ := args["options"].(map[string]any)
	return s.page(f, s.tables[f.Name], options, vars, 1000)
}

// page answers a list type.
func (s *fakeShop) page(f *ast.Field, all []row, options, vars map[string]any, most int) (any, error) {
	take, skip := intOf(options["take"], most), intOf(options["skip"], 0)
	if take > most {
		return nil, fmt.Errorf("the list query limit is %d", most)
	}
	if s.generous {
		take = most
	}
	filter, _ := options["filter"].(map[string]any)
	var found []row
	for _, r := range all {
		if s.repeat || matches(r, filter) {
			found = append(found, r)
		}
	}
	s.asked++
	if n := len(found); n > 1 { // as a database may, when nothing is said of the order
		found = append(found[s.asked%n:], found[:s.asked%n]...)
	}
	order, _ := options["sort"].(map[string]any)
	s.sort(found, f.Definition.Arguments.ForName("options").Type.Name(), order)
	if s.repeat {
		skip = 0
	}
	if s.unsorted {
		slices.Reverse(found)
	}
	list := row{"totalItems": len(found), "items": found[min(skip, len(found)):min(skip+take, len(found))]}
	return s.object(s.schema.Types[f.Definition.Type.Name()], f.SelectionSet, list, vars)
}

// object picks the selected fields of a row.
func (s *fakeShop) object(def *ast.Definition, sel ast.SelectionSet, r row, vars map[string]any) (map[string]any, error) {
	out := map[string]any{}
	for _, x := range sel {
		switch x := x.(type) {
		case *ast.InlineFragment:
			if def.Name != x.TypeCondition && !slices.Contains(def.Interfaces, x.TypeCondition) {
				continue
			}
			more, err := s.object(def, x.SelectionSet, r, vars)
			if err != nil {
				return nil, err
			}
			for k, v := range more {
				out[k] = v
			}
		case *ast.Field:
			v, err := s.value(def, x, r, vars)
			if err != nil {
				return nil, err
			}
			out[x.Alias] = v
		}
	}
	return out, nil
}

func (s *fakeShop) value(def *ast.Definition, f *ast.Field, r row, vars map[string]any) (any, error) {
	if f.Name == "__typename" {
		return def.Name, nil
	}
	t := f.Definition.Type
	if f.Name == "history" {
		entries, _ := r["history"].([]row)
		options, _ := f.ArgumentMap(vars)["options"].(map[string]any)
		return s.page(f, entries, options, vars, 1000)
	}
	v, ok := r[f.Name]
	if !ok || v == nil {
		if !t.NonNull {
			return nil, nil
		}
		v = s.zero(t, r)
	}
	of := s.schema.Types[t.Name()]
	switch v := v.(type) {
	case row:
		return s.object(of, f.SelectionSet, v, vars)
	case []row:
		list := []any{}
		for _, x := range v {
			o, err := s.object(of, f.SelectionSet, x, vars)
			if err != nil {
				return nil, err
			}
			list = append(list, o)
		}
		return list, nil
	case time.Time:
		return v.UTC().Format("2006-01-02T15:04:05.000Z"), nil // cut, not rounded
	}
	return v, nil
}

// zero is the empty value of a type that allows no null.
func (s *fakeShop) zero(t *ast.Type, r row) any {
	if t.Elem != nil {
		return []any{}
	}
	def := s.schema.Types[t.Name()]
	switch {
	case t.Name() == "DateTime":
		return r["createdAt"]
	case t.Name() == "Boolean":
		return false
	case t.Name() == "Int", t.Name() == "Money", t.Name() == "Float":
		return 0
	case def.Kind == ast.Enum:
		return def.EnumValues[0].Name
	case def.Kind == ast.Object:
		return row{}
	}
	return ""
}

func intOf(v any, def int) int {
	switch n := v.(type) {
	case int64:
		return int(n)
	case int:
		return n
	case float64:
		return int(n)
	case json.Number:
		i, _ := n.Int64()
		return int(i)
	}
	return def
}

// matches applies a filter. Operators on one field all have to hold.
func matches(r row, filter map[string]any) bool {
	for name, ops := range filter {
		for op, operand := range ops.(map[string]any) {
			if !holds(r[name], op, operand) {
				return false
			}
		}
	}
	return true
}

func holds(v any, op string, operand any) bool {
	if op == "isNull" {
		return (v == nil) == operand.(bool)
	}
	if v == nil {
		return false
	}
	if t, ok := v.(time.Time); ok {
		return holdsTime(t, op, operand)
	}
	switch op {
	case "eq":
		return v == operand
	case "in":
		return slices.ContainsFunc(operand.([]any), func(x any) bool { return v == x })
	}
	panic("the fake shop does not know the operator " + op)
}

// holdsTime compares to the microsecond; a bound is cut to the millisecond, as
// a JavaScript date is.
func holdsTime(t time.Time, op string, operand any) bool {
	t = t.Truncate(time.Microsecond)
	bound := func(v any) time.Time {
		b, err := time.Parse(time.RFC3339Nano, v.(string))
		if err != nil {
			panic(err)
		}
		return b.Truncate(time.Millisecond)
	}
	switch op {
	case "after":
		return t.After(bound(operand))
	case "before":
		return t.Before(bound(operand))
	case "between":
		r := operand.(map[string]any)
		return !t.Before(bound(r["start"])) && !t.After(bound(r["end"]))
	}
	panic("the fake shop does not know the operator " + op)
}

// sort sorts by the given fields, in the order in which the schema names them,
// as an input object is coerced; rows that are equal in these come as they like.
func (s *fakeShop) sort(rows []row, options string, order map[string]any) {
	def := s.schema.Types[s.schema.Types[options].Fields.ForName("sort").Type.Name()]
	slices.SortStableFunc(rows, func(a, b row) int {
		for _, f := range def.Fields {
			dir, ok := order[f.Name]
			if !ok {
				continue
			}
			c := compare(a[f.Name], b[f.Name])
			if dir == "DESC" {
				c = -c
			}
			if c != 0 {
				return c
			}
		}
		return 0
	})
}

func compare(a, b any) int {
	if t, ok := a.(time.Time); ok {
		u, _ := b.(time.Time)
		return t.Truncate(time.Microsecond).Compare(u.Truncate(time.Microsecond))
	}
	i, _ := a.(string)
	j, _ := b.(string)
	return cmp.Or(cmp.Compare(len(i), len(j)), cmp.Compare(i, j))
}
