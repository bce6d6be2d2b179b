package tryton

import (
	"encoding/json"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestExceptionsAreClassified(t *testing.T) {
	const (
		invalid   = connectors.Invalid
		unknown   = connectors.Unknown
		transient = connectors.Transient
	)
	for _, c := range []struct {
		name        string
		answer      string
		write, read connectors.Class
		answered    bool
		text        string
	}{
		{"unique", `["UserError",["The code on party must be unique.","",null]]`, invalid, invalid, false, "user_error: The code on party must be unique."},
		{"required", `["UserError",["A value is required for field \"Default UOM\" in \"Product Template\".","",null]]`, invalid, invalid, false,
			`user_error: A value is required for field "Default UOM" in "Product Template".`},
		{"access", `["UserError",["You are not allowed to access \"User\".","",null]]`, invalid, invalid, false, `user_error: You are not allowed to access "User".`},
		{"without details", `["UserError"]`, invalid, invalid, false, "user_error: refused"},
		{"a warning", `["UserWarning",["party_erase_12","Ada Lovelace has sales.",""]]`, invalid, invalid, false,
			"user_warning: the server wants a person to confirm: Ada Lovelace has sales."},
		{"changed meanwhile", `["ConcurrencyException","Records were modified in the meanwhile"]`, connectors.Conflict, connectors.Conflict, false,
			"concurrency: the record was changed meanwhile"},
		{"login", `["LoginException",["password","Password for Ada","password"]]`, connectors.Auth, connectors.Auth, false, "login: the session is refused"},
		{"logins", `["RateLimitException"]`, connectors.Throttled, connectors.Throttled, false, "rate_limit: too many logins"},
		// Exceptions that have nothing but a text.
		{"unknown field", `["'nope'",""]`, unknown, transient, true, "exception: the server failed: 'nope'"},
		{"a field that sounds like trouble", `["'lock_date'",""]`, unknown, transient, true, "exception: the server failed: 'lock_date'"},
		{"no setter", `["Missing setter function for field \"Full Name\" in \"Party\".",""]`, unknown, transient, true,
			`exception: the server failed: Missing setter function for field "Full Name" in "Party".`},
		{"decimal", `["[<class 'decimal.ConversionSyntax'>]",""]`, unknown, transient, true, "exception: the server failed: [<class '…'>]"},
		{"a number that is none", `["invalid literal for int() with base 10: 'Ada'",""]`, unknown, transient, true,
			"exception: the server failed: invalid literal for int() with base 10: '…'"},
		{"a defect", `["'NoneType' object has no attribute 'id'",""]`, unknown, transient, true, "exception: the server failed: '…' object has no attribute '…'"},
		// Trouble that has nothing to do with the record.
		{"database closed", `["server closed the connection unexpectedly\n\tThis probably means the server terminated abnormally",""]`, unknown, transient, false,
			"database: the server's database failed: server closed the connection unexpectedly"},
		{"terminated", `["terminating connection due to administrator command",""]`, unknown, transient, false, "database: the server's database failed: terminating connection due to administrator command"},
		{"recovery", `["FATAL:  the database system is in recovery mode",""]`, unknown, transient, false, "database: the server's database failed: FATAL:  the database system is in recovery mode"},
		{"starting", `["FATAL:  the database system is starting up",""]`, unknown, transient, false, "database: the server's database failed: FATAL:  the database system is starting up"},
		{"refused", `["connection to server at \"127.0.0.1\", port 5432 failed: Connection refused",""]`, unknown, transient, false,
			"database: the server's database failed: connection to server at \"…\", port 5432 failed: Connection refused"},
		{"too many", `["FATAL:  sorry, too many clients already",""]`, unknown, transient, false, "database: the server's database failed: FATAL:  sorry, too many clients already"},
		{"serialization", `["could not serialize access due to concurrent update",""]`, unknown, transient, false, "database: the server's database failed: could not serialize access due to concurrent update"},
		{"deadlock", `["deadlock detected\nDETAIL:  Process 12 waits",""]`, unknown, transient, false, "database: the server's database failed: deadlock detected"},
		{"lock", `["could not obtain lock on row in relation \"sale_sale\"",""]`, unknown, transient, false, `database: the server's database failed: could not obtain lock on row in relation "sale_sale"`},
		{"timeout", `["canceling statement due to statement timeout",""]`, unknown, transient, false, "database: the server's database failed: canceling statement due to statement timeout"},
		{"disk", `["could not extend file \"base/1/2\": No space left on device",""]`, unknown, transient, false, `database: the server's database failed: could not extend file "…": No space left on device`},
		{"read-only", `["cannot execute INSERT in a read-only transaction",""]`, unknown, transient, false, "database: the server's database failed: cannot execute INSERT in a read-only transaction"},
		{"SQLite", `["database is locked",""]`, unknown, transient, false, "database: the server's database failed: database is locked"},
		{"pool", `["connection pool exhausted",""]`, unknown, transient, false, "database: the server's database failed: connection pool exhausted"},
		{"cursor", `["cursor already closed",""]`, unknown, transient, false, "database: the server's database failed: cursor already closed"},
		{"not a list", `"?"`, unknown, transient, false, "exception: the server failed"},
		{"empty", `[]`, unknown, transient, false, "exception: the server failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for write, want := range map[bool]connectors.Class{true: c.write, false: c.read} {
				o := exception(json.RawMessage(c.answer), write, nil)
				if o.Class != want || o.Code+": "+o.Message != c.text || o.Answered != (c.answered && write) {
					t.Errorf("write %v: got %s (answered %v)\n%s: %s\nwant %s (answered %v)\n%s", write, o.Class, o.Answered, o.Code, o.Message, want, c.answered, c.text)
				}
			}
		})
	}
}

