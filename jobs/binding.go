package jobs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/mutant"
	"syncd/mapping"
)

// Binding is what the records of a flow are tied to for ever: where they come
// from, where they are written, and how they are known there. Rows, links and the
// cursor mean nothing under another one.
type Binding struct {
	SourceClient string `json:"source_client"`
	Stream       string `json:"stream"`
	// SourceIDs and Versions are those of Flow; "" in a binding of before they were kept.
	SourceIDs string              `json:"source_ids,omitempty"`
	Versions  string              `json:"versions,omitempty"`
	Client    string              `json:"client"`
	Entity    string              `json:"entity"`
	KeyField  string              `json:"key_field"`
	Strategy  connectors.Strategy `json:"strategy"`
	// Key is the expression as it was written.
	Key       string            `json:"key"`
	Constants map[string]string `json:"constants,omitempty"`
	// Order and Group are those of Flow; Order is "" for "latest".
	Order string `json:"order,omitempty"`
	Group string `json:"group,omitempty"`
}

// Binding returns what the flow as it is now would tie its records to.
func (f *Flow) Binding() Binding {
	order := ""
	if f.Every() {
		order = f.Order
	}
	return Binding{Order: order, Group: f.Group, SourceClient: f.SourceClient, Stream: f.Stream,
		SourceIDs: f.SourceIDs, Versions: f.Versions, Client: f.Client, Entity: f.Entity, KeyField: f.KeyField,
		Strategy: f.Strategy, Key: f.Key, Constants: f.KeyConstants}
}

// Difference is one thing in which a flow is not as its records were made.
type Difference struct {
	// Field is its path in the flow, such as to.client, or FieldOfKey.
	Field   string
	Was, Is string
	// fixed: rows under the one mean nothing under the other, whoever accepts it.
	fixed bool
}

// FieldOfKey is the Field of a difference in where an entity holds the key, which
// the client's settings say.
const FieldOfKey = "to.entity.key_field"

// FieldOfIDs and FieldOfVersions are the Fields of a difference in what a stream's
// ids and versions are made of, which the source client's settings say.
const (
	FieldOfIDs      = "from.stream.id"
	FieldOfVersions = "from.stream.version"
)

// differences compares two bindings; white space and comments of the key do not count.
func (b Binding) differences(now Binding) (ds []Difference) {
	add := func(field, was, is string, fixed bool) {
		if was != is {
			ds = append(ds, Difference{field, was, is, fixed})
		}
	}
	add("from.client", b.SourceClient, now.SourceClient, true)
	add("from.stream", b.Stream, now.Stream, true)
	// What one of the two does not say is no difference.
	if b.SourceIDs != "" && now.SourceIDs != "" {
		add(FieldOfIDs, b.SourceIDs, now.SourceIDs, true)
	}
	if b.Versions != "" && now.Versions != "" {
		add(FieldOfVersions, b.Versions, now.Versions, true)
	}
	add("to.client", b.Client, now.Client, true)
	add("to.entity", b.Entity, now.Entity, true)
	add(FieldOfKey, b.KeyField, now.KeyField, true)
	add("order", cmp.Or(b.Order, "latest"), cmp.Or(now.Order, "latest"), true)
	if mapping.Normal(b.Group) != mapping.Normal(now.Group) {
		add("group", b.Group, now.Group, false)
	}
	add("to.strategy", string(b.Strategy), string(now.Strategy), false)
	if mapping.Normal(b.Key) != mapping.Normal(now.Key) {
		add("key", b.Key, now.Key, false)
	}
	// One that the key has begun or ceased to use is a change of the key.
	for _, n := range slices.Sorted(maps.Keys(b.Constants)) {
		if is, used := now.Constants[n]; used {
			add("vars."+n, b.Constants[n], is, false)
		}
	}
	return ds
}

// Change is a flow that is not as its records were made.
type Change struct {
	Flow string
	// Differences, at least one, in the order of the flow's fields.
	Differences []Difference
	// Done, Open and Dead are its rows, held ones counted among the dead;
	// Unresolved how many of them have a write in doubt.
	Done, Open, Dead, Unresolved int64
	// Token stands for exactly this change; "" for one that cannot be accepted.
	Token string
	// Until is when a change of the strategy can be accepted, since no write in doubt
	// may be at work any more; zero when it can be now. A strategy reckons with late
	// writes of its own only.
	Until time.Time
	// Accepted says that the flow names the token, and that there is nothing to wait for.
	Accepted bool
}

