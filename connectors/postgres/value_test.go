package postgres

import (
	"encoding/json"
	"strings"
	"testing"

	"syncd/connectors"
)

func TestValuesReachTheirColumnsExactly(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TYPE mood AS ENUM ('fine', 'so-so'); CREATE DOMAIN code AS varchar(5); CREATE DOMAIN code2 AS code CHECK (VALUE <> 'no');
CREATE TABLE o (n text PRIMARY KEY, "a text" text, vc varchar(5), ch char(5), i2 smallint, i4 int, i8 bigint, num numeric, num2 numeric(10,2), num3 numeric(5,-2), f8 float8, ok boolean,
  tz timestamptz, ts timestamp, d date, js json, jb jsonb, u uuid, ta text[], na numeric[], ja jsonb[], ia int[], mood mood, dom code2, ip inet, by bytea, iv interval, b bit(3))`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	for name, c := range map[string]struct{ field, json, want string }{
		"long id in bigint":           {"i8", `9007199254740993`, "9007199254740993"},
		"long id as text":             {"i8", `"1780921717355446273"`, "1780921717355446273"},
		"whole number with point":     {"i4", `12.0`, "12"},
		"whole number with exponent":  {"i4", `1.5e3`, "1500"},
		"smallest bigint":             {"i8", `-9223372036854775808`, "-9223372036854775808"},
		"number wider than 64 bits":   {"num", `12345678901234567890123.000000000000000000001`, "12345678901234567890123.000000000000000000001"},
		"zeros at the end":            {"num", `1.50`, "1.50"},
		"amount":                      {"num2", `19.9`, "19.90"},
		"amount with zeros":           {"num2", `"19.9000"`, "19.90"},
		"amount, largest":             {"num2", `99999999.99`, "99999999.99"},
		"zero amount":                 {"num2", `0.000`, "0.00"},
		"hundreds":                    {"num3", `12300`, "12300"},
		"number in a text column":     {"a text", `1.500`, "1.500"},
		"boolean in a text column":    {"a text", `false`, "false"},
		"leading zeros":               {"a text", `"0042"`, "0042"},
		"quotes and backslashes":      {"a text", `"it's \"\\ 100%"`, `it's "\ 100%`},
		"emoji":                       {"a text", `"ring \ud83d\udc18 twice"`, "ring \U0001f418 twice"},
		"lone surrogate":              {"a text", `"x\ud800y"`, "x\ufffdy"},
		"NUL in a text":               {"a text", `"abc\u0000def"`, "abcdef"},
		"NUL in jsonb":                {"jb", `{"a":"abc\u0000def\\u0000\u00e9","\u0000k":["\ud800"]}`, `{"a": "abcdef\\u0000` + "\u00e9" + `", "k": ["` + "\ufffd" + `"]}`},
		"pair in jsonb":               {"jb", `"\ud83d\udc18"`, `"` + "\U0001f418" + `"`},
		"digits in jsonb":             {"jb", `{"p":1.50,"id":12345678901234567890123}`, `{"p": 1.50, "id": 12345678901234567890123}`},
		"json as it is":               {"js", `{"b":1, "a":[1e2]}`, `{"b":1, "a":[1e2]}`},
		"text in jsonb":               {"jb", `"x"`, `"x"`},
		"null in jsonb is NULL":       {"jb", `null`, "NULL"},
		"boolean":                     {"ok", `true`, "t"},
		"boolean as text":             {"ok", `"false"`, "f"},
		"boolean as number":           {"ok", `1`, "t"},
		"time with offset":            {"tz", `"2026-11-29T10:00:00.123456+01:00"`, "2026-11-29 09:00:00.123456+00"},
		"time into a naive column":    {"ts", `"2026-11-29T10:00:00+01:00"`, "2026-11-29 09:00:00"},
		"naive time, naive column":    {"ts", `"2026-11-29T10:00:00"`, "2026-11-29 10:00:00"},
		"naive with blank":            {"ts", `"2026-11-29 10:00:00.5"`, "2026-11-29 10:00:00.5"},
		"date":                        {"d", `"2026-11-29"`, "2026-11-29"},
		"uuid in capitals":            {"u", `"A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11"`, "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"},
		"texts":                       {"ta", `["a","b,c","q\"\\","", null, "NULL", 7]`, `{a,"b,c","q\"\\","",NULL,"NULL",7}`},
		"no texts":                    {"ta", `[]`, `{}`},
		"numbers":                     {"na", `[1.50, "2"]`, `{1.50,2}`},
		"documents":                   {"ja", `[{"a":[1]}, "x"]`, `{"{\"a\": [1]}","\"x\""}`},
		"rows of numbers":             {"ia", `[[1,2],[3,4]]`, `{{1,2},{3,4}}`},
		"enum":                        {"mood", `"so-so"`, "so-so"},
		"domain":                      {"dom", `"abcde"`, "abcde"},
		"address":                     {"ip", `"10.0.0.1"`, "10.0.0.1"},
		"bytes":                       {"by", `"\\x00ff"`, `\x00ff`},
		"interval":                    {"iv", `"1 day"`, "1 day"},
		"text of full length":         {"vc", `"` + strings.Repeat("\\u00e4", 5) + `"`, strings.Repeat("\u00e4", 5)},
		"text in char":                {"ch", `"abc"`, "abc  "},
		"float keeps what it is":      {"f8", `0.1`, "0.1"},
		"empty text stays":            {"a text", `""`, ""},
		"small exponent":              {"num", `1e-5`, "0.00001"},
		"negative amount":             {"num2", `-3.5`, "-3.50"},
		"minus zero":                  {"i4", `-0`, "0"},
		"capital exponent as text":    {"num", `"1E+2"`, "100"},
		"element null":                {"ia", `[null,1]`, "{NULL,1}"},
		"date before the Common Era?": {"d", `"0001-01-01"`, "0001-01-01"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := json.Marshal(map[string]json.RawMessage{c.field: json.RawMessage(c.json)})
			if err != nil {
				t.Fatal(err)
			}
			if c.field == "js" {
				raw = []byte(`{"js":` + c.json + `}`) // Marshal would compact it
			}
			got := e.Upsert(t.Context(), []connectors.Write{write(name, string(raw), 1)})
			if got[0].Class != connectors.Applied {
				t.Fatalf("%s: %s", brief(got...), got[0].Message)
			}
			b.want(`SELECT "`+c.field+`" FROM o WHERE n = '`+name+`'`, c.want)
			// The look-up finds the record as it was written.
			w := write(name, string(raw), 1)
			found, err := e.Find(t.Context(), w)
			if err != nil || len(found) != 1 || !found[0].Same {
				t.Errorf("found %+v, %v", found, err)
			}
		})
	}
}

