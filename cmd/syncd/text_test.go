package main

import (
	"strings"
	"testing"
	"time"

	"syncd/jobs"
)

func TestAgeIsShownInTheUnitThatMatters(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		age  time.Duration
		want string
	}{
		"a clock that runs ahead": {-time.Second, "now"},
		"seconds":                 {59 * time.Second, "59s"},
		"minutes":                 {59*time.Minute + 59*time.Second, "59m"},
		"hours":                   {26*time.Hour + 5*time.Minute, "26h05m"},
		"days":                    {49 * time.Hour, "2d"},
	} {
		t.Run(name, func(t *testing.T) {
			at := now.Add(-c.age)
			if got := ago(now, &at); got != c.want {
				t.Errorf("%s ago is shown as %q, want %q", c.age, got, c.want)
			}
		})
	}
	if got := ago(now, nil); got != "-" {
		t.Errorf("no time is shown as %q", got)
	}
}

func TestWordsForAShellAreQuotedWhereNeeded(t *testing.T) {
	for in, want := range map[string]string{
		"orders/SO-1001":   "orders/SO-1001",
		"orders/@42":       "orders/@42",
		"orders/a b":       "'orders/a b'",
		"orders/it's":      `'orders/it'\''s'`,
		"orders/$(reboot)": "'orders/$(reboot)'",
		"orders/é":         "'orders/é'",
	} {
		if got := quote(in); got != want {
			t.Errorf("%s is quoted as %s, want %s", in, got, want)
		}
	}
}

func TestForeignTextCannotControlATerminal(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"colours":             {"a\x1b[31mb", "a\uFFFD[31mb"},
		"title":               {"\x1b]0;x\x07", "\uFFFD]0;x\uFFFD"},
		"C1 control":          {"a\u009b31mb", "a\uFFFD31mb"},
		"turned direction":    {"a\u202eb\u2066c", "a\uFFFDb\uFFFDc"},
		"hidden marks":        {"a\u200eb\u200fc", "a\uFFFDb\uFFFDc"},
		"several lines":       {"a\r\nb\tc", "a  b c"},
		"line separator":      {"a\u2028b", "a\uFFFDb"},
		"bytes that are none": {"a\xffb", "a\uFFFDb"},
		"letters":             {"café – 東京", "café – 東京"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := clean(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestExplainAfterARestoreAsksForTheStateThatIsThere(t *testing.T) {
	var b strings.Builder
	o := explainJSON{Flow: "orders", Key: "A 1", State: string(jobs.Held), Resolve: true, Older: true, Next: "nothing"}
	if err := o.print(&b, time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"syncd resolve 'orders/A 1' --applied --reason TEXT ", "syncd resolve 'orders/A 1' --applied --older --reason TEXT ", "syncd resolve 'orders/A 1' --resend --reason TEXT "} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
