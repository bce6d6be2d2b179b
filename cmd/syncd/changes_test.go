package main

import (
	"strings"
	"testing"

	"syncd/config"
	"syncd/jobs"
)

func TestARefusedChangeSaysWhatAcceptingItDoes(t *testing.T) {
	conf, err := config.Load(config.Options{Path: "../../deploy/examples/file-postgres.yaml", Env: []string{"ERP_PASSWORD=x"}, Connectors: registry()})
	if err != nil {
		t.Fatal(err)
	}
	const rename, group = "is met by on_rename", "stay in the groups that they had"
	for _, c := range []struct {
		fields []string
		want   []string
	}{
		{[]string{"key"}, []string{rename}},
		{[]string{"group"}, []string{group}},
		{[]string{"group", "key"}, []string{rename, group}},
		{[]string{"to.strategy"}, nil},
		{[]string{"to.strategy", "vars.prefix"}, []string{rename}},
	} {
		change := jobs.Change{Flow: "orders", Token: "abc"}
		for _, f := range c.fields {
			change.Differences = append(change.Differences, jobs.Difference{Field: f, Is: "new", Was: "old"})
		}
		says := problem(conf.Flows["products"], change).Msg
		for _, text := range []string{rename, group} {
			wants := strings.Contains(strings.Join(c.want, "\n"), text)
			if strings.Contains(says, text) != wants {
				t.Errorf("a change of %q: %q is said: %v, want %v, in %q", c.fields, text, !wants, wants, says)
			}
		}
	}
}
