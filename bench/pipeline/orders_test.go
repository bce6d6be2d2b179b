package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func TestOrdersAreValidDistinctAndTheSameEachTime(t *testing.T) {
	const n, size = 300, 4096
	var files [2][]byte
	var pieces [2]int64
	for i := range files {
		path := filepath.Join(t.TempDir(), "orders.jsonl")
		var err error
		if pieces[i], err = orders(path, n+i*50, size); err != nil {
			t.Fatal(err)
		}
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.HasPrefix(files[1], files[0]) {
		t.Error("a longer file does not begin like a shorter one")
	}
	lines := bytes.Split(bytes.TrimSuffix(files[0], []byte("\n")), []byte("\n"))
	if len(lines) != n {
		t.Fatalf("%d lines, want %d", len(lines), n)
	}
	seen := map[int64]bool{}
	var sum int64
	for i, line := range lines {
		var o struct {
			ID    int64 `json:"id"`
			Lines []struct {
				Quantity int64 `json:"quantity"`
			} `json:"line_items"`
		}
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		if seen[o.ID] || o.ID != int64(firstID+i) {
			t.Errorf("line %d has the id %d", i+1, o.ID)
		}
		if len(line) < size*9/10 || len(line) > size*5/4 {
			t.Errorf("line %d has %d bytes, want about %d", i+1, len(line), size)
		}
		seen[o.ID] = true
		for _, l := range o.Lines {
			sum += l.Quantity
		}
	}
	if sum != pieces[0] {
		t.Errorf("the orders hold %d pieces, and %d are told", sum, pieces[0])
	}
}
