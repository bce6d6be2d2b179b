package postgres

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"syncd/connectors"
	"syncd/internal/field"
)

// node makes a configuration tree of maps, lists and texts.
func node(v any) *field.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &field.Node{Kind: field.Mapping}
		for k, x := range v {
			n.Entries = append(n.Entries, field.Entry{Key: k, Value: node(x)})
		}
		return n
	case []any:
		n := &field.Node{Kind: field.Sequence}
		for _, x := range v {
			n.Items = append(n.Items, node(x))
		}
		return n
	}
	return &field.Node{Kind: field.Scalar, Text: v.(string)}
}

func bind(tree map[string]any, env ...string) (*Settings, string) {
	s := &Settings{}
	var all []string
	for _, p := range field.Bind(node(tree), s, &field.Resolver{Env: env}) {
		all = append(all, p.Path+": "+p.Msg)
	}
	return s, strings.Join(all, "\n")
}

func TestBrokenURLShowsNoPartOfThePassword(t *testing.T) {
	const want = "dsn: not a URL such as postgres://user:password@host:5432/database; percent-encode the password (# is %23, / is %2F, % is %25), " +
		"or give host, database, user and password in fields of their own"
	for name, dsn := range map[string]string{
		"hash": "postgres://sync:mypass12#@db:5432/app", "percent": "postgres://sync:my%pass@db/app", "slash": "postgres://sync:some cool/word@db:5432/app",
		"slash alone": "postgres://sync:a/b@db/app", "other form": "host=db password=mypass12", "other scheme": "mysql://sync:mypass12@db/app", "bad port": "postgres://sync:mypass12@db:port/app",
		"bad mode": "postgres://sync:mypass12@db/app?sslmode=sometimes", "missing file": "postgres://sync:mypass12@db/app?sslrootcert=/nowhere",
	} {
		t.Run(name, func(t *testing.T) {
			s, got := bind(map[string]any{"dsn": "${env:DSN}"}, "DSN="+dsn)
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if _, err := s.Open(t.Context(), connectors.Env{Client: "erp", Gate: &gate{}}); err == nil || strings.Contains(err.Error(), "mypass") || !strings.Contains(err.Error(), "percent-encode the password") {
				t.Errorf("open: %v", err)
			}
		})
	}
}

func TestPasswordIsTakenAsItIs(t *testing.T) {
	for _, password := range []string{"mypass12#", "my%pass", "a/b", "ab%41c", `it's \ "q" `, "$1 $$ ${x}", "\u00e4\u00df"} {
		t.Run(password, func(t *testing.T) {
			s, problems := bind(map[string]any{"host": "127.0.0.1", "database": "app", "user": "sync", "password": "${env:PW}"}, "PW="+password)
			if problems != "" {
				t.Fatal(problems)
			}
			text, err := s.connString()
			if err != nil {
				t.Fatal(err)
			}
			c, err := pgx.ParseConfig(text)
			if err != nil || c.Password != password || c.User != "sync" || c.Database != "app" || c.Port != 5432 {
				t.Errorf("password %q, user %q (%v)", c.Password, c.User, err)
			}
			if shown := fmt.Sprintf("%v %+v %#v", s, s, s); strings.Contains(shown, password) {
				t.Errorf("shown: %s", shown)
			}
		})
	}
}

