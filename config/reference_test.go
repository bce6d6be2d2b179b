package config

import (
	"regexp"
	"strings"
	"testing"

	"syncd/internal/field"
)

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	link    = regexp.MustCompile(`\]\(#([^)]*)\)`)
)

func TestEveryLinkOfTheReferenceLeadsToOneHeading(t *testing.T) {
	page := string(Reference(registry()))
	// What stands in code blocks is no heading.
	text := regexp.MustCompile("(?s)```.*?```").ReplaceAllString(page, "")
	slugs := map[string]int{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		if slugs[slug(m[1])]++; slugs[slug(m[1])] > 1 {
			t.Errorf("more than one heading has the address #%s", slug(m[1]))
		}
	}
	links := link.FindAllStringSubmatch(text, -1)
	if len(links) < 10 {
		t.Errorf("only %d links", len(links))
	}
	for _, m := range links {
		if slugs[m[1]] == 0 {
			t.Errorf("no heading has the address #%s", m[1])
		}
	}
}

func TestTheReferenceNamesEveryFieldWithItsFacts(t *testing.T) {
	page := string(Reference(registry()))
	for _, want := range []string{
		"- **`concurrency`** – whole number; 1 to 256; default `4`\n\n  How many calls may be under way at the same time.\n",
		"- **`from`** – [mapping](#flowsnamefrom); **required**",
		"- **`token`** – secret; **required**\n\n  The token of the shop's API.\n\n  Example: `token: '${env:SHOP_TOKEN}'`\n",
		"### `connector: erp`\n\nAn ERP.\n",
		"| `orders` | Orders by their time of change. | no | yes |",
		"| `party` | Customers and suppliers. | `external_ref` by code, `lookup` by name | `ignore`, `archive` | no |",
		"  - `none`: all of it\n",
		"The fields are those of [`clients.NAME.retry`](#clientsnameretry).",
		"  Example: `columns: [id, name]`\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	var names func(s *field.Set)
	names = func(s *field.Set) {
		for _, f := range s.Fields() {
			if !strings.Contains(page, "**`"+f.Name+"`**") {
				t.Errorf("the page lacks the field %s", f.Name)
			}
			if f.Sub() != nil {
				names(f.Sub())
			}
		}
		_, variants := s.Variants()
		for _, v := range variants {
			names(v.Set)
		}
	}
	names(field.Declare(&Config{connectors: registry()}))
}
