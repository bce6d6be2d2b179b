package file

import (
	"strings"
	"testing"

	"syncd/connectors"
)

func one(t *testing.T, set func(*Stream), line string) connectors.Event {
	t.Helper()
	d := newDesk(t, set)
	d.write(d.in.settings.Files["s"].Path, line+"\n")
	p := d.pull()
	if len(p.Events) != 1 {
		t.Fatalf("%d events", len(p.Events))
	}
	return p.Events[0]
}

func TestIDsAreKeptDigitForDigit(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"beyond float64":       {`{"id":228930314431312345}`, "228930314431312345"},
		"wider than 64 bits":   {`{"id":12345678901234567890123}`, "12345678901234567890123"},
		"quoted":               {`{"id":"12345678901234567890123"}`, "12345678901234567890123"},
		"path-like":            {`{"id":"gid://shop/Order/55"}`, "gid://shop/Order/55"},
		"leading zeros":        {`{"id":"00070"}`, "00070"},
		"blank at its end":     {`{"id":"SKU123 "}`, "SKU123 "},
		"capitals":             {`{"id":"AbC9"}`, "AbC9"},
		"composed letter":      {`{"id":"CAF\u00c9-1"}`, "CAF\u00c9-1"},
		"decomposed letter":    {`{"id":"CAFE\u0301-1"}`, "CAFE\u0301-1"},
		"number with decimals": {`{"id":1.50}`, "1.50"},
		"blanks at its ends":   {`{"id":" A1  "}`, " A1  "},
	} {
		t.Run(name, func(t *testing.T) {
			e := one(t, func(*Stream) {}, c.line)
			if e.SourceID != c.want || e.Problem != "" || string(e.Body) != c.line {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestRecordWithoutIDBecomesADeadLetterAndStopsNothing(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"missing":     {`{"name":"x"}`, `no id: the field "id" is not there or null`},
		"null":        {`{"id":null}`, `no id: the field "id" is not there or null`},
		"empty":       {`{"id":""}`, `no id: the field "id" is empty`},
		"boolean":     {`{"id":true}`, `no id: the field "id" is neither a text nor a number`},
		"object":      {`{"id":{"x":1}}`, `no id: the field "id" is neither a text nor a number`},
		"with NUL":    {`{"id":"a\u0000b"}`, `no id: the field "id" holds a character that cannot be seen, U+0000 as its byte 2; correct it at the source`},
		"blank":       {`{"id":"  "}`, `no id: the field "id" is blank`},
		"line ends":   {`{"id":"\r\n"}`, `no id: the field "id" is blank`},
		"no width":    {`{"id":"\u200b\ufeff"}`, `no id: the field "id" is blank`},
		"a mark":      {`{"id":"\ufeff7"}`, `no id: the field "id" holds a character that cannot be seen, U+FEFF as its byte 1; correct it at the source`},
		"a line end":  {`{"id":"7\n"}`, `no id: the field "id" holds a character that cannot be seen, U+000A as its byte 2; correct it at the source`},
		"unreadable":  {`{"id":"gr\ufffdn"}`, `no id: the field "id" holds U+FFFD as its byte 3, which stands for a character that could not be read; correct the encoding at the source`},
		"endless":     {`{"id":"` + strings.Repeat("x", 1025) + `"}`, `no id: the field "id" is longer than 1024 bytes`},
		"there twice": {`{"id":1,"id":2}`, `not a JSON object: the field "id" is there twice`},
		"other case":  {`{"ID":1}`, `no id: the field "id" is not there or null`},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, func(*Stream) {})
			d.write("orders.jsonl", "{\"id\":1}\n"+c.line+"\n{\"id\":2}\n")
			d.want(d.round(), "1 | !orders.jsonl, line 2: "+c.want+" | 2")
		})
	}
}

func TestFieldsCanLieDeeper(t *testing.T) {
	e := one(t, func(s *Stream) {
		s.ID, s.Version, s.ChangedAt, s.Deleted = "order.id", "order.meta.rev", "order.meta.at", Deleted{"order.state", "void"}
		s.VersionAs = versionNumber
	}, `{"id":"outer","order":{"state":"void","meta":{"rev":9007199254740993,"at":"2026-11-29T02:00:00+08:00"},"id":"A-1"},"meta":{"rev":1}}`)
	if e.SourceID != "A-1" || e.Version != 9007199254740993 || !e.Gone || e.ChangedAt.Format("2006-01-02T15:04:05Z07:00") != "2026-11-28T18:00:00Z" || e.Problem != "" {
		t.Errorf("got %+v", e)
	}
}

