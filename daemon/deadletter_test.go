package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"syncd/connectors"
)

// told are the lines of the log that tell of a dead letter.
func (w *world) told() (lines []string) {
	for line := range strings.Lines(w.logged.String()) {
		if strings.Contains(line, `level=ERROR msg="dead letter"`) {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestEveryKindOfDeadLetterIsLoggedByKeyAndOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
		w.refuse(connectors.Fail(connectors.Invalid, "http_422", "no such party"))
		w.shop.put("1", 1, `{"key":"A"}`)
		w.pass(time.Second)
		w.shop.put("2", 1, `{"key":"B","bad":true,"mail":"jo@example.com"}`)
		w.shop.put("3", 1, `["jo@example.com"]`)
		w.start()
		w.pass(time.Minute)
		lines := w.told()
		for _, key := range []string{"key=A ", "key=@2 ", "key=@3 "} {
			if n := strings.Count(strings.Join(lines, ""), key); n != 1 {
				t.Errorf("%s is told %d times", key, n)
			}
		}
		for _, line := range lines {
			for _, part := range []string{"flow=orders", "class=invalid", "state=dead", "message="} {
				if !strings.Contains(line, part) {
					t.Errorf("%q lacks %s", line, part)
				}
			}
		}
		if strings.Contains(w.logged.String(), "jo@example.com") {
			t.Error("the log holds a customer's data")
		}
	})
}

func TestDeadLettersOfAPageAreLoggedWithinABound(t *testing.T) {
	for name, slice := range map[string]int{"at once": 0, "in slices": 4} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.slice = slice
				w.plan.Flows["orders"] = w.flow("orders", "order", `if .bad then error("price is missing") else . end`, `.key`)
				w.plan.Flows["orders"].Page = 100
				for i := range 30 {
					w.shop.put(fmt.Sprint(i), 1, `{"bad":true}`)
				}
				w.start()
				w.pass(3 * time.Second)
				if n := len(w.told()); n != mostDeadLetters {
					t.Errorf("%d of 30 dead letters are logged, want %d", n, mostDeadLetters)
				}
				w.shop.put("99", 1, `{"bad":true}`)
				w.pass(3 * time.Second)
				if lines := w.told(); len(lines) != mostDeadLetters+1 || !strings.Contains(lines[len(lines)-1], "key=@99 ") {
					t.Errorf("the next page's is not told: %q", lines)
				}
			})
		})
	}
}