func TestNoErrorRepeatsWhatACustomerWrote(t *testing.T) {
	hide := texts(nil, "Ada")
	hide = texts(hide, "ada@example.com")
	hide = texts(hide, "12 Analytical Row\nEngine House")
	hide = texts(hide, "x\"y")
	for _, c := range []struct{ name, text, want string }{
		{"a value that is quoted", `The value "Ada" for field "Name" in "Party" contains some invalid chars "'\n'".`,
			`The value "…" for field "Name" in "Party" contains some invalid chars "…".`},
		{"a value with a quote in it", `The value "x"y" for field "Name" in "Party" is not one of the allowed options.`,
			`The value "…" for field "Name" in "Party" is not one of the allowed options.`},
		{"a value that is not of this record", `The phone number "+49 30 1" for party "Byron" is not valid.`, `The phone number "…" for party "…" is not valid.`},
		{"a value that is not quoted", `Mail to ada@example.com failed for Ada.`, `Mail to … failed for ….`},
		{"a line of a text", `No subdivision at Engine House.`, `No subdivision at ….`},
		{"a whole text", "Cannot place 12 Analytical Row\nEngine House on the map.", "Cannot place … on the map."},
		{"a record's name", `To get a quote for sale "[Ada]" you must enter an invoice address.`, `To get a quote for sale "…" you must enter an invoice address.`},
		{"other quotes", `Die Partei “Byron” und «Byron» im Feld "Name".`, `Die Partei "…" und "…" im Feld "…".`},
		{"names stay", `You are not allowed to access "Party.Name".`, `You are not allowed to access "Party.Name".`},
		{"a state stays", `To modify the header of sale "12", it must be in "draft" state.`, `To modify the header of sale "…", it must be in "draft" state.`},
		{"ids", `You are trying to read records "7, 8" of "Party" that don't exist anymore.`, `You are trying to read records "…" of "Party" that don't exist anymore.`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := sentence(c.text, hide); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	for _, c := range []struct{ name, text, want string }{
		{"a constraint", "null value in column \"name\" of relation \"party_party\" violates not-null constraint\nDETAIL:  Failing row contains (7, null, Ada, Byron).",
			`null value in column "name" of relation "party_party" violates not-null constraint`},
		{"a key", `duplicate key value violates unique constraint "party_party_code_uniq" Key (code)=(Byron) already exists.`,
			`duplicate key value violates unique constraint "party_party_code_uniq" Key (code)(…) already exists.`},
		{"a row", `Failing row contains (7, null, Byron).`, `Failing row contains (…).`},
		{"Python's own quotes", `could not convert string to float: 'Byron'`, `could not convert string to float: '…'`},
		{"a key error of a name", `'Ada'`, `'…'`},
		{"a key error of a field", `'full_name'`, `'full_name'`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := excerpt(c.text, hide); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestASentenceIsBounded(t *testing.T) {
	long := strings.Repeat("ä", 1000)
	if got := []rune(sentence(long, nil)); len(got) != longest+1 {
		t.Errorf("%d characters", len(got))
	}
	// What is hidden is hidden before the sentence is cut, so that no part of it stays.
	secret := strings.Repeat("s", 50)
	if got := sentence(strings.Repeat("x", longest-10)+secret, texts(nil, secret)); strings.Contains(got, "s") {
		t.Errorf("a part of the text stays: %s", got)
	}
}

func TestALongTextIsHiddenAlthoughTheSentenceHoldsOnlyItsBeginning(t *testing.T) {
	secret := strings.Repeat("Ada was here. ", 2000)
	if got := sentence("Too long: "+secret, texts(nil, secret)); strings.Contains(got, "Ada was here. Ada was here. Ada was here. Ada") {
		t.Errorf("a part of the text stays: %s", got)
	}
	if got := sentence(`The value "`+strings.Repeat("x", 2*mostText)+`" for field "Name" is refused.`, nil); got != `The value "…"` {
		t.Errorf("got %s", got)
	}
}

func TestShortTextsAreNotLookedFor(t *testing.T) {
	if got := texts(nil, " a \nbc\n\nabc"); strings.Join(got, "|") != "abc|a \nbc\n\nabc" {
		t.Errorf("%q", got)
	}
}

// What a record holds reaches no outcome, wherever in the record it stands.
func TestARefusalOfTheServerHidesTheRecord(t *testing.T) {
	c := newClerk(t, "party")
	body := `{"name":"Ada Lovelace","addresses":[{"street":"12 Row\nHouse"}],"contact_mechanisms":[{"type":"email","value":"ada@example.com"}]}`
	o := c.create(body)
	said := `The value "Ada Lovelace" of Ada Lovelace, 12 Row, House, ada@example.com for field "Name" in "Party" is refused.`
	want := `user_error: The value "…" of …, …, …, … for field "Name" in "Party" is refused.`
	c.erp.before = func(method string) error {
		if strings.HasSuffix(method, ".create") || strings.HasSuffix(method, ".write") {
			return userError("%s", said)
		}
		return nil
	}
	c.want(c.create(body), connectors.Invalid, want)
	c.want(c.change(o.Link, strings.Replace(body, "12 Row", "House\\n12 Row", 1)), connectors.Invalid, want)
	c.erp.before = func(method string) error {
		if strings.HasSuffix(method, ".create") {
			return textError(said)
		}
		return nil
	}
	c.want(c.create(body), connectors.Unknown, `exception: the server failed: The value "…" of …, …, …, … for field "Name" in "Party" is refused.`)
}
