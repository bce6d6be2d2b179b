package simulation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
	"syncd/mapping"
	"syncd/upsert"
)

// reach is the target's entity as a daemon reaches it: every call goes through the
// lane's gate and its lease, can be the daemon's last, and may be answered late.
type reach struct {
	e *faketarget.Entity
	n *node
}

var _ connectors.Entity = (*reach)(nil)

func (r *reach) Info() connectors.EntityInfo { return r.e.Info() }

func (r *reach) Compose(w connectors.Write) ([]byte, error) { return r.e.Compose(w) }

func (r *reach) call(ctx context.Context, what, key string, do func() connectors.Outcome) connectors.Outcome {
	a := actorOf(ctx)
	a.step("is about to ", what, " ", key)
	c := ctx.Value(clientKey{}).(*client)
	if o, may := c.may(ctx, what, key); !may {
		return o
	}
	if ctx.Value(restoresKey{}).(int) != r.n.w.restores {
		return connectors.Fail(connectors.Transient, "connect", "the target was restored since, and what was at work with it has lost it")
	}
	r.n.w.begun(ctx.Value(unitKey{}).([]*jobs.Job), what != "find", key)
	o := do()
	r.n.w.land()
	a.step("has had ", what, " ", key, ": ", string(o.Class))
	if a.st.chance(25) {
		a.st.seen("an answer comes late")
		a.sleep(a.st.upTo(10 * time.Second))
	}
	return o
}

// Upsert implements connectors.Upserter.
func (r *reach) Upsert(ctx context.Context, ws []connectors.Write) (out []connectors.Outcome) {
	var keys []string
	for _, w := range ws {
		keys = append(keys, w.Key)
	}
	o := r.call(ctx, "upsert", strings.Join(keys, ","), func() connectors.Outcome {
		out = r.e.Upsert(ctx, ws)
		return connectors.Outcome{}
	})
	if o.Class != "" {
		return slices.Repeat([]connectors.Outcome{o}, len(ws))
	}
	return out
}

// Create implements connectors.Creator.
func (r *reach) Create(ctx context.Context, w connectors.Write) connectors.Outcome {
	return r.call(ctx, "create", w.Key, func() connectors.Outcome { return r.e.Create(ctx, w) })
}

// Update implements connectors.Updater.
func (r *reach) Update(ctx context.Context, w connectors.Write) connectors.Outcome {
	return r.call(ctx, "update", w.Key, func() connectors.Outcome { return r.e.Update(ctx, w) })
}

// Remove implements connectors.Remover.
func (r *reach) Remove(ctx context.Context, w connectors.Write) connectors.Outcome {
	return r.call(ctx, "remove", w.Key, func() connectors.Outcome { return r.e.Remove(ctx, w) })
}

// Find implements connectors.Finder.
func (r *reach) Find(ctx context.Context, w connectors.Write) (fs []connectors.Found, err error) {
	o := r.call(ctx, "find", w.Key, func() connectors.Outcome {
		fs, err = r.e.Find(ctx, w)
		return connectors.Outcome{}
	})
	if o.Class != "" {
		return nil, &connectors.Error{Outcome: o}
	}
	return fs, err
}

// blind is a target that cannot be asked for a record by its key.
type blind struct {
	connectors.Entity
	connectors.Composer
	connectors.Creator
	connectors.Updater
}

// reached is a flow's entity as a daemon reaches it.
func (w *world) reached(n *node, f *flow) connectors.Entity {
	r := &reach{f.e, n}
	if f.blind {
		return blind{r, r, r, r}
	}
	return r
}

// late notes the links that a write brings after it was given up for lost.
type late struct {
	*jobs.Journal
	n *node
}

func (l late) PutLink(ctx context.Context, j *jobs.Job, link string) error {
	err := l.Journal.PutLink(ctx, j, link)
	if err != nil && strings.Contains(err.Error(), "given up for lost") {
		l.n.w.st.seen("a link comes too late")
	}
	return err
}

// resolve puts the target's own ids in the place of references, as daemon does: those
// of known links, else those that a look-up gives.
func (n *node) resolve(ctx context.Context, jb *jobs.Job, s *jobs.Settlement) (connectors.Outcome, bool) {
	f := n.w.flows[jb.Flow]
	if f.refers == "" || jb.Gone {
		return connectors.Outcome{}, true
	}
	refs, err := mapping.FindRefs(jb.Body)
	if err != nil || len(refs) != 1 {
		n.w.st.violation("I2: the references of %s cannot be read: %v", jb.RowID, err)
	}
	k := jobs.EntityKey{Entity: refs[0].Entity, Key: refs[0].Key}
	links, err := n.journal.Links(ctx, f.Client, []jobs.EntityKey{k})
	if err != nil {
		return connectors.Fail(connectors.Paused, "journal", "reading links failed"), false
	}
	link := links[k]
	if link == "" {
		if link, _, err = upsert.LookUp(ctx, n.w.reached(n, n.w.flows[k.Entity]), k.Key); err != nil {
			return lookUpFailed(err), false
		}
	}
	switch {
	case link != "":
	case refs[0].Optional:
		n.w.st.seen("a record is written without what it refers to")
		s.Reopen = k
		if jb.Applied() && bytes.Equal(jb.AppliedHash, jb.Hash) && !jb.Unresolved() {
			o := waits(k)
			o.RetryAfter = 10 * time.Minute
			return o, false
		}
	default:
		n.w.st.seen("a record waits for what it refers to")
		return waits(k), false
	}
	body, _, err := mapping.ResolveRefs(jb.Body, func(mapping.Ref) (json.RawMessage, bool) { return json.RawMessage(link), link != "" })
	if err != nil {
		n.w.st.violation("I2: the references of %s cannot be replaced: %v", jb.RowID, err)
	}
	jb.Body, jb.Refers = body, true
	return connectors.Outcome{}, true
}

func waits(k jobs.EntityKey) connectors.Outcome {
	o := connectors.Fail(connectors.Waiting, "reference", "%s %s is not in the target yet", k.Entity, k.Key)
	o.WaitEntity, o.WaitKey = k.Entity, k.Key
	return o
}

func lookUpFailed(err error) connectors.Outcome {
	var e *connectors.Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	return connectors.Fail(connectors.Transient, "lookup", "%s", err)
}
