package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"syncd/config"
	"syncd/jobs"
	"syncd/ratelimit"
)

// statusJSON is what status --json prints; docs/cli.md describes it.
type statusJSON struct {
	At       time.Time      `json:"at"`
	Journal  string         `json:"journal"`
	Daemon   string         `json:"daemon"`
	Says     string         `json:"daemon_says,omitempty"`
	Flows    []flowStatus   `json:"flows"`
	Clients  []clientStatus `json:"clients"`
	Daemons  []daemonStatus `json:"daemons"`
	Totals   totals         `json:"totals"`
	Circles  [][]string     `json:"circles,omitempty"`
	Runs     []runJSON      `json:"runs,omitempty"`
	Warnings []string       `json:"warnings"`
}

type totals struct {
	Open       int64 `json:"open"`
	Running    int64 `json:"running"`
	Due        int64 `json:"due"`
	Done       int64 `json:"done"`
	Dead       int64 `json:"dead"`
	Held       int64 `json:"held"`
	Unresolved int64 `json:"unresolved"`
	Colliding  int64 `json:"colliding"`
}

type flowStatus struct {
	Flow       string           `json:"flow"`
	Configured bool             `json:"configured"`
	Retired    bool             `json:"retired,omitempty"`
	Disabled   bool             `json:"disabled,omitempty"`
	LastChange *time.Time       `json:"last_change,omitempty"`
	LastRead   *time.Time       `json:"last_read,omitempty"`
	Failing    *failingStatus   `json:"reading_fails,omitempty"`
	Suspended  *standingStatus  `json:"suspended,omitempty"`
	Full       *standingStatus  `json:"full,omitempty"`
	Open       int64            `json:"open"`
	Due        int64            `json:"due"`
	Done       int64            `json:"done"`
	Dead       int64            `json:"dead"`
	Held       int64            `json:"held"`
	Unresolved int64            `json:"unresolved"`
	Colliding  int64            `json:"colliding"`
	OldestOpen *time.Time       `json:"oldest_open,omitempty"`
	OpenBy     map[string]int64 `json:"open_by_reason,omitempty"`
	DeadBy     map[string]int64 `json:"dead_by_class,omitempty"`
	// DueSince is since when the job is due that is due longest; Withheld since when the
	// oldest withheld job is open, by what withholds it.
	DueSince *time.Time           `json:"due_since,omitempty"`
	Withheld map[string]time.Time `json:"withheld_since,omitempty"`
	Changed  []changeJSON         `json:"changed,omitempty"`
	Accept   string               `json:"accept_change,omitempty"`
	// GroupsHeldUp counts the groups of which the first are in HeldUp.
	GroupsHeldUp int      `json:"groups_held_up,omitempty"`
	HeldUp       []heldUp `json:"held_up,omitempty"`
}

// changeJSON is one thing in which a flow is not as its records were made.
type changeJSON struct {
	Field string `json:"field"`
	Place string `json:"place"`
	Was   string `json:"was"`
	Is    string `json:"is"`
}

type clientStatus struct {
	Client  string       `json:"client"`
	Running int          `json:"running"`
	Paused  *pauseStatus `json:"paused,omitempty"`
	// ExpiryHeld is why nothing that is written to it expires.
	ExpiryHeld *standingStatus `json:"expiry_held,omitempty"`
	Owners     []laneStatus    `json:"owners"`
}

type pauseStatus struct {
	Reason   string    `json:"reason"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"`
	Evidence string    `json:"evidence,omitempty"`
}

// suspended says of a client whose credentials were refused what happens next.
func (p *pauseStatus) suspended(now time.Time) string {
	switch {
	case p == nil || p.Reason != ratelimit.ReasonSuspended:
		return ""
	case !p.Until.After(now):
		return "its credentials were refused; the next call tries them, and no other is made before that is answered"
	default:
		return "its credentials were refused; one call tries them at " + p.Until.Format(time.RFC3339) +
			", or at once after a reload or a restart: mend them, then reload (SIGHUP), or restart where systemd hands them over"
	}
}

