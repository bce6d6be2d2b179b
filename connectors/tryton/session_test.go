package tryton

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
	"syncd/connectors/conformance/hostile"
)

// A session may end at any moment, also between a create and the button after it.
func TestASessionThatEndsIsBegunAgain(t *testing.T) {
	c := newClerk(t, "sale")
	address := c.erp.insert("party.address", row{"party": guest})
	for _, step := range []func() connectors.Outcome{
		func() connectors.Outcome { return c.create(`{"party":6,"invoice_address":7,"shipment_address":7}`) },
		func() connectors.Outcome { return c.advance("8", `{"state":"quotation"}`) },
		func() connectors.Outcome { return c.advance("8", `{"state":"processing"}`) },
	} {
		c.erp.sessions = map[string]bool{}
		if o := step(); o.Class != connectors.Applied {
			t.Fatalf("%+v; address %d", o, address)
		}
	}
	if got := c.erp.sale("K-1"); got != "processing processed 1" || c.erp.logins != 3 {
		t.Errorf("the sale is %s after %d logins", got, c.erp.logins)
	}
}

func TestALoginIsClassified(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *fakeERP)
		class connectors.Class
		text  string
	}{
		{"wrong password", func(s *fakeERP) { s.password = "another" }, connectors.Auth, "login: the login was refused (401 Unauthorized); check user, password and database"},
		{"the database is away", func(s *fakeERP) { s.away = true }, connectors.Transient, "no_database: the server has no such database, or cannot reach it just now (404)"},
		{"the database closed the connection", func(s *fakeERP) { s.loginError = textError("server closed the connection unexpectedly") }, connectors.Transient,
			"login: the login failed: the server's database failed: server closed the connection unexpectedly"},
		{"a second factor", func(s *fakeERP) {
			s.loginError = trytonError{"LoginException", []any{"sms_code", "Code sent to Ada", "char"}}
		}, connectors.Auth,
			"login: the server asks for more than a password; let this user log in with a password alone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := newClerk(t, "party")
			c.spoil(k.erp)
			o := k.create(`{"name":"Ada"}`)
			k.want(o, c.class, c.text)
			if strings.Contains(o.Message, "s3cret") {
				t.Error("the password is in the message")
			}
			if o.MaybeDuplicate || o.Answered {
				t.Errorf("%+v", o)
			}
		})
	}
}

// The server shuts a user out after a few refused logins, so they are not tried
// again at once.
func TestARefusedLoginIsNotRepeatedAtOnce(t *testing.T) {
	c := newClerk(t, "party")
	c.erp.password = "another"
	for range 5 {
		if o := c.create(`{"name":"Ada"}`); o.Class != connectors.Auth {
			t.Fatalf("%+v", o)
		}
	}
	if c.erp.logins != 1 {
		t.Errorf("%d logins", c.erp.logins)
	}
	c.erp.password = "s3cret"
	c.now = c.now.Add(held + time.Second)
	c.want(c.create(`{"name":"Ada"}`), connectors.Applied, "")
}

func TestWhateverTheLoginIsAnsweredNothingOfTheRecordIsInDoubt(t *testing.T) {
	for _, f := range hostile.Faults() {
		if strings.HasPrefix(f.Name, "hang") || strings.HasPrefix(f.Name, "slow") || f.Name == "huge" || f.Name == "gzip_bomb" {
			continue // as slow as they are, the suite tries them
		}
		t.Run(f.Name, func(t *testing.T) {
			c := newClerk(t, "party")
			c.front.Next(f, func(r *http.Request) bool { return !isWrite(r) })
			o := c.create(`{"name":"Ada"}`)
			c.front.Calm()
			switch {
			case o.Class == connectors.Applied:
			case f.Status == 429 || f.Status == 509:
				if o.Class != connectors.Throttled {
					t.Errorf("%+v", o)
				}
			case o.Class == connectors.Unknown:
				t.Errorf("the record is in doubt: %+v", o)
			case o.Class == connectors.Auth && f.Status != 401 && f.Status != 402 && f.Status != 403:
				t.Errorf("taken for a refusal of the credentials: %+v", o)
			case o.Class == connectors.Invalid && (f.Status < 300 || f.Status > 399):
				t.Errorf("the record is refused: %+v", o)
			}
			c.now = c.now.Add(held + time.Second)
			if o := c.create(`{"name":"Ada"}`); o.Class != connectors.Applied && !o.MaybeDuplicate {
				t.Errorf("the next try: %+v", o)
			}
		})
	}
}

func TestThePasswordIsSentOncePerSession(t *testing.T) {
	c := newClerk(t, "party")
	for range 3 {
		c.find()
	}
	if c.erp.logins != 1 {
		t.Errorf("%d logins", c.erp.logins)
	}
}
