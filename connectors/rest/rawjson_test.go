package rest

import (
	"strings"
	"testing"
)

func TestListsComeInManyShapes(t *testing.T) {
	for _, c := range []struct{ name, json, want, bad string }{
		{"list", `[{"id":1},{"id":2}]`, `{"id":1} {"id":2}`, ""},
		{"object with numbers for names", `{"10":{"id":3},"0":{"id":1},"2":{"id":2}}`, `{"id":1} {"id":2} {"id":3}`, ""},
		{"null", `null`, ``, ""},
		{"empty object", `{}`, ``, ""},
		{"object", `{"0":1,"next":2}`, ``, `not an object with the member "next"`},
		{"text", `"none"`, ``, "expected a list, not a text"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, err := raw(c.json).list()
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Errorf("error %v; want one that says %q", err, c.bad)
				}
				return
			}
			var parts []string
			for _, v := range l {
				parts = append(parts, string(v))
			}
			if got := strings.Join(parts, " "); err != nil || got != c.want {
				t.Errorf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

func TestBodiesAreReadWholeOrNotAtAll(t *testing.T) {
	for _, c := range []struct{ name, body, bad string }{
		{"plain", `{"id":1}`, ""},
		{"byte-order mark", "\xef\xbb\xbf{\"id\":1}", ""},
		{"blank lines", "\n\n{\"id\":1}\r\n", ""},
		{"warning first", "<br />\n<b>Warning</b>: x\n{\"id\":1}", "begins like HTML or XML"},
		{"rubbish last", `{"id":1}` + "\n<br />PHP Notice", "the body is not JSON"},
		{"half", `{"id":1`, "the body is not JSON"},
		{"empty", " \n", "the body is empty"},
		{"secrets are not shown", `{"card":"4111111111111111"`, "the body is not JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(c.body))
			switch {
			case c.bad == "" && err != nil:
				t.Error(err)
			case c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)):
				t.Errorf("error %v; want one that says %q", err, c.bad)
			case err != nil && strings.Contains(err.Error(), "4111"):
				t.Errorf("the error shows the payload: %v", err)
			}
		})
	}
}

func TestPathsLeadIntoAndThroughValues(t *testing.T) {
	doc := raw(`{"a":{"b.c":[{"d":7},{"d":8}]},"e":null,"twice":1,"twice":2}`)
	for _, c := range []struct{ path, want, bad string }{
		{".", string(doc), ""},
		{`a.b\.c.1.d`, "8", ""},
		{`a.b\.c.9.d`, "", ""},
		{`a.x.y`, "", ""},
		{`e`, "null", ""},
		{`e.f`, "", ""},
		{`twice`, "", `"twice" stands twice`},
	} {
		v, found, err := mustPath(c.path).in(doc)
		if c.bad != "" {
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%s: error %v", c.path, err)
			}
			continue
		}
		if err != nil || found != (c.want != "") || string(v) != c.want {
			t.Errorf("%s: got %s, %v, %v; want %s", c.path, v, found, err, c.want)
		}
	}
	for _, c := range []struct{ path, doc, val, want string }{
		{"a", `{"b":1}`, `2`, `{"a":2,"b":1}`},
		{"a.b", `{"n":9007199254740993}`, `"x"`, `{"a":{"b":"x"},"n":9007199254740993}`},
		{"a.b", `{"a":null}`, `1`, `{"a":{"b":1}}`},
		{"order", ``, `{"x":1.50}`, `{"order":{"x":1.50}}`},
	} {
		got, err := mustPath(c.path).put(raw(c.doc), raw(c.val))
		if err != nil || string(got) != c.want {
			t.Errorf("put %s: got %s, %v; want %s", c.path, got, err, c.want)
		}
	}
	if _, err := mustPath("a.b").put(raw(`{"a":[1]}`), raw(`1`)); err == nil {
		t.Error("a list was replaced by an object")
	}
	for _, bad := range []string{"", "a..b", ".a", "a."} {
		if err := new(path).Set(bad); err == nil {
			t.Errorf("path %q was taken", bad)
		}
	}
}

func TestATemplateIsFilledWithoutBreakingOut(t *testing.T) {
	f := fill{"key": `a/b ?#%;,+"ü`, "limit": "50", "since": "2026-11-29T10:00:00Z"}
	if got, err := f.path("/items/{key}"); err != nil || got != "/items/a%2Fb%20%3F%23%25%3B%2C%2B%22%C3%BC" {
		t.Errorf("path %s, %v", got, err)
	}
	for _, key := range []string{"", ".", ".."} {
		if got, err := (fill{"key": key}).path("/items/{key}"); err == nil {
			t.Errorf("key %q made the path %s", key, got)
		}
	}
	if _, err := f.path("/items/{link}"); err == nil {
		t.Error("a path was made without its link")
	}
	q := f.query(map[string]string{"filter": "updated_at:>='{since}'", "cursor": "{cursor}", "status": "any"})
	if got := q.Encode(); got != "filter=updated_at%3A%3E%3D%272026-11-29T10%3A00%3A00Z%27&status=any" {
		t.Errorf("query %s", got)
	}
	body, err := f.body([]byte(`{"limit":"{limit}","n":9007199254740993,"after":"{cursor}","filter":[{"gte":"{since}","q":"{key}"},"{cursor}"]}`))
	want := `{"filter":[{"gte":"2026-11-29T10:00:00Z","q":"a/b ?#%;,+\"ü"}],"limit":50,"n":9007199254740993}`
	if err != nil || string(body) != want {
		t.Errorf("body %s, %v\nwant %s", body, err, want)
	}
}

func TestRecordsAreComparedByWhatIsAskedFor(t *testing.T) {
	for _, c := range []struct {
		name, have, want string
		same             bool
	}{
		{"more fields in the target", `{"a":1,"b":2}`, `{"a":1}`, true},
		{"other value", `{"a":1}`, `{"a":2}`, false},
		{"missing field", `{}`, `{"a":null}`, false},
		{"number written otherwise", `{"a":10.00}`, `{"a":10}`, true},
		{"long numbers", `{"a":9007199254740993}`, `{"a":9007199254740992}`, false},
		{"text is not a number", `{"a":"1"}`, `{"a":1}`, false},
		{"escapes", `{"a":"\u00fc"}`, `{"a":"ü"}`, true},
		{"lists in order", `{"a":[1,{"b":2,"c":3}]}`, `{"a":[1,{"b":2}]}`, true},
		{"longer list", `{"a":[1,2]}`, `{"a":[1]}`, false},
		{"huge exponents cost nothing", `{"a":1e999999999}`, `{"a":1e999999998}`, false},
	} {
		if got := covers(raw(c.have), raw(c.want)); got != c.same {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
