package config

import (
	"fmt"
	"strings"
	"testing"

	"syncd/internal/field"
)

func TestTextsKeepEveryCharacter(t *testing.T) {
	for _, text := range []string{
		"0510210600", "0008", "0123", "02142", "007", "NO", "no", "Yes", "on", "off", "y", "1e3", "1_000", "0x1F", "0o17", "0b1", "12:30:45",
		"2026-01-31", "2026-01-31T08:00:00Z", "1.10", "+1", ".5", ".inf", ".NaN", "true", "9007199254740993", "123456789012345678901234567890", "<<", "=",
	} {
		c := mustLoad(t, with(t, "connector: erp, database: erp", "connector: erp, database: erp, account: "+text))
		if got := c.Clients["erp"].Settings.(*erp).Account; got != text {
			t.Errorf("%s became %q", text, got)
		}
	}
}

func TestNamesOfKeysKeepEveryCharacter(t *testing.T) {
	c := mustLoad(t, with(t, `token: "${env:TOKEN}"`, `token: "${env:TOKEN}", headers: {NO: "25", 0123: 0008, "0042": 7, true: 1e3, 1_000: x, 2026-01-31: y, a.b: z}`))
	want := map[string]string{"NO": "25", "0123": "0008", "0042": "7", "true": "1e3", "1_000": "x", "2026-01-31": "y", "a.b": "z"}
	got := c.Clients["shop"].Settings.(*shop).Headers
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWhatIsWrongWithTheFileItself(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "1:1: the file is empty"},
		{"comment only", "# nothing\n", "1:1: the file is empty"},
		{"document without content", "---\n...\n", "1:1: the file must be a mapping with keys such as journal, clients and flows"},
		{"list", "- a\n", "1:1: the file must be a mapping with keys such as journal, clients and flows"},
		{"tab for indentation", "erp:\n\turl: https://erp.test\n", "2:1: a tab is used for indentation; YAML allows only spaces there"},
		{"tab after spaces", "erp:\n  url: x\n \tpath: y\n", "3:2: a tab is used for indentation; YAML allows only spaces there"},
		{"two colons", "a: b: c\n", "1:5: a colon where no key can be; quote the value if the colon belongs to it"},
		{"list not closed", "a: [1\nb: 2\n", "2:2: the list that begins with [ in line 1 is not closed"},
		{"mapping not closed", "a: {b: 1\n", "2:1: the mapping that begins with { in line 1 is not closed"},
		{"braces in an unquoted path", "a: {path: /orders/{id}}\n", "1:19: inside { } or [ ] a value that holds { } must be quoted, as in \"/items/{key}\""},
		{"a placeholder that stands alone", "a: {path: {id}, b: {c: [{d: 1}]}\n", "2:1: the mapping that begins with { in line 1 is not closed"},
		{"reference without quotes in a mapping", "a: {b: ${env:CANARY}}\n", `1:9: inside { } or [ ] a reference must be quoted, as in "${env:NAME}"`},
		{"reference without quotes in a list", "a: [x${env:CANARY}y]\n", `1:7: inside { } or [ ] a reference must be quoted, as in "${env:NAME}"`},
		{"quote not closed", "a: \"CANARY\nb: 2\n", "3:1: the quoted text that begins in line 1 is not closed, or holds an unknown escape"},
		{"unknown escape", `a: "CANARY\q"`, "1:11: the quoted text that begins in line 1 is not closed, or holds an unknown escape"},
		{"alias without anchor", "a: *CANARY\n", "1:4: an alias to an anchor that does not exist; quote the value if it is meant to begin with *"},
		{"block mark before text", "a: >CANARY\n  d\n", "1:5: after | or > only an indentation or a comment may follow; quote the value if it is meant to begin so"},
		{"value that begins with @", "a: @CANARY\n", "1:4: a value cannot begin with @; quote it"},
		{"value that begins with a backtick", "a: `CANARY`\n", "1:4: a value cannot begin with `; quote it"},
		{"key without a colon", "a: 1\nCANARY\nb: 2\n", "2:1: a key without a colon; write key: value"},
		{"wrong indentation", "a: 1\n  b: 2\n", "2:4: a colon where no key can be; quote the value if the colon belongs to it"},
		{"less indentation", "a:\n    b: 1\n  c: 2\n", "3:3: this does not fit the mapping that begins in line 1; check the indentation"},
		{"second document", "log: {}\n---\nlog: {}\n", "2:1: a second document begins here; put everything into one"},
		{"two documents that are no mappings", "- a\n---\nb\n", "1:1: the file must be a mapping with keys such as journal, clients and flows\nsyncd.yaml:2:1: a second document begins here; put everything into one"},
		{"broken second document", "log: {}\n---\na: [\n", "4:1: a value or a closing bracket is missing here"},
		{"not UTF-8", "log: {}\n# caf\xe9\n", "2:6: not UTF-8; save the file as UTF-8"},
		{"UTF-16", "\xff\xfel\x00o\x00", "1:1: not UTF-8; save the file as UTF-8"},
		{"control character", "log: \x01\n", "1:6: control character U+0001; take it out"},
		{"key twice", "log: {}\njournal: sqlite:x\nlog: {}\n", "3:1: the key log stands here a second time; the first is in line 1, column 1"},
		{"quoted key twice", "log: {}\n\"log\": {}\n", "2:1: the key log stands here a second time; the first is in line 1, column 1"},
		{"key that is a list", "? [a]\n: b\n", "1:3: a key must be a single word or text"},
		{"key of nothing", ": b\n", "1:1: a key must be a single word or text"},
		{"tag", "log: !x {}\n", "1:6: a tag, which is not used here; quote the value if it is meant to begin with !"},
		{"alias of itself", "x-a: &a [*a]\n", "1:10: an alias inside of what it stands for"},
		{"merge of a text", "log:\n  <<: x\n", "2:7: << takes a mapping or a list of mappings; use it with an alias, as in <<: *name"},
		{"too deep", "x-a: " + strings.Repeat("[", 60) + strings.Repeat("]", 60), "1:55: values are nested more than 50 deep"},
		{"far too deep", "x-a: " + strings.Repeat("[", 100_000), "1:10006: values are nested more than 50 deep"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := problems(t, c.text)
			if got != "syncd.yaml:"+c.want {
				t.Errorf("\n got: %s\nwant: syncd.yaml:%s", got, c.want)
			}
		})
	}
}