// ChangedError says that flows are not as their records were made.
type ChangedError struct{ Changes []Change }

// OthersError says that a change of flows cannot be accepted while other daemons
// run them as they were.
type OthersError struct {
	Changes []Change
	// Other is one of those daemons.
	Other Daemon
}

func (e *OthersError) Error() string {
	var flows []string
	for _, c := range e.Changes {
		flows = append(flows, c.Flow)
	}
	return fmt.Sprintf("the change of flow %s is accepted only while no other daemon runs, and process %d on %s does, at least until %s; stop it first, and start it with this configuration afterwards",
		strings.Join(flows, ", "), e.Other.Process.PID, e.Other.Process.Host, stampText(e.Other.Until))
}

func (e *ChangedError) Error() string {
	var b strings.Builder
	for i, c := range e.Changes {
		if i > 0 {
			b.WriteString("; ")
		}
		fmt.Fprintf(&b, "flow %s is not as its records were made:", c.Flow)
		for j, d := range c.Differences {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, " %s is %q and was %q", d.Field, d.Is, d.Was)
		}
		if !c.Until.IsZero() {
			fmt.Fprintf(&b, ", and writes in doubt may be at work until %s", stampText(c.Until))
		}
	}
	return b.String()
}

// Changes returns the flows that are not as their records were made, by name.
func (j *Journal) Changes(ctx context.Context, flows map[string]*Flow) (cs []Change, err error) {
	err = j.engine.View(ctx, func(tx Tx) error {
		b, err := j.compare(ctx, tx, flows)
		cs = b.changes
		return err
	})
	return cs, wrap(err, "compare the flows with their records")
}

// Bind ties the records of each flow to what the flow is now: when it runs for the
// first time, while it has neither rows nor a cursor, and when it names the token
// of the change. It returns the changes that were accepted. When a flow has
// changed otherwise, nothing is stored and the error is a *ChangedError. Recover
// comes before it, since what an ended daemon left under way is in doubt too.
func (j *Journal) Bind(ctx context.Context, flows map[string]*Flow) (accepted []Change, err error) {
	err = j.engine.Update(ctx, func(tx Tx) error {
		b, err := j.compare(ctx, tx, flows)
		if err != nil {
			return err
		}
		if refused := slices.DeleteFunc(slices.Clone(b.changes), func(c Change) bool { return c.Accepted }); len(refused) > 0 {
			return &ChangedError{refused}
		}
		if err := j.onlyOne(ctx, tx, b.changes); err != nil {
			return err
		}
		for _, name := range b.fresh {
			text, err := json.Marshal(flows[name].Binding())
			if err != nil {
				return err
			}
			if err := tx.PutMeta(ctx, bindingOf(name), string(text)); err != nil {
				return err
			}
		}
		accepted = b.changes
		return nil
	})
	var ce *ChangedError
	var oe *OthersError
	switch {
	case errors.As(err, &ce):
		return nil, ce
	case errors.As(err, &oe):
		return nil, oe
	}
	return accepted, wrap(err, "tie the flows to their records")
}

// onlyOne refuses changes while another daemon runs.
func (j *Journal) onlyOne(ctx context.Context, tx Tx, changes []Change) error {
	me := j.Me()
	if len(changes) == 0 || me.Owner == "" || j.Alone() {
		return nil
	}
	ms, err := tx.Daemons(ctx)
	if err != nil {
		return err
	}
	s := Survey{Daemons: ms}
	for _, m := range s.Living(me.Process) {
		if m.Owner != me.Owner {
			return &OthersError{changes, m}
		}
	}
	return nil
}

// bindingOf names the fact under which the binding of a flow is kept.
func bindingOf(flow string) string { return "binding/" + flow }

// comparison is what became of comparing flows with their records.
type comparison struct {
	changes []Change
	// fresh names the flows whose present binding is to be stored.
	fresh []string
}

