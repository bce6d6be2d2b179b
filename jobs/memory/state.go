package memory

import (
	"cmp"
	"slices"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// schema is the version of the durable engines' tables that this engine is a model of.
const schema = "3"

// state is all that the journal holds. Values in its trees are never changed, only
// replaced, and share no memory with callers. Ids and keys stand in the keys of trees
// in their stored form, whose order is that of the durable engines.
type state struct {
	rows tree[pair, *jobs.Row]
	// Ready rows in the order in which their lanes take them.
	due tree[dueKey, *jobs.Row]
	// Ready rows by what they wait for: client, entity, key; flow, key.
	waiting tree[quint, *jobs.Row]
	// Rows of groups that are not done.
	heads tree[headKey, *jobs.Row]
	// How many ready rows a flow has.
	ready tree[text, int]

	flows      tree[text, jobs.FlowState]
	sources    tree[pair, jobs.SourceRecord] // flow, id
	contenders tree[triple, jobs.Contender]  // flow, key, source id
	groups     tree[pair, jobs.Group]        // flow, name
	pins       tree[triple, jobs.Pin]        // flow, key, operation
	claims     tree[text, jobs.Claim]
	links      tree[triple, jobs.Link] // client, entity, key

	attempts    tree[number, jobs.Attempt]
	attemptsOf  tree[entryKey, struct{}]
	lastAttempt number

	requests    tree[number, jobs.Request]
	asked       tree[quad, number]       // flow, source id, kind, key
	requestsTo  tree[askedKey, struct{}] // by client, oldest first
	lastRequest number

	clients tree[text, jobs.ClientState]
	leases  tree[laneKey, jobs.Lease]
	daemons tree[text, jobs.Daemon]
	runs    tree[number, jobs.Run]
	lastRun number
	meta    tree[text, string]
}

type (
	text   string
	number int64
	pair   [2]string
	triple [3]string
	quad   [4]string
	quint  [5]string
)

func (a text) compare(b text) int     { return cmp.Compare(a, b) }
func (a number) compare(b number) int { return cmp.Compare(a, b) }
func (a pair) compare(b pair) int     { return slices.Compare(a[:], b[:]) }
func (a triple) compare(b triple) int { return slices.Compare(a[:], b[:]) }
func (a quad) compare(b quad) int     { return slices.Compare(a[:], b[:]) }
func (a quint) compare(b quint) int   { return slices.Compare(a[:], b[:]) }

func id(s string) string { return stored.ID(s) }

func rowKey(r jobs.RowID) pair { return pair{id(r.Flow), id(r.Key)} }

type laneKey struct {
	client string
	shard  int
}

func (a laneKey) compare(b laneKey) int {
	return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.shard, b.shard))
}

func laneOf(l jobs.LaneID) laneKey { return laneKey{id(l.Client), l.Shard} }

// dueKey is the place of a ready row in its lane: by its due time, in microseconds.
type dueKey struct {
	lane laneKey
	at   int64
	row  pair
}

func (a dueKey) compare(b dueKey) int {
	return cmp.Or(a.lane.compare(b.lane), cmp.Compare(a.at, b.at), a.row.compare(b.row))
}

// headKey is the place of a row in its group: by its desired state.
type headKey struct {
	flow, group              string
	epoch, version, observed int64
	key                      string
}

func (a headKey) compare(b headKey) int {
	return cmp.Or(cmp.Compare(a.flow, b.flow), cmp.Compare(a.group, b.group), cmp.Compare(a.epoch, b.epoch),
		cmp.Compare(a.version, b.version), cmp.Compare(a.observed, b.observed), cmp.Compare(a.key, b.key))
}

// entryKey is the place of an attempt in its row's history: the newest first.
type entryKey struct {
	row pair
	n   number
}

func (a entryKey) compare(b entryKey) int { return cmp.Or(a.row.compare(b.row), cmp.Compare(b.n, a.n)) }

// askedKey is the place of a request among those to a client: by when it was made,
// in microseconds.
type askedKey struct {
	client string
	at     int64
	n      number
}

func (a askedKey) compare(b askedKey) int {
	return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.at, b.at), cmp.Compare(a.n, b.n))
}

// setRow puts a row in the place of the one that has its id, and in all orders.
func (s *state) setRow(e edit, r *jobs.Row) {
	at := rowKey(r.RowID)
	if old, ok := s.rows.get(at); ok {
		for _, o := range s.orders(old) {
			o.remove(e)
		}
	}
	s.rows.put(e, at, r)
	for _, o := range s.orders(r) {
		o.put(e)
	}
}

// order is one entry of a row in an order of rows.
type order struct{ put, remove func(edit) }

// orders are the entries that a row has.
func (s *state) orders(r *jobs.Row) (out []order) {
	at := rowKey(r.RowID)
	if r.State == jobs.Ready {
		out = append(out, place(&s.due, dueKey{laneOf(jobs.LaneID{Client: r.Client, Shard: r.Shard}), r.DueAt.UnixMicro(), at}, r))
		if r.WaitEntity != "" {
			out = append(out, place(&s.waiting, quint{id(r.Client), id(r.WaitEntity), id(r.WaitKey), at[0], at[1]}, r))
		}
		count := func(d int) func(edit) {
			return func(e edit) {
				n, _ := s.ready.get(text(at[0]))
				s.ready.put(e, text(at[0]), n+d)
			}
		}
		out = append(out, order{count(1), count(-1)})
	}
	if r.Group != "" && r.State != jobs.Done {
		d := r.Desired
		out = append(out, place(&s.heads, headKey{at[0], id(r.Group), d.Epoch, d.Version, d.Observed.UnixMicro(), at[1]}, r))
	}
	return out
}

func place[K ordered[K]](t *tree[K, *jobs.Row], k K, r *jobs.Row) order {
	return order{func(e edit) { t.put(e, k, r) }, func(e edit) { t.remove(e, k) }}
}

// list returns what stands behind a key as far as in holds, in order, at most limit.
func list[K ordered[K], V any](t *tree[K, V], after K, limit int, in func(K) bool, out func(V) V) []V {
	var vs []V
	for k, v := range t.from(after) {
		if !in(k) || len(vs) >= limit {
			break
		}
		if k.compare(after) != 0 {
			vs = append(vs, out(v))
		}
	}
	return vs
}

// among returns what stands at or behind a key as far as in holds, in order.
func among[K ordered[K], V any](t *tree[K, V], first K, in func(K) bool, out func(V) V) []V {
	var vs []V
	for k, v := range t.from(first) {
		if !in(k) {
			break
		}
		vs = append(vs, out(v))
	}
	return vs
}
