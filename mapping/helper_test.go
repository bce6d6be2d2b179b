package mapping

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

// mustCompile compiles a program whose key is always "k" unless given.
func mustCompile(t testing.TB, src Source) *Program {
	t.Helper()
	if src.Key == "" {
		src.Key = `"k"`
	}
	p, err := Compile(src)
	if err != nil {
		t.Fatalf("compile %s: %v", src.Map, err)
	}
	return p
}

func testMeta() Meta {
	return Meta{SourceID: "src-1", Stream: "orders", Version: 42,
		ChangedAt: time.Date(2026, 11, 29, 10, 0, 0, 0, time.FixedZone("", 3600))}
}

func mapOnce(t testing.TB, p *Program, body string) ([]Pair, error) {
	t.Helper()
	return p.Map(context.Background(), []byte(body), testMeta())
}

// eval gives the JSON of one expression on one input.
func eval(t testing.TB, expression, input string) string {
	t.Helper()
	out, err := tryEval(t, expression, input)
	if err != nil {
		t.Fatalf("%s on %s: %v", expression, input, err)
	}
	return out
}

func tryEval(t testing.TB, expression, input string) (string, error) {
	t.Helper()
	pairs, err := mapOnce(t, mustCompile(t, Source{Map: "{v: (" + expression + ")}"}), input)
	if err != nil {
		return "", err
	}
	if len(pairs) != 1 {
		t.Fatalf("%s gave %d records", expression, len(pairs))
	}
	body := string(pairs[0].Body)
	return strings.TrimSuffix(strings.TrimPrefix(body, `{"v":`), "}"), nil
}

// mapFailure runs a program that must fail on the event's account.
func mapFailure(t testing.TB, src Source, body string) *Error {
	t.Helper()
	pairs, err := mapOnce(t, mustCompile(t, src), body)
	if err == nil {
		t.Fatalf("%s on %s: no error but %d records", src.Map, body, len(pairs))
	}
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("%s: error is %T, want *Error: %v", src.Map, err, err)
	}
	return failed
}