func TestServerIsVerifiedUnlessItIsThisMachine(t *testing.T) {
	for name, c := range map[string]struct {
		tree map[string]any
		want string
	}{
		"name":           {map[string]any{"host": "db.example.com"}, "verify-full"},
		"address":        {map[string]any{"host": "10.0.0.5"}, "verify-full"},
		"this machine":   {map[string]any{"host": "localhost"}, "prefer"},
		"loopback":       {map[string]any{"host": "127.0.0.1"}, "prefer"},
		"loopback 6":     {map[string]any{"host": "::1"}, "prefer"},
		"socket":         {map[string]any{"host": "/run/postgresql"}, "prefer"},
		"one of two":     {map[string]any{"host": "localhost,db2"}, "verify-full"},
		"said":           {map[string]any{"host": "db", "sslmode": "require"}, "require"},
		"URL":            {map[string]any{"dsn": "postgres://u:p@db/app"}, "verify-full"},
		"URL, here":      {map[string]any{"dsn": "postgres://u:p@localhost:5433/app"}, "prefer"},
		"URL, said":      {map[string]any{"dsn": "postgres://u:p@db/app?sslmode=disable"}, "disable"},
		"URL, loopback6": {map[string]any{"dsn": "postgres://u:p@[::1]:5433/app"}, "prefer"},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Settings{}
			field.Declare(s)
			if dsn, ok := c.tree["dsn"].(string); ok {
				s.DSN = field.NewSecret(dsn)
			} else {
				s.Host, s.Database, s.User = c.tree["host"].(string), "app", "u"
				if m, ok := c.tree["sslmode"].(string); ok {
					s.SSLMode = m
				}
			}
			text, err := s.connString()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(text, "sslmode="+c.want) && !strings.Contains(text, "sslmode='"+c.want+"'") {
				t.Errorf("got %s", text)
			}
		})
	}
}

