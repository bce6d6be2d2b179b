package mapping

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

func guide(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/mapping.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestExamplesInTheGuideGiveWhatItSays(t *testing.T) {
	examples := regexp.MustCompile("`([^`]+)` → `([^`]+)`").FindAllStringSubmatch(guide(t), -1)
	if len(examples) < 35 {
		t.Fatalf("found %d examples, want at least 35", len(examples))
	}
	for _, e := range examples {
		t.Run(e[1], func(t *testing.T) {
			if got := eval(t, e[1], "null"); got != e[2] {
				t.Errorf("%s gives %s, the guide says %s", e[1], got, e[2])
			}
		})
	}
}

func TestEveryAddedFunctionHasAnExampleInTheGuide(t *testing.T) {
	text := guide(t)
	for name, f := range added(newRefMaker()) {
		usage := name + "("
		if !strings.Contains(text, "| `"+usage) {
			t.Errorf("the guide has no table row for %s", f.usage(name))
		}
		if strings.Count(text, usage) < 2 {
			t.Errorf("the guide has no example of %s", name)
		}
	}
}

func TestRecipesInTheGuideGiveTheirRecords(t *testing.T) {
	fences := regexp.MustCompile("(?ms)^```(json event|jq map|jq key|json record ?)([^\n]*)\n(.*?)^```").FindAllStringSubmatch(guide(t), -1)
	var src Source
	var event string
	var want []Pair
	recipes := 0
	check := func() {
		if event == "" {
			return
		}
		recipes++
		got, err := mapOnce(t, mustCompile(t, src), event)
		if err != nil {
			t.Errorf("recipe %d: %v", recipes, err)
			return
		}
		if len(got) != len(want) {
			t.Errorf("recipe %d gives %d records, the guide shows %d", recipes, len(got), len(want))
			return
		}
		for i := range got {
			if got[i].Key != want[i].Key || string(got[i].Body) != string(want[i].Body) {
				t.Errorf("recipe %d record %d:\n got %s %s\nwant %s %s", recipes, i, got[i].Key, got[i].Body, want[i].Key, want[i].Body)
			}
		}
	}
	for _, f := range fences {
		switch strings.TrimSpace(f[1]) {
		case "json event":
			check()
			event, want, src = f[3], nil, Source{}
		case "jq map":
			src.Map = f[3]
		case "jq key":
			src.Key = f[3]
		case "json record":
			want = append(want, Pair{Key: strings.TrimSpace(f[2]), Body: canonical(t, f[3])})
		}
	}
	check()
	if recipes < 9 {
		t.Errorf("found %d recipes, want at least 9", recipes)
	}
}

// canonical removes what only makes a record pleasant to read.
func canonical(t *testing.T, text string) []byte {
	t.Helper()
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
	}
	if _, _, err := decode([]byte(b.String())); err != nil {
		t.Fatalf("the guide shows a record that is not JSON: %v", err)
	}
	return []byte(b.String())
}