func TestAliasesThatStandForABillionValuesAreRefused(t *testing.T) {
	var b strings.Builder
	b.WriteString("x-a: &a [1, 2, 3, 4, 5, 6, 7, 8, 9]\n")
	for c := 'b'; c <= 'j'; c++ {
		p := string(c - 1)
		fmt.Fprintf(&b, "x-%c: &%c [*%s, *%s, *%s, *%s, *%s, *%s, *%s, *%s, *%s]\n", c, c, p, p, p, p, p, p, p, p, p)
	}
	got := problems(t, b.String())
	if !strings.HasSuffix(got, ": more than 50000 values, aliases followed; write less") || strings.Contains(got, "\n") {
		t.Errorf("got: %s", got)
	}
}

func TestValuesAreCountedAfterTheirAliasesAreFollowed(t *testing.T) {
	for n, ok := range map[int]bool{490: true, 510: false} {
		// Each alias stands for a list of 100 values: 101 nodes.
		text := "x-a: &a [" + strings.Repeat("1, ", 99) + "1]\nx-b: [" + strings.Repeat("*a, ", n-1) + "*a]\n"
		if got := problems(t, text); (got == "") != ok {
			t.Errorf("%d aliases: %s", n, got)
		}
	}
}

func TestPathsThatReadAlikeAreKeptApart(t *testing.T) {
	// With a dot between names, clients.a.retry would be both a field of a and a client of its own.
	got := problems(t, `
clients:
  a:
    connector: erp
    database: x
    retry: {max_attempts: 0, jitter: full}
  a.retry:
    connector: erp
    database: x
    max_attempts: 1
`)
	want := `syncd.yaml:6:27: clients.a.retry.max_attempts: "0": out of range; 1 to 100
syncd.yaml:10:5: clients."a.retry".max_attempts: unknown key; known here: `
	if !strings.HasPrefix(got, want) {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestAliasesAndMergeKeysBringTheirValues(t *testing.T) {
	c := mustLoad(t, `
x-retry: &retry {max_attempts: 7, jitter: none}
x-more: &more {max_attempts: 8, max_delay: 1h}
clients:
  shop: {connector: shop, url: "https://shop.test", token: "${env:TOKEN}", retry: *retry}
  erp:
    connector: erp
    database: erp
    retry:
      multiplier: 3
      <<: [*retry, *more]
`)
	if r := c.Clients["shop"].Retry; r.MaxAttempts != 7 || r.Jitter != "none" {
		t.Errorf("alias: %+v", r)
	}
	if r := c.Clients["erp"].Retry; r.MaxAttempts != 7 || r.Jitter != "none" || r.MaxDelay.Hours() != 1 || r.Multiplier != 3 {
		t.Errorf("merge: %+v", r)
	}
}

func TestAMistakeBehindAnAliasIsShownWhereItStandsAndOnce(t *testing.T) {
	got := problems(t, `
x-log: &log {level: inof}
log: *log
`)
	if want := `syncd.yaml:2:21: log.level: "inof": not accepted; did you mean info? (one of debug, info, warn, error)`; got != want {
		t.Errorf("\n got: %s\nwant: %s", got, want)
	}
}

func TestAFileWithWindowsLineEndsAndAByteOrderMarkIsRead(t *testing.T) {
	text := "\ufeff" + strings.ReplaceAll(strings.TrimSpace(with(t, `map: "{number: .name}"`, "map: |\n      {\n        number: .name\n      }")), "\n", "\r\n")
	c := mustLoad(t, text)
	f := c.Flows["orders"]
	if f.Map.Value != "{\n  number: .name\n}" {
		t.Errorf("map is %q", f.Map.Value)
	}
	if at := f.Map.At(2, 3); at.String() != "syncd.yaml:11:9" {
		t.Errorf("the program's second line is at %v", at)
	}
}

func TestExplicitTextTagIsAccepted(t *testing.T) {
	n := tree(t, "a: !!str 0123\n")
	v := n.Entry("a").Value
	if v.Kind != field.Scalar || v.Text != "0123" || !v.Quoted {
		t.Errorf("%+v", v)
	}
}