func TestMistakesInTheConfigurationAreNamed(t *testing.T) {
	conn := map[string]any{"host": "127.0.0.1", "database": "app", "user": "u"}
	for name, c := range map[string]struct {
		tree map[string]any
		want string
	}{
		"nothing":     {map[string]any{"host": nil}, ""},
		"no database": {map[string]any{"host": "db", "user": "u", "database": nil}, "database: missing; give host, database, user and password, or dsn"},
		"no key":      {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "erp.orders"}}}, "entities.o.key: missing; give a list of texts, for example number"},
		"table of three": {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "db.erp.orders", "key": []any{"n"}}}},
			"entities.o.table: more than two names; write schema.table, and a name that holds a dot in double quotes; write for example erp.orders"},
		"open quote":       {map[string]any{"entities": map[string]any{"o": map[string]any{"table": `"erp.orders`, "key": []any{"n"}}}}, "entities.o.table: a double quote is not closed; write for example erp.orders"},
		"name too long":    {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o", "key": []any{strings.Repeat("x", 64)}}}}, "entities.o.key: a name longer than 63 bytes, which PostgreSQL does not keep cannot be a column; write the column's name as the database has it, without quotes"},
		"NUL":              {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o\x00", "key": []any{"n"}}}}, "entities.o.table: a name with the character U+0000; write for example erp.orders"},
		"observed alone":   {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o", "key": []any{"n"}, "observed": "s"}}}, "entities.o.observed: of no use without version; name a bigint column there"},
		"column for two":   {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o", "key": []any{"n"}, "version": "n"}}}, "entities.o.version: the column is used for something else, too; give it one of its own"},
		"value alone":      {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o", "key": []any{"n"}, "gone": map[string]any{"value": "x"}}}}, "entities.o.gone.column: missing; name the column to set"},
		"keys without key": {map[string]any{"entities": map[string]any{"o": map[string]any{"table": "o", "key": []any{"n"}, "children": map[string]any{"l": map[string]any{"table": "l", "parent": []any{"o"}, "mode": "keys"}}}}}, "entities.o.children.l.key: missing; mode keys needs the columns that tell the children apart"},
		"poll without it":  {map[string]any{"streams": map[string]any{"s": map[string]any{"table": "o", "id": "id"}}}, "streams.s.version: missing; name the column that grows with every change, for example updated_at"},
		"outbox of body":   {map[string]any{"streams": map[string]any{"s": map[string]any{"table": "o", "mode": "outbox", "id": "record"}}}, "streams.s.body: missing; name the column with the record as JSON"},
		"poll with xid":    {map[string]any{"streams": map[string]any{"s": map[string]any{"table": "o", "id": "id", "version": "v", "xid": "x"}}}, "streams.s.xid: only for mode outbox; take it out"},
		"event is id":      {map[string]any{"streams": map[string]any{"s": map[string]any{"table": "o", "mode": "outbox", "id": "id", "body": "b"}}}, "streams.s.event: the same as id; event is the event's number, id the record that it is about"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := map[string]any{}
			for k, v := range conn {
				tree[k] = v
			}
			for k, v := range c.tree {
				tree[k] = v
			}
			for k, v := range tree {
				if v == nil {
					if delete(tree, k); k == "host" {
						tree["host"] = "127.0.0.1"
					}
				}
			}
			if _, got := bind(tree); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	if _, got := bind(map[string]any{"dsn": "${env:D}", "user": "u"}, "D=postgres://localhost/app"); got != "user: given beside dsn, which says it already; use one of them" {
		t.Errorf("got %s", got)
	}
}

func TestNamesOfTablesAreReadAsSQLDoes(t *testing.T) {
	for in, want := range map[string]string{
		"orders": `"public"."orders"`, "erp.orders": `"erp"."orders"`, `"Erp"."Or.ders"`: `"Erp"."Or.ders"`, `erp."a""b"`: `"erp"."a""b"`, "Erp.ORDERS": `"Erp"."ORDERS"`,
		`x"; DROP TABLE y; --`: `"public"."x""; DROP TABLE y; --"`,
	} {
		n, err := parseTable(in)
		if err != nil || n.quoted() != want {
			t.Errorf("%s: %s, %v; want %s", in, n.quoted(), err, want)
		}
	}
	for _, in := range []string{"", ".", "a.", ".a", "a.b.c", `"a`, `"a"b`, `""`} {
		if n, err := parseTable(in); err == nil {
			t.Errorf("%q: read as %s", in, n.quoted())
		}
	}
}

func TestWhatEntitiesAndStreamsSayOfThemselves(t *testing.T) {
	s, problems := bind(map[string]any{"host": "localhost", "database": "a", "user": "u", "statement_timeout": "5s",
		"entities": map[string]any{
			"order": map[string]any{"table": "o", "key": []any{"n"}, "version": "v", "link": []any{"id"}, "gone": map[string]any{"column": "g"}, "children": map[string]any{"lines": map[string]any{"table": "l", "parent": []any{"o"}}}},
			"plain": map[string]any{"table": "p", "key": []any{"a", "b"}}},
		"streams": map[string]any{
			"events": map[string]any{"table": "e", "mode": "outbox", "id": "record", "body": "b"},
			"rows":   map[string]any{"table": "r", "id": "id", "version": "updated_at", "deleted": "d"}}})
	if problems != "" {
		t.Fatal(problems)
	}
	e := s.Entities()
	if len(e) != 2 || e[0].Name != "order" || !e[0].Guarded || e[0].MaxBatch != 500 || e[0].SettleTime != 5*time.Second || !e[0].Renames || len(e[0].Removals) != 2 ||
		e[0].Children["lines"] != connectors.Replaces || !e[0].Carries(connectors.NaturalKey) || !e[0].Carries(connectors.ExternalRef) || !e[0].Carries(connectors.Lookup) {
		t.Errorf("order: %+v", e)
	}
	if e[1].Guarded || e[1].Renames || len(e[1].Removals) != 1 || e[1].Strategies[0].Field != "a, b (unique index)" {
		t.Errorf("plain: %+v", e[1])
	}
	st := s.Streams()
	if len(st) != 2 || st[0].Name != "events" || st[0].CanFetch || !st[0].Log || st[0].VersionIsTime || st[1].Log || !st[1].CanFetch || !st[1].VersionIsTime || !st[1].Tombstones {
		t.Errorf("streams: %+v", st)
	}
	if c := Connector(); c.Name != "postgres" || c.Doc == "" || c.Settings() == nil {
		t.Errorf("connector %+v", c)
	}
}