func (a *app) statusCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show flows, clients and jobs at a glance",
		Long: `status reads the journal and shows where every flow and client stands. It exits
with 1 when something needs a person: dead letters, a client that is suspended
because its credentials are refused or its server asked for more than max_pause, or
that a person has paused, a flow that is suspended because its target refuses record
after record, expiry that is held, a source that cannot be read or is not read because
too much is open, colliding records, records that wait for each other in a circle, a journal that warns of
itself, a daemon that does not answer on its listen address, a flow that is not as
its records were made, jobs of a flow that is not configured, or that the daemon
which writes to its client does not have.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.status(cmd.Context()) },
	}
}

func (a *app) status(ctx context.Context) error {
	c, err := a.look()
	if err != nil {
		return err
	}
	j, e, err := a.journal(ctx, c, reading, quiet())
	if err != nil {
		return err
	}
	defer j.Close()
	if err := verifiedWithin(ctx, e, statusVerify); err != nil {
		return exit(exitJournal, err)
	}
	o, err := j.Overview(ctx)
	if err != nil {
		return exit(exitJournal, err)
	}
	s := statusOf(c, o)
	ps, err := changed(ctx, j, c)
	if err != nil {
		return exit(exitJournal, err)
	}
	s.tell(c, ps, strays(c, o.Counts))
	if err := a.unrestored(ctx, j, e, c); err != nil {
		s.Warnings = append(s.Warnings, "syncd run refuses the journal: "+err.Error())
	}
	if err := s.circles(ctx, j, flows(c)); err != nil {
		return exit(exitJournal, err)
	}
	if err := s.heldUp(ctx, j, flows(c)); err != nil {
		return exit(exitJournal, err)
	}
	if err := s.errands(ctx, j); err != nil {
		return exit(exitJournal, err)
	}
	s.Journal = j.Describe()
	s.Daemon, s.Says = daemonState(ctx, c.Listen)
	if w, ok := e.(interface {
		Warnings(ctx context.Context) []string
	}); ok {
		s.Warnings = append(s.Warnings, w.Warnings(ctx)...)
	}
	for _, f := range s.Flows {
		if f.Failing != nil {
			f.Failing.Message = a.secrets.cut(f.Failing.Message)
		}
	}
	for _, st := range s.standings() {
		st.Message = a.secrets.cut(st.Message)
	}
	for _, cs := range s.Clients {
		if cs.Paused != nil {
			cs.Paused.Evidence = a.secrets.cut(cs.Paused.Evidence)
		}
	}
	if a.json {
		err = printJSON(a.out, s)
	} else {
		err = s.print(a.out)
	}
	if err == nil && s.finding() {
		return exit(exitFinding, errSaid)
	}
	return err
}

// tell says what is wrong between the configuration and the journal.
func (s *statusJSON) tell(c *config.Config, ps []changeProblem, strays []stray) {
	for _, p := range ps {
		i := slices.IndexFunc(s.Flows, func(f flowStatus) bool { return f.Flow == p.Change.Flow })
		for _, d := range p.Differences {
			s.Flows[i].Changed = append(s.Flows[i].Changed, changeJSON{d.Field, place(c.Flows[p.Change.Flow], d).String(), d.Was, d.Is})
		}
		s.Flows[i].Accept = p.Token
		s.Warnings = append(s.Warnings, "syncd run refuses this configuration: "+p.Problem.String())
	}
	s.lacking(c)
	for _, f := range strays {
		s.Warnings = append(s.Warnings, "syncd run refuses this configuration: "+f.String())
	}
}

func (s *statusJSON) finding() bool {
	if len(s.standings()) > 0 {
		return true
	}
	if slices.ContainsFunc(s.Flows, func(f flowStatus) bool { return !f.Retired && f.Dead+f.Held+f.Colliding > 0 }) {
		return true
	}
	if len(s.Circles) > 0 || len(s.Warnings) > 0 || s.Daemon == daemonNotReady || s.Daemon == daemonAway {
		return true
	}
	if slices.ContainsFunc(s.Flows, func(f flowStatus) bool { return f.Failing.finding(s.At) }) {
		return true
	}
	// Quotas and outages end by themselves, but for what a server may not ask for without anybody looking.
	return slices.ContainsFunc(s.Clients, func(c clientStatus) bool {
		return c.Paused != nil && c.Paused.Until.After(s.At) && slices.Contains([]string{ratelimit.ReasonSuspended, ratelimit.ReasonBeyond, ratelimit.ReasonOperator}, c.Paused.Reason)
	})
}

// statusOf sums the journal's counts up by flow.
func statusOf(c *config.Config, o jobs.Overview) *statusJSON {
	s := &statusJSON{At: o.At, Flows: []flowStatus{}, Clients: []clientStatus{}, Daemons: daemons(o), Warnings: []string{}}
	byFlow := map[string]*flowStatus{}
	flow := func(name string) *flowStatus {
		f := byFlow[name]
		if f == nil {
			f = &flowStatus{Flow: name, OpenBy: map[string]int64{}, DeadBy: map[string]int64{}}
			if cf := c.Flows[name]; cf != nil {
				f.Configured, f.Disabled = true, !cf.Enabled
			}
			f.Retired = slices.Contains(c.Retired, name)
			byFlow[name] = f
		}
		return f
	}
	for name := range c.Flows {
		flow(name)
	}
	for _, n := range o.Counts {
		f := flow(n.Flow)
		f.Unresolved += n.Unresolved
		switch n.State {
		case jobs.Done:
			f.Done += n.N
		case jobs.Dead:
			f.Dead += n.N
			f.DeadBy[n.Class] += n.N
		case jobs.Held:
			f.Held += n.N
		default:
			f.Open += n.N
			f.Due += n.Due
			if n.Reason != jobs.ReasonNone {
				f.OpenBy[string(n.Reason)] += n.N
			}
			if !n.OldestOpen.IsZero() && (f.OldestOpen == nil || n.OldestOpen.Before(*f.OldestOpen)) {
				f.OldestOpen = &n.OldestOpen
			}
		}
	}
	for _, fs := range o.Flows {
		if !fs.MovedAt.IsZero() {
			flow(fs.Flow).LastChange = &fs.MovedAt
		}
		if cf := c.Flows[fs.Flow]; cf != nil && cf.Enabled {
			flow(fs.Flow).reading(fs)
			flow(fs.Flow).Suspended, flow(fs.Flow).Full = standing(fs.Suspended), standing(fs.Full)
		}
	}
	for name, n := range o.Contenders {
		flow(name).Colliding = int64(n)
	}
	for _, a := range o.Ages(flows(c)) {
		f := flow(a.Flow)
		if a.Reason == "" {
			f.DueSince = at(a.Oldest)
			continue
		}
		if f.Withheld == nil {
			f.Withheld = map[string]time.Time{}
		}
		f.Withheld[a.Reason] = a.Oldest
	}
	for _, f := range byFlow {
		s.Flows = append(s.Flows, *f)
		s.Totals.Open += f.Open
		s.Totals.Due += f.Due
		s.Totals.Done += f.Done
		s.Totals.Dead += f.Dead
		s.Totals.Held += f.Held
		s.Totals.Unresolved += f.Unresolved
		s.Totals.Colliding += f.Colliding
	}
	slices.SortFunc(s.Flows, func(x, y flowStatus) int { return strings.Compare(x.Flow, y.Flow) })
	s.clients(c, o)
	return s
}

func (s *statusJSON) clients(c *config.Config, o jobs.Overview) {
	stored := map[string]jobs.ClientState{}
	for _, cs := range o.Clients {
		stored[cs.Client] = cs
	}
	for name := range c.Clients {
		cs := clientStatus{Client: name, Running: o.Running[name]}
		s.Totals.Running += int64(cs.Running)
		// A suspension stands until a call was answered, also after its time.
		if st := stored[name]; st.PausedUntil.After(o.At) || st.Reason == ratelimit.ReasonSuspended {
			cs.Paused = &pauseStatus{Reason: st.Reason, Since: st.Since, Until: st.PausedUntil, Evidence: st.Evidence}
		}
		cs.ExpiryHeld = standing(stored[name].ExpiryHeld)
		cs.Owners = owners(c.Clients[name], o)
		s.Clients = append(s.Clients, cs)
	}
	slices.SortFunc(s.Clients, func(x, y clientStatus) int { return strings.Compare(x.Client, y.Client) })
}

// What status says of the daemon.
const (
	daemonRuns     = "running"
	daemonNotReady = "not ready"
	daemonAway     = "not reachable"
	daemonUnknown  = "unknown" // no listen address
)

// daemonState asks the daemon on the listen address whether it is ready.
// If it is not, what it says of that comes second.
func daemonState(ctx context.Context, listen string) (state, says string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return daemonUnknown, ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	// A journal that is slow to be written delays the answer.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/readyz", nil)
	if err != nil {
		return daemonUnknown, ""
	}
	// Its own transport, which asks no proxy.
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Do(req)
	if err != nil {
		return daemonAway, ""
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200)) // as far as it can be read
		return daemonNotReady, strings.TrimSpace(string(text))
	}
	return daemonRuns, ""
}

func (s *statusJSON) print(w io.Writer) error {
	daemon := s.Daemon
	if daemon == daemonUnknown {
		daemon = "not known, because listen is off"
	}
	if s.Says != "" {
		daemon += ": " + clean(s.Says)
	}
	fmt.Fprintf(w, "journal  %s\ndaemon   %s\n\n", s.Journal, daemon)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FLOW\tOPEN\tDUE\tDONE\tDEAD\tHELD\tIN DOUBT\tCOLLIDING\tOLDEST OPEN\tLAST CHANGE\tLAST READ\tWHY OPEN OR DEAD")
	for _, f := range s.Flows {
		name := f.Flow
		switch {
		case f.Retired:
			name += " (retired)"
		case !f.Configured:
			name += " (not configured)"
		case f.Disabled:
			name += " (disabled)"
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", clean(name), f.Open, f.Due, f.Done, f.Dead, f.Held, f.Unresolved, f.Colliding,
			ago(s.At, f.OldestOpen), ago(s.At, f.LastChange), ago(s.At, f.LastRead), dash(whyOpen(f)))
	}
	fmt.Fprintln(tw)
	fmt.Fprintln(tw, "CLIENT\tOWNER\tRUNNING\tGATE\tUNTIL\tEVIDENCE")
	for _, c := range s.Clients {
		gate, until, evidence := "open", "-", "-"
		if p := c.Paused; p != nil {
			gate, until, evidence = "paused ("+p.Reason+")", p.until(), dash(clean(p.Evidence))
			if !p.Until.After(s.At) {
				until = "the next call"
			}
		}
		fmt.Fprintf(tw, "%s\t%s\t%d\t%s\t%s\t%s\n", c.Client, dash(clean(c.owner())), c.Running, gate, until, evidence)
	}
	if len(s.Daemons) > 1 {
		fmt.Fprintln(tw)
		fmt.Fprintln(tw, "DAEMON\tSINCE\tLANES\tSTATE")
		for _, d := range s.Daemons {
			fmt.Fprintf(tw, "%s\t%s\t%d\t%s\n", clean(d.name()), d.Since.Format(time.RFC3339), d.Lanes, d.State)
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	s.printPace(w)
	if len(s.Runs) > 0 {
		fmt.Fprintln(w)
		if err := printRuns(w, s.Runs); err != nil {
			return err
		}
	}
	for _, f := range s.Flows {
		if f.Failing != nil {
			fmt.Fprintf(w, "\n%s\n", clean(f.Failing.text(f.Flow, s.At)))
		}
	}
	for _, f := range s.Flows {
		if f.Held > 0 && !f.Retired { // what a retired flow has is left as it is
			first := ""
			if !f.Configured {
				first = "put the flow back (enabled: false lets it rest), "
			}
			fmt.Fprintf(w, "\nheld: %d of flow %s wait for a person to say whether they were written: %ssyncd jobs list --flow %s --state held, then syncd resolve\n",
				f.Held, clean(f.Flow), first, clean(f.Flow))
		}
	}
	s.printStandings(w)
	for _, c := range s.Clients {
		if text := c.Paused.suspended(s.At); text != "" {
			fmt.Fprintf(w, "\nsuspended: client %s: %s\n", clean(c.Client), text)
		}
		if p := c.Paused; p != nil && p.Reason == ratelimit.ReasonBeyond && p.Until.After(s.At) {
			fmt.Fprintf(w, "\nsuspended: client %s, until %s: its server asked for a longer pause than max_pause: %s\nif that cannot be right: syncd resume %s\n",
				clean(c.Client), p.until(), clean(p.Evidence), clean(c.Client))
		}
		if p := c.Paused; p != nil && p.Reason == ratelimit.ReasonOperator {
			fmt.Fprintf(w, "\npaused: client %s, since %s, until %s: %s\nnothing is sent to it, and its jobs keep their attempts; to let it be called again: syncd resume %s\n",
				clean(c.Client), stamp(&p.Since), p.until(), clean(p.Evidence), clean(c.Client))
		}
	}
	for i := range s.Flows {
		for _, text := range s.Flows[i].heldUpLines() {
			fmt.Fprintf(w, "\n%s\n", clean(text))
		}
	}
	for _, c := range s.Circles {
		fmt.Fprintf(w, "\nthese wait for each other in a circle, and none can be written: %s\n", clean(strings.Join(append(c, c[0]), " -> ")))
	}
	for _, n := range s.Warnings {
		fmt.Fprintln(w, "\nwarning:", clean(n))
	}
	return nil
}

// whyOpen counts open jobs by reason and dead ones by class.
func whyOpen(f flowStatus) string {
	list := func(m map[string]int64) string {
		var out []string
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, fmt.Sprintf("%s %d", k, m[k]))
		}
		return strings.Join(out, ", ")
	}
	open, dead := list(f.OpenBy), list(f.DeadBy)
	switch {
	case dead == "":
		return open
	case open == "":
		return "dead: " + dead
	default:
		return open + "; dead: " + dead
	}
}

// ago says how long before now a time lies.
func ago(now time.Time, t *time.Time) string {
	if t == nil || t.IsZero() {
		return "-"
	}
	d := now.Sub(*t)
	switch {
	case d < 0:
		return "now"
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
