package notify

import (
	"encoding/json"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"
)

func at(minute int) time.Time { return time.Date(2026, 11, 29, 12, minute, 0, 0, time.UTC) }

// example is the message that the documentation shows.
func example() Message {
	var g gathered
	g.add(Happening{Event: Suspended, Client: "erp", Class: "auth", Code: "http_401", Count: 1, Since: at(1)}, at(1))
	g.add(Happening{Event: Paused, Client: "shop", Code: "throttled", Count: 1, Since: at(1), Until: at(41)}, at(1))
	g.add(Happening{Event: Dead, Client: "books", Flow: "invoices", Class: "invalid", Code: "http_422", Count: 2}, at(1))
	g.add(Happening{Event: Dead, Client: "books", Flow: "invoices", Class: "invalid", Code: "http_422", Count: 1}, at(2))
	_, m := g.message("sync-1", "1.0.0", at(2))
	return m
}

func section(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(page), "\n## Being told\n")
	if !ok {
		t.Fatal("docs/operating.md has no section on being told")
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

func TestDocumentationShowsAMessageAsItIs(t *testing.T) {
	_, rest, _ := strings.Cut(section(t), "```json\n")
	shown, _, ok := strings.Cut(rest, "```")
	if !ok {
		t.Fatal("no message is shown")
	}
	want, err := json.MarshalIndent(example(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(shown) != string(want) {
		t.Errorf("shown is\n%s\nwant\n%s", shown, want)
	}
}

func TestDocumentationDescribesEveryField(t *testing.T) {
	described := map[string]bool{}
	_, fields, _ := strings.Cut(section(t), "```json\n")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.\\[\\]]+)` \\|").FindAllStringSubmatch(fields, -1) {
		described[m[1]] = true
	}
	var look func(prefix string, ty reflect.Type)
	look = func(prefix string, ty reflect.Type) {
		for i := range ty.NumField() {
			f := ty.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			name = prefix + name
			switch {
			case f.Type == reflect.TypeFor[Data]():
				look(name+".", f.Type)
				continue
			case f.Type == reflect.TypeFor[[]Entry]():
				look(name+"[].", f.Type.Elem())
				continue
			}
			if !described[name] {
				t.Errorf("the field %s is not described", name)
			}
			delete(described, name)
		}
	}
	look("", reflect.TypeFor[Message]())
	for name := range described {
		t.Errorf("%s is described, and is no field", name)
	}
}

func TestCodesThatMayHoldAnythingAreNotTold(t *testing.T) {
	var g gathered
	for _, code := range []string{"ann@example.com", "no such party: Ann", strings.Repeat("x", 65), "a\nb", "<b>"} {
		g.add(Happening{Event: Dead, Flow: "orders", Code: code, Count: 1}, at(0))
	}
	if len(g.entries) != 1 || g.entries[0].Code != "other" || g.entries[0].Count != 5 {
		t.Errorf("kept %+v", g.entries[0])
	}
}

func TestSummaryTellsWhatNeedsAPersonFirst(t *testing.T) {
	var g gathered
	for _, h := range []Happening{
		{Event: Paused, Over: true, Client: "shop"}, {Event: Suspended, Over: true, Client: "crm"}, {Event: Dead, Flow: "orders", Count: 2},
		{Event: Held, Flow: "orders", Count: 1, Code: "timeout"}, {Event: Paused, Client: "erp", Until: at(5), Code: "throttled"}, {Event: Paused, Client: "old", Code: "breaker"}, {Event: Suspended, Client: "erp", Flow: "orders", Code: "http_422"},
	} {
		g.add(h, at(0))
	}
	_, m := g.message("host", "1", at(0))
	const want = "syncd on host: flow orders is suspended (http_422); client erp is paused until 2026-11-29T12:05:00Z (throttled); client old is paused (breaker); " +
		"1 job of flow orders held (timeout); 2 jobs of flow orders dead; client crm is no longer suspended; client shop is called again"
	if m.Data.Summary != want {
		t.Errorf("\n got %s\nwant %s", m.Data.Summary, want)
	}
}
