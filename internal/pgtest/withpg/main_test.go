package main

import (
	"strings"
	"testing"
)

func TestTheCommandsExitCodeIsPassedOn(t *testing.T) {
	for _, c := range []struct {
		name, script string
		want         int
	}{
		{"success", `exit 0`, 0},
		{"failure", `exit 7`, 7},
		{"killed", `kill -9 $$`, 137},
		{"the server's address is in the environment", `[ "$PGTEST_SERVER" = "postgres://here" ]`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, err := wait([]string{"/bin/sh", "-c", c.script}, "postgres://here")
			if err != nil || code != c.want {
				t.Errorf("code %d, error %v; want code %d", code, err, c.want)
			}
		})
	}
}

func TestACommandThatDoesNotStartIsAnError(t *testing.T) {
	code, err := wait([]string{"/no/such/command"}, "")
	if code != 1 || err == nil || !strings.Contains(err.Error(), "start /no/such/command") {
		t.Errorf("code %d, error %v", code, err)
	}
}
