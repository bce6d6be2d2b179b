package mapping

import (
	"context"
	"strings"
	"testing"
)

func groups(t *testing.T, group, body string) ([]Pair, error) {
	t.Helper()
	p, err := Compile(Source{Map: `.lines[]`, Key: `$event.id + "-" + .n`, Group: group})
	if err != nil {
		t.Fatal(err)
	}
	return p.Map(context.Background(), []byte(body), Meta{})
}

func TestEachRecordGetsTheGroupThatItsExpressionGives(t *testing.T) {
	got, err := groups(t, `.product`, `{"id": "M", "lines": [{"n": "1", "product": " P1 "}, {"n": "2", "product": 20}]}`)
	if err != nil || len(got) != 2 || got[0].Group != "P1" || got[1].Group != "20" {
		t.Fatalf("got %+v, %v", got, err)
	}
}

func TestAGroupThatIsNoneIsToldLikeAKey(t *testing.T) {
	for group, want := range map[string]string{
		`.product`:              "group: is null (the group expression runs on the record; the event is $event)",
		`empty`:                 "group: gave no value, and every record needs a group",
		`.n, .n`:                "group: gave more than one value (use first(…) or join the parts into one string)",
		`""`:                    "group: is empty",
		`{n}`:                   `group: must be a string or a number but is an object (join the parts of a group, such as "\(.a)-\(.b)")`,
		`$event.lines[0].other`: "group: is null (the group expression runs on the record; the event is $event)",
	} {
		if _, err := groups(t, group, `{"id": "M", "lines": [{"n": "1"}]}`); err == nil || err.Error() != want {
			t.Errorf("group %s: %v, want %s", group, err, want)
		}
	}
}

func TestAWrongGroupExpressionIsFoundWhenItIsLoaded(t *testing.T) {
	_, err := Compile(Source{Map: `.`, Key: `.id`, Group: `.product |`})
	if err == nil || !strings.HasPrefix(err.Error(), "group:1:") {
		t.Fatalf("%v", err)
	}
}
