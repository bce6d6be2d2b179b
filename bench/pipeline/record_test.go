package main

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"syncd/mapping"
)

func TestTheExpectedRecordIsThatOfTheProgram(t *testing.T) {
	var c struct {
		Flows map[string]struct{ Key, Map string }
	}
	_, flows, _ := strings.Cut(configText, "flows:")
	if err := yaml.Unmarshal([]byte("flows:"+strings.ReplaceAll(flows, "%s", "orders")), &c); err != nil {
		t.Fatal(err)
	}
	p, err := mapping.Compile(mapping.Source{Map: c.Flows["orders"].Map, Key: c.Flows["orders"].Key})
	if err != nil {
		t.Fatal(err)
	}
	g := generator{rnd: rand.New(rand.NewPCG(3, 4)), size: 3000}
	for i := range 200 {
		order := g.order(i)
		pairs, err := p.Map(context.Background(), order, mapping.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		want, err := recordOf(order)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(pairs[0].Body); got != string(want) {
			t.Fatalf("order %d\n got %s\nwant %s", i, got, want)
		}
	}
}