func TestValuesThatDoNotFitAreRefusedWithTheirField(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TYPE mood AS ENUM ('fine'); CREATE DOMAIN code AS varchar(5);
CREATE TABLE o (n text PRIMARY KEY, x text, vc varchar(5), i2 smallint, i4 int, i8 bigint, num numeric, num2 numeric(10,2), f8 float8, ok boolean, tz timestamptz, ts timestamp, d date, u uuid, ia int[], mood mood, dom code, gen int GENERATED ALWAYS AS (i4 + 1) STORED)`)
	e := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	const decimals, nested = "has 3 digits after the point, and the column keeps 2; round it in the mapping (column num2, numeric(10,2))", "is an array or object, which this column does not take"
	for name, c := range map[string]struct{ field, json, want string }{
		"empty text for a number":  {"num", `""`, "is not a number (column num, numeric)"},
		"word for a number":        {"i4", `"CANARY"`, "is not a number (column i4, integer)"},
		"fraction in an integer":   {"i4", `1.5`, "is not a whole number (column i4, integer)"},
		"too large for smallint":   {"i2", `40000`, "is a number outside the column's range (column i2, smallint)"},
		"too large for bigint":     {"i8", `9223372036854775808`, "is a number outside the column's range (column i8, bigint)"},
		"bomb of an exponent":      {"i8", `1e999999999`, "is not a number (column i8, bigint)"},
		"exponent beyond range":    {"num", `1e5000`, "is not a number (column num, numeric)"},
		"would be rounded":         {"num2", `1.005`, decimals},
		"does not fit precision":   {"num2", `100000000`, "is a number outside the column's range (column num2, numeric(10,2))"},
		"NaN":                      {"num", `"NaN"`, "is not a number (column num, numeric)"},
		"boolean word":             {"ok", `"maybe"`, "is neither true nor false (column ok, boolean)"},
		"zone by abbreviation":     {"tz", `"2026-11-29 10:00:00 CET"`, "is not an RFC 3339 time with its offset, such as 2026-11-29T10:00:00Z (column tz, timestamp with time zone)"},
		"no zone":                  {"tz", `"2026-11-29T10:00:00"`, "is not an RFC 3339 time"},
		"now":                      {"tz", `"now"`, "is not an RFC 3339 time"},
		"seconds since 1970":       {"tz", `1795946400`, "is not an RFC 3339 time"},
		"time for a date":          {"d", `"2026-11-29T23:30:00-05:00"`, "is not a date such as 2026-11-29; a time has to be cut to a date in the mapping, where its zone is known (column d, date)"},
		"date in another order":    {"d", `"29/11/2026"`, "is not a date"},
		"too long":                 {"vc", `"abcdef"`, "has 6 characters, and the column takes 5; shorten it in the mapping (column vc, character varying(5))"},
		"too long for a domain":    {"dom", `"abcdef"`, "has 6 characters, and the column takes 5"},
		"no uuid":                  {"u", `"123"`, "is not a UUID"},
		"object for text":          {"x", `{"a":1}`, nested},
		"array for text":           {"x", `["a"]`, nested},
		"text for an array":        {"ia", `"1,2"`, "is not an array, which this column needs"},
		"bad element":              {"ia", `[1,"x"]`, "holds an element that is not a number"},
		"ragged array":             {"ia", `[[1],[2,3]]`, "is an array of arrays of different lengths or kinds"},
		"generated":                {"gen", `1`, "the database makes the values of the column gen itself"},
		"float from a word":        {"f8", `"x"`, "is not a number"},
		"infinite array":           {"ia", `[[[[[[[1]]]]]]]`, "is nested deeper than the 6 levels"},
		"beyond what the enum has": {"mood", `"angry"`, "a value is not of its column's type"},
		"float out of range":       {"f8", `1e400`, "a number is outside its column's range"},
	} {
		t.Run(name, func(t *testing.T) {
			got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"`+c.field+`":`+c.json+`}`, 1), write("B", `{}`, 1)})
			o := got[0]
			if o.Class != connectors.Invalid || !strings.Contains(o.Message, c.want) || strings.Contains(o.Message, "CANARY") {
				t.Errorf("got %+v\nwant %s", o, c.want)
			}
			if o.Code == "bad_value" && !strings.HasPrefix(o.Message, `field "`+c.field+`" `) {
				t.Errorf("the field is not named: %s", o.Message)
			}
			if !got[1].Class.Confirmed() {
				t.Errorf("the other record: %s", brief(got[1]))
			}
		})
	}
}

