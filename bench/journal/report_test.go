package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"syncd/bench/internal/lab"
)

func TestTheReportHoldsEachFigureAndGoal(t *testing.T) {
	r := &report{}
	r.add("cycle", "sqlite, 350 B", value{"jobs/s", 12345}, value{"client µs/job", 61.25})
	r.add("idle", "sqlite", value{"polls/s", 16.5})
	r.goal(lab.AtLeast("cycle: sqlite", 12345, 18900, "jobs/s"))
	var text, object bytes.Buffer
	if err := r.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sqlite, 350 B", "12345", "61.2", "polls/s", "MISSED"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	if err := json.NewEncoder(&object).Encode(r.JSON()); err != nil {
		t.Fatal(err)
	}
	var got struct {
		Figures []struct {
			Section, Variant string
			Values           map[string]float64
		}
		Goals []lab.Check
	}
	if err := json.Unmarshal(object.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Figures) != 2 || got.Figures[0].Values["client µs/job"] != 61.25 || got.Figures[1].Section != "idle" {
		t.Errorf("figures %+v", got.Figures)
	}
	if len(got.Goals) != 1 || !got.Goals[0].Missed {
		t.Errorf("goals %+v", got.Goals)
	}
}

func TestUnknownSectionsAndJournalsAreRefused(t *testing.T) {
	for _, args := range [][]string{{"--only", "cycle,nothing"}, {"--journal", "oracle"}, {"--jobs", "1"}, {"more"}} {
		if _, _, err := program.Parse(args, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
	if _, _, err := program.Parse([]string{"--only", "idle", "--journal", "sqlite"}, io.Discard); err != nil {
		t.Error(err)
	}
}