func TestVersionsThatAreTimes(t *testing.T) {
	for name, c := range map[string]struct {
		line    string
		version int64
		problem string
	}{
		"with offset":       {`{"id":1,"at":"2026-11-29T11:00:00.123456+01:00"}`, 1795946400123456, ""},
		"UTC":               {`{"id":1,"at":"2026-11-29T10:00:00Z"}`, 1795946400000000, ""},
		"repeated hour 1":   {`{"id":1,"at":"2026-10-25T02:30:00+02:00"}`, 1792888200000000, ""},
		"repeated hour 2":   {`{"id":1,"at":"2026-10-25T02:30:00+01:00"}`, 1792891800000000, ""},
		"missing":           {`{"id":1}`, 0, ""},
		"null":              {`{"id":1,"at":null}`, 0, ""},
		"empty":             {`{"id":1,"at":""}`, 0, ""},
		"abbreviated zone":  {`{"id":1,"at":"2026-11-29 10:00:00 CST"}`, 0, "not an RFC 3339 time"},
		"without zone":      {`{"id":1,"at":"2026-11-29T10:00:00"}`, 0, "not an RFC 3339 time"},
		"a number":          {`{"id":1,"at":1795946400}`, 0, "set version_as: number"},
		"neither text":      {`{"id":1,"at":["x"]}`, 0, `the field "at" is neither a text nor a number`},
		"day and month":     {`{"id":1,"at":"29/11/26"}`, 0, "not an RFC 3339 time"},
		"day out of bounds": {`{"id":1,"at":"2026-11-31T10:00:00Z"}`, 0, "not an RFC 3339 time"},
	} {
		t.Run(name, func(t *testing.T) {
			e := one(t, func(s *Stream) { s.Version = "at" }, c.line)
			if e.Version != c.version || (e.Problem == "") != (c.problem == "") || !strings.Contains(e.Problem, c.problem) || e.SourceID != "1" {
				t.Errorf("got %+v", e)
			}
			if c.version != 0 && e.ChangedAt.UnixMicro() != c.version {
				t.Errorf("changed at %v", e.ChangedAt)
			}
		})
	}
}

func TestVersionsThatAreNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		value   string
		version int64
		bad     bool
	}{
		"number":        {`1780921717355446273`, 1780921717355446273, false},
		"text":          {`"1780921717355446272"`, 1780921717355446272, false},
		"decimal":       {`1.5`, 0, true},
		"beyond 64 bit": {`12345678901234567890123`, 0, true},
		"a time":        {`"2026-11-29T10:00:00Z"`, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := one(t, func(s *Stream) { s.Version, s.VersionAs = "v", versionNumber }, `{"id":1,"v":`+c.value+`}`)
			if e.Version != c.version || (e.Problem != "") != c.bad {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestVersionOfZeroIsNotAMissingOne(t *testing.T) {
	for name, c := range map[string]struct {
		as, line string
		has      bool
	}{
		"number 0":       {versionNumber, `{"id":1,"v":0}`, true},
		"number below 0": {versionNumber, `{"id":1,"v":-5}`, true},
		"time 0":         {versionTime, `{"id":1,"v":"1970-01-01T00:00:00Z"}`, true},
		"null":           {versionNumber, `{"id":1,"v":null}`, false},
		"not there":      {versionTime, `{"id":1}`, false},
		"an empty text":  {versionNumber, `{"id":1,"v":""}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := one(t, func(s *Stream) { s.Version, s.VersionAs = "v", c.as }, c.line)
			if e.HasVersion() != c.has || e.Problem != "" {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestDeletedRecordsAreGone(t *testing.T) {
	for name, c := range map[string]struct {
		value, line string
		gone        bool
	}{
		"value met":         {"deleted", `{"id":1,"d":"deleted"}`, true},
		"other value":       {"deleted", `{"id":1,"d":"open"}`, false},
		"true":              {"", `{"id":1,"d":true}`, true},
		"false":             {"", `{"id":1,"d":false}`, false},
		"a time":            {"", `{"id":1,"d":"2026-11-29T10:00:00Z"}`, true},
		"null":              {"", `{"id":1,"d":null}`, false},
		"empty":             {"", `{"id":1,"d":""}`, false},
		"zero":              {"", `{"id":1,"d":0}`, false},
		"false as a value":  {"false", `{"id":1,"d":false}`, true},
		"not there":         {"deleted", `{"id":1}`, false},
		"number as a value": {"9", `{"id":1,"d":9}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			if e := one(t, func(s *Stream) { s.Deleted = Deleted{"d", c.value} }, c.line); e.Gone != c.gone || e.Body == nil {
				t.Errorf("got %+v", e)
			}
		})
	}
}

func TestBrokenLinesBecomeDeadLettersWithTheirLineNumber(t *testing.T) {
	d := newDesk(t, func(*Stream) {})
	d.write("orders.jsonl", "\ufeff{\"id\":1}\r\n\r\n{\"id\":2\n[1,2]\n\"text\"\n{\"id\":3} {\"id\":4}\n{\"id\":\"caf\xe9\"}\n{\"id\":05}\n\n  \t\n{\"id\":5}\n")
	d.want(d.round(), "1 | "+
		"!orders.jsonl, line 3: not a JSON object: expected a comma or the end of the object at byte 7 | "+
		"!orders.jsonl, line 4: not a JSON object: not an object at byte 0 | "+
		"!orders.jsonl, line 5: not a JSON object: not an object at byte 0 | "+
		"!orders.jsonl, line 6: not a JSON object: something follows the value at byte 9 | "+
		"!orders.jsonl, line 7: not a JSON object: not UTF-8 at byte 10 | "+
		"!orders.jsonl, line 8: not a JSON object: a number with a leading zero at byte 6 | 5")
}

func TestBrokenLineIsKeptAsTextForAPerson(t *testing.T) {
	e := one(t, func(*Stream) {}, `{"id":"x`)
	if string(e.Body) != `"{\"id\":\"x"` {
		t.Errorf("body %s", e.Body)
	}
}
