package deploy

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"syncd/admin"
	"syncd/jobs"
	"syncd/ratelimit"
)

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	unmarshal(t, "prometheus/syncd.rules.yaml", &file)
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) < 10 {
		t.Fatalf("found %d rules", len(all))
	}
	return all
}

func unmarshal(t *testing.T, name string, into any) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// stateOfJournal has something of everything that the rules ask for.
type stateOfJournal struct{}

func (stateOfJournal) Overview(context.Context) (jobs.Overview, error) {
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	o := jobs.Overview{At: at, Flows: []jobs.FlowState{{Flow: "orders"}}, Clients: []jobs.ClientState{{Client: "erp"}}, Contenders: map[string]int{"orders": 1}}
	for _, s := range []jobs.State{jobs.Held, jobs.Dead} {
		o.Counts = append(o.Counts, jobs.Count{Flow: "orders", State: s, Reason: jobs.ReasonFailed, N: 1})
	}
	for _, r := range []jobs.Reason{jobs.ReasonNone, jobs.ReasonWaiting, jobs.ReasonCollision} {
		o.Counts = append(o.Counts, jobs.Count{Flow: "orders", State: jobs.Ready, Reason: r, N: 1, OldestOpen: at.Add(-time.Hour)})
	}
	// Of a flow that no daemon runs.
	o.Counts = append(o.Counts, jobs.Count{Flow: "gone", State: jobs.Ready, N: 1, Due: 1, OldestOpen: at.Add(-time.Hour), OldestDue: at.Add(-time.Hour)})
	return o, nil
}

// exported are the values that each label of each metric has at /metrics, and those
// that Prometheus itself adds.
func exported(t *testing.T) map[string]map[string][]string {
	t.Helper()
	m := admin.NewMetrics("1.2.3")
	m.Expect([]string{"orders"}, []string{"erp"})
	m.CountLost(func() int64 { return 0 })
	m.Watch(admin.State{Journal: stateOfJournal{}, Clients: func() []admin.Client {
		return []admin.Client{{Name: "erp", Paused: "throttled", Breaker: "closed"}, {Name: "shop", Paused: ratelimit.ReasonBeyond, Breaker: "closed"}}
	},
		Ready: func(context.Context) error { return nil },
		Rules: func() map[string]*jobs.Flow { return map[string]*jobs.Flow{"orders": {Name: "orders", Client: "erp"}} }})
	families, err := m.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string][]string{"up": {}}
	for _, f := range families {
		labels := map[string][]string{}
		for _, s := range f.GetMetric() {
			for _, l := range s.GetLabel() {
				labels[l.GetName()] = append(labels[l.GetName()], l.GetValue())
			}
		}
		out[f.GetName()] = labels
	}
	for _, labels := range out {
		labels["job"], labels["instance"] = nil, nil
	}
	return out
}

// use is a metric as an expression names it, with what it asks of its labels.
type use struct {
	metric string
	asks   []ask
}

type ask struct{ label, op, value string }

var (
	selector = regexp.MustCompile(`([a-zA-Z_:][a-zA-Z0-9_:]*)\s*\{([^}]*)\}`)
	matcher  = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|on|without|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	window   = regexp.MustCompile(`\[[^\]]*\]`)
	word     = regexp.MustCompile(`\b[a-zA-Z_:][a-zA-Z0-9_:]*\b(\s*\()?`)
	operator = []string{"and", "or", "unless", "offset", "bool"}
)

// parse finds what a PromQL expression uses: its metrics, and the labels that it groups
// by. It knows as much of the language as the rules need; promtool reads them whole.
func parse(expr string) (uses []use, groups []string) {
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for l := range strings.SplitSeq(m[1], ",") {
			groups = append(groups, strings.TrimSpace(l))
		}
	}
	expr = window.ReplaceAllString(grouping.ReplaceAllString(expr, " "), " ")
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		u := use{metric: m[1]}
		for _, a := range matcher.FindAllStringSubmatch(m[2], -1) {
			u.asks = append(u.asks, ask{a[1], a[2], a[3]})
		}
		uses = append(uses, u)
	}
	for _, m := range word.FindAllStringSubmatch(selector.ReplaceAllString(expr, " "), -1) {
		if m[1] == "" && !slices.Contains(operator, m[0]) {
			uses = append(uses, use{metric: m[0]})
		}
	}
	return uses, groups
}

