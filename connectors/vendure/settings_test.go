package vendure

import (
	"strings"
	"testing"
	"time"

	"syncd/internal/field"
)

// mapping makes a node of the configuration of names and texts.
func mapping(pairs ...any) *field.Node {
	n := &field.Node{Kind: field.Mapping}
	for i := 0; i < len(pairs); i += 2 {
		v, ok := pairs[i+1].(*field.Node)
		if !ok {
			v = &field.Node{Kind: field.Scalar, Text: pairs[i+1].(string)}
		}
		n.Entries = append(n.Entries, field.Entry{Key: pairs[i].(string), Value: v})
	}
	return n
}

func TestSettingsAreChecked(t *testing.T) {
	const url = "http://shop.example.com/admin-api"
	for _, c := range []struct {
		name string
		in   *field.Node
		want string
	}{
		{"user and password", mapping("url", url, "auth", mapping("user", "a", "password", "${env:SECRET}")), ""},
		{"API key", mapping("url", url, "auth", mapping("api_key", "${env:SECRET}")), ""},
		{"token", mapping("url", url, "auth", mapping("token", "${env:SECRET}")), ""},
		{"nothing to log in with", mapping("url", url), "auth: missing; give user and password, or api_key, or token"},
		{"user without password", mapping("url", url, "auth", mapping("user", "a")), "auth: user and password belong together; give both"},
		{"password without user", mapping("url", url, "auth", mapping("password", "${env:SECRET}")), "auth: user and password belong together; give both"},
		{"two ways", mapping("url", url, "auth", mapping("api_key", "${env:SECRET}", "token", "${env:SECRET}")), "auth: several ways to log in are given; give one of user with password, api_key, or token"},
		{"overlap too short", mapping("url", url, "overlap", "10ms", "auth", mapping("token", "${env:SECRET}")), `overlap: "10ms": out of range; 1s to 1d`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, p := range field.Bind(c.in, &Settings{}, &field.Resolver{Env: []string{"SECRET=s3cret"}}) {
				got = append(got, p.Path+": "+p.Msg)
			}
			if all := strings.Join(got, "\n"); all != c.want {
				t.Errorf("got  %s\nwant %s", all, c.want)
			}
		})
	}
}

func TestDefaultsSuitProduction(t *testing.T) {
	s := &Settings{}
	field.Bind(mapping("url", "http://shop.example.com/admin-api", "auth", mapping("token", "${env:SECRET}")), s, &field.Resolver{Env: []string{"SECRET=s3cret"}})
	if s.Overlap != time.Minute || s.SweepEvery != time.Minute || s.SlowSweepEvery != time.Hour || s.Window != 90*24*time.Hour {
		t.Errorf("%+v", s)
	}
	for _, st := range s.Streams() {
		if !st.CanFetch || !st.VersionIsTime || st.Page != mostPage || st.Doc == "" {
			t.Errorf("%+v", st)
		}
	}
	if len(s.Streams()) != 3 || len(s.Entities()) != 0 {
		t.Error("there are three streams and no entities")
	}
}