func (j *Journal) compare(ctx context.Context, tx Tx, flows map[string]*Flow) (out comparison, err error) {
	meta, err := tx.Meta(ctx)
	if err != nil {
		return out, err
	}
	var have map[string]*Change
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		now := flows[name].Binding()
		was, stored, err := boundTo(ctx, tx, meta, name, now)
		if err != nil {
			return out, err
		}
		ds := was.differences(now)
		if len(ds) == 0 || mutant.On("rebound") {
			if !stored || was.SourceIDs == "" && now.SourceIDs != "" || was.Versions == "" && now.Versions != "" {
				out.fresh = append(out.fresh, name)
			}
			continue
		}
		if have == nil {
			if have, err = j.holdings(ctx, tx); err != nil {
				return out, err
			}
		}
		c := have[name]
		if c == nil {
			out.fresh = append(out.fresh, name) // nothing is tied to what it was
			continue
		}
		c.Differences = ds
		if !slices.ContainsFunc(ds, func(d Difference) bool { return d.fixed }) {
			c.Token = token(name, was, now)
		}
		if c.Token != "" && was.Strategy != now.Strategy {
			if c.Until, err = j.atWork(ctx, tx, flows[name]); err != nil {
				return out, err
			}
		}
		c.Accepted = c.Token != "" && c.Token == flows[name].AcceptChange && c.Until.IsZero()
		if c.Accepted {
			out.fresh = append(out.fresh, name)
		}
		out.changes = append(out.changes, *c)
	}
	return out, nil
}

// boundTo returns what the records of a flow are tied to. A journal from before
// bindings were stored knows of its rows where they are written, and nothing that
// speaks against the rest.
func boundTo(ctx context.Context, tx Tx, meta map[string]string, flow string, now Binding) (was Binding, stored bool, err error) {
	if text, ok := meta[bindingOf(flow)]; ok {
		if err := json.Unmarshal([]byte(text), &was); err != nil {
			return was, false, fmt.Errorf("read what flow %s is tied to: %w", flow, err)
		}
		return was, true, nil
	}
	ds, err := tx.Destinations(ctx, flow)
	if err != nil {
		return was, false, err
	}
	for _, d := range ds {
		if d != (Destination{now.Client, now.Entity}) {
			now.Client, now.Entity = d.Client, d.Entity
			break
		}
	}
	return now, false, nil
}

// atWork is until when a write in doubt of a flow may still be at work in the
// target; zero when none may.
func (j *Journal) atWork(ctx context.Context, tx Tx, flow *Flow) (until time.Time, err error) {
	f := Filter{Flow: flow.Name, Unresolved: true, Limit: 1000}
	for more := true; more; {
		rows, err := tx.List(ctx, f)
		if err != nil {
			return until, err
		}
		for i := range rows {
			until = later(until, rows[i].UnresolvedAt.Add(flow.SettleTime))
		}
		if more = len(rows) == f.Limit; more {
			f.After = rows[len(rows)-1].RowID
		}
	}
	if !until.After(j.Now()) {
		return time.Time{}, nil
	}
	return until, nil
}

// holdings counts the rows of every flow of which the journal has rows or a cursor.
func (j *Journal) holdings(ctx context.Context, tx Tx) (map[string]*Change, error) {
	of := map[string]*Change{}
	get := func(flow string) *Change {
		if of[flow] == nil {
			of[flow] = &Change{Flow: flow}
		}
		return of[flow]
	}
	states, err := tx.Flows(ctx)
	if err != nil {
		return nil, err
	}
	for _, s := range states {
		if s.Cursor != nil {
			get(s.Flow)
		}
	}
	counts, err := tx.Counts(ctx, j.Now())
	if err != nil {
		return nil, err
	}
	for _, n := range counts {
		c := get(n.Flow)
		c.Unresolved += n.Unresolved
		switch n.State {
		case Done:
			c.Done += n.N
		case Ready:
			c.Open += n.N
		default:
			c.Dead += n.N
		}
	}
	return of, nil
}

// token stands for the change of a flow from one binding to another, in whatever
// journal. It begins with a letter, so that YAML takes it for a text.
func token(flow string, was, now Binding) string {
	was.Key, now.Key = mapping.Normal(was.Key), mapping.Normal(now.Key)
	// A change of these has no token, and a build of before they were kept made the same one.
	was.SourceIDs, was.Versions, now.SourceIDs, now.Versions = "", "", "", ""
	text, _ := json.Marshal([]any{flow, was, now}) // texts always have a JSON form
	h := sha256.Sum256(text)
	return "c" + hex.EncodeToString(h[:5])
}