func TestAlertsUseMetricsAndLabelsThatAreExported(t *testing.T) {
	have := exported(t)
	for _, r := range rules(t) {
		uses, groups := parse(r.Expr)
		if len(uses) == 0 {
			t.Errorf("%s uses no metric", r.Alert)
		}
		for _, u := range uses {
			labels, ok := have[u.metric]
			if !ok {
				t.Errorf("%s uses %s, which is not at /metrics", r.Alert, u.metric)
				continue
			}
			for _, a := range u.asks {
				values, ok := labels[a.label]
				if !ok {
					t.Errorf("%s asks for the label %s of %s, which has none", r.Alert, a.label, u.metric)
				}
				if a.label == "job" || a.op == "!=" || a.op == "!~" {
					continue
				}
				for v := range strings.SplitSeq(a.value, "|") {
					if !slices.Contains(values, v) {
						t.Errorf("%s asks for %s=%q of %s, which has only %q", r.Alert, a.label, v, u.metric, values)
					}
				}
			}
			for _, l := range groups {
				if _, ok := labels[l]; !ok && !strings.HasPrefix(u.metric, "syncd_build") {
					t.Errorf("%s groups by %s, which %s does not have", r.Alert, l, u.metric)
				}
			}
		}
	}
}

func TestAlertsSayHowBadItIsWhatItIsAndWhatToDo(t *testing.T) {
	have := exported(t)
	named := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	seen := map[string]bool{}
	for _, r := range rules(t) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has the severity %q", r.Alert, r.Labels["severity"])
		}
		if len(r.Annotations["summary"]) < 20 || len(r.Annotations["description"]) < 80 {
			t.Errorf("%s says too little", r.Alert)
		}
		uses, groups := parse(r.Expr)
		kept := groups
		if len(groups) == 0 {
			for l := range have[uses[0].metric] {
				kept = append(kept, l)
			}
		}
		text := r.Annotations["summary"] + r.Annotations["description"]
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			if !slices.Contains(kept, m[1]) {
				t.Errorf("%s names $labels.%s, and has only %q", r.Alert, m[1], kept)
			}
		}
		for _, l := range []string{"client", "flow"} {
			if slices.Contains(groups, l) && !strings.Contains(r.Annotations["summary"], "$labels."+l) {
				t.Errorf("the summary of %s does not say which %s", r.Alert, l)
			}
		}
		page, anchor, _ := strings.Cut(r.Annotations["docs"], "#")
		text2, err := os.ReadFile("../" + page)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		} else if !slices.Contains(anchors(string(text2)), anchor) {
			t.Errorf("%s names the section %q, which %s does not have", r.Alert, anchor, page)
		}
	}
}

// anchors are what the headings of a page are linked by.
func anchors(page string) (out []string) {
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "#") {
			h := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			h = regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(h, "")
			out = append(out, strings.ReplaceAll(h, " ", "-"))
		}
	}
	return out
}

func TestDocumentationNamesEveryAlertUnderItsSeverity(t *testing.T) {
	page, err := os.ReadFile("../docs/operating.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| `(critical|warning|info)` \\|.*$").FindAllStringSubmatch(string(page), -1) {
		for _, a := range regexp.MustCompile("`(Syncd[A-Za-z]+)`").FindAllStringSubmatch(m[0], -1) {
			named[m[1]+" "+a[1]] = true
		}
	}
	for _, r := range rules(t) {
		at := r.Labels["severity"] + " " + r.Alert
		if !named[at] {
			t.Errorf("docs/operating.md does not name %s", at)
		}
		delete(named, at)
	}
	for at := range named {
		t.Errorf("docs/operating.md names %s, which is no alert", at)
	}
}

func TestEveryAlertIsTested(t *testing.T) {
	text, err := os.ReadFile("prometheus/syncd.rules.test.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rules(t) {
		if !strings.Contains(string(text), `alertname="`+r.Alert+`",alertstate="firing"`) {
			t.Errorf("no test has %s fire", r.Alert)
		}
	}
}

func TestTheExampleOfPrometheusScrapesWhatTheRulesKnow(t *testing.T) {
	var file struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrape    []struct {
			Job    string `yaml:"job_name"`
			Static []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	unmarshal(t, "prometheus/prometheus.yaml", &file)
	if len(file.RuleFiles) != 1 || file.RuleFiles[0] != "syncd.rules.yaml" {
		t.Errorf("the rules are %q", file.RuleFiles)
	}
	if len(file.Scrape) != 1 || !strings.HasPrefix(file.Scrape[0].Job, "syncd") || file.Scrape[0].Static[0].Targets[0] != "127.0.0.1:9464" {
		t.Errorf("the example scrapes %+v", file.Scrape)
	}
}
