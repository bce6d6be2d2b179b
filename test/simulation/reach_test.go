package simulation

import (
	"context"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/faketarget"
	"syncd/jobs"
)

// reach is the target's entity as a daemon reaches it: every call goes through the
// lane's lease, can be the daemon's last, and may be answered late.
type reach struct {
	e *faketarget.Entity
	n *node
}

func (r *reach) Info() connectors.EntityInfo { return r.e.Info() }

func (r *reach) Compose(w connectors.Write) ([]byte, error) { return r.e.Compose(w) }

func (r *reach) call(ctx context.Context, what, key string, do func() connectors.Outcome) connectors.Outcome {
	a := actorOf(ctx)
	a.step("is about to ", what, " ", key)
	if h, ok := ctx.Value(holdKey{}).(*jobs.Hold); ok {
		if !h.Valid() {
			return connectors.Fail(connectors.Paused, "lease", "the lease of the lane is over")
		}
		r.n.w.sent(r.n, h, what, key)
		r.n.w.begun(ctx.Value(unitKey{}).([]*jobs.Job), what != "find", key)
	}
	o := do()
	r.n.w.land()
	a.step("has had ", what, " ", key, ": ", string(o.Class))
	if a.st.chance(25) {
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
func (w *world) reached(n *node, f *jobs.Flow) connectors.Entity {
	r := &reach{w.entities[f.Name], n}
	if w.blind[f.Name] {
		return blind{r, r, r, r}
	}
	return r
}