func TestBodiesThatAreNoRecordsAreRefused(t *testing.T) {
	t.Parallel()
	b := newBase(t, orders)
	e := b.entity(guarded)
	for name, c := range map[string]struct{ body, code string }{
		"array": {`[1]`, "not_an_object"}, "cut off": {`{"total":1`, "not_an_object"}, "twice": {`{"total":1,"total":2}`, "field_twice"}, "nothing": {``, "not_an_object"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := e.Upsert(t.Context(), []connectors.Write{write("A", c.body, 1)}); got[0].Class != connectors.Invalid || got[0].Code != c.code {
				t.Errorf("got %+v", got[0])
			}
		})
	}
}

func TestKeyColumnHoldsTheFlowsKey(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE o (n text PRIMARY KEY, q int); CREATE TABLE p (id bigint PRIMARY KEY, q int)`)
	text := b.entity(func(e *Entity) { e.Table, e.Key = "o", []string{"n"} })
	got := text.Upsert(t.Context(), []connectors.Write{write("SKU123", `{"n":" SKU123 "}`, 1), write("CAF\u00c9", `{"n":"CAFE\u0301"}`, 1), write("X", `{"n":"Y"}`, 1), write("AbC9", `{}`, 1), write("aBc9", `{}`, 1)})
	b.same(brief(got...), `applied "SKU123", applied "CAF`+"\u00c9"+`", invalid/key_differs, applied "AbC9", applied "aBc9"`)
	b.want("SELECT n FROM o ORDER BY n COLLATE \"C\"", "AbC9 | CAF\u00c9 | SKU123 | aBc9")
	number := b.entity(func(e *Entity) { e.Table, e.Key = "p", []string{"id"} })
	got = number.Upsert(t.Context(), []connectors.Write{write("7", `{"id":"007","q":1}`, 1), write("9007199254740993", `{}`, 1), write("x", `{}`, 1)})
	b.same(brief(got...), `applied 7, applied 9007199254740993, invalid/bad_key`)
}

func TestColumnsOfOtherNames(t *testing.T) {
	t.Parallel()
	b := newBase(t, `CREATE TABLE "Odd ""Table""" ("Key Col" text PRIMARY KEY, "select" int, "a.b" text)`)
	e := b.entity(func(e *Entity) {
		e.Table, e.Key, e.Columns = `public."Odd ""Table"""`, []string{"Key Col"}, map[string]string{"qty": "select", "text": "a.b"}
	})
	got := e.Upsert(t.Context(), []connectors.Write{write("A", `{"qty":1,"text":"x"}`, 1), write("B", `{"select":1}`, 1)})
	b.same(brief(got...), `applied "A", invalid/unknown_field`)
	b.want(`SELECT * FROM "Odd ""Table"""`, "A 1 x")
}

func TestNumbersAreTakenApartExactly(t *testing.T) {
	for in, want := range map[string]struct {
		digits string
		exp    int
		ok     bool
	}{
		"0": {"", 0, true}, "-12.50": {"1250", -2, true}, "1e3": {"1", 3, true}, "1.5E-2": {"15", -3, true}, "+7": {"7", 0, true}, ".5": {"5", -1, true},
		"": {"", 0, false}, ".": {"", 0, false}, "1.": {"", 0, false}, "1e": {"", 0, false}, "0x10": {"", 0, false}, "1_000": {"", 0, false}, "1,5": {"", 0, false}, "--1": {"", 0, false}, "1e1001": {"", 0, false},
	} {
		d, ok := parseDecimal(in)
		if ok != want.ok || ok && (d.digits != want.digits || d.exp != want.exp) {
			t.Errorf("parseDecimal(%q) = %+v, %v", in, d, ok)
		}
	}
}
