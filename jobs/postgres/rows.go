package postgres

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// rowReader reads rowColumns; its targets are used again for each row.
type rowReader struct {
	r                                                                                     jobs.Row
	observed, changed, read, first, applied, unresolved, open, dueAt, last                pgtype.Timestamptz
	flow, key, client, entity, source, state, reason, class, waitEntity, waitKey, renamed string
	group                                                                                 string
	targets                                                                               []any
}

func newRowReader() *rowReader {
	x := &rowReader{}
	r := &x.r
	x.targets = []any{&x.flow, &x.key, &x.client, &x.entity, &x.source, &x.state, &x.reason,
		&r.Generation, &r.Desired.Epoch, &r.Desired.Version, &x.observed, &x.changed, &x.read, &r.Hash, &r.Gone,
		&r.Attempt, &r.Tries, &r.Streak, &x.first, &r.AppliedGeneration, &r.AppliedHash, &r.AppliedGone, &x.applied, &x.unresolved,
		&r.Misses, &r.MissCode, &x.open, &x.dueAt, &r.Solo, &x.class, &r.LastCode, &r.LastMessage, &x.last,
		&x.waitEntity, &x.waitKey, &x.renamed, &r.Shard, &x.group, &r.KeyEpoch}
	return x
}

func (x *rowReader) next(rows pgx.Rows) (jobs.Row, error) {
	x.r.Hash, x.r.AppliedHash = nil, nil
	if err := rows.Scan(x.targets...); err != nil {
		return jobs.Row{}, err
	}
	var in stored.ReadIDs
	r := x.r
	r.RowID = jobs.RowID{Flow: in.ID(x.flow), Key: in.ID(x.key)}
	r.Client, r.Entity, r.SourceID = in.ID(x.client), in.ID(x.entity), in.ID(x.source)
	r.State, r.Reason, r.LastClass = jobs.State(x.state), jobs.Reason(x.reason), connectors.Class(x.class)
	r.Desired.Observed, r.ChangedAt, r.ReadAt, r.FirstTryAt = moment(x.observed), moment(x.changed), moment(x.read), moment(x.first)
	r.AppliedAt, r.UnresolvedAt, r.OpenSince = moment(x.applied), moment(x.unresolved), moment(x.open)
	r.DueAt, r.LastAt = moment(x.dueAt), moment(x.last)
	r.WaitEntity, r.WaitKey, r.RenamedFrom, r.Group = in.ID(x.waitEntity), in.ID(x.waitKey), in.ID(x.renamed), in.ID(x.group)
	return r, in.Err
}

// readRows reads rows, of which there are at most most.
func (t *tx) readRows(ctx context.Context, sql string, most int, args ...any) (out []jobs.Row, err error) {
	x := newRowReader()
	err = t.query(ctx, func(rows pgx.Rows) error {
		if out == nil {
			out = make([]jobs.Row, 0, min(most, maxRoom))
		}
		r, err := x.next(rows)
		out = append(out, r)
		return err
	}, sql, args...)
	return out, err
}

// maxRoom bounds the rows for which there is room before they come.
const maxRoom = 1000

func rowID(r *jobs.Row) jobs.RowID { return r.RowID }

// keyArgs are the ids of rows as two arrays.
func keyArgs(ids []jobs.RowID) []any {
	return []any{column(ids, func(id *jobs.RowID) string { return stored.ID(id.Flow) }),
		column(ids, func(id *jobs.RowID) string { return stored.ID(id.Key) })}
}

// Rows implements jobs.Tx.
func (t *tx) Rows(ctx context.Context, ids []jobs.RowID, bodies bool) ([]jobs.Row, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	ids = stored.RowIDs(ids)
	sql, args := t.q.rows, keyArgs(ids)
	if t.write {
		sql = t.q.rowsHeld
	}
	out, err := t.readRows(ctx, sql, len(ids), args...)
	t.touch(out)
	if err == nil && t.absent != nil {
		stored.Note(t.absent.rows, ids, out, rowID)
	}
	if err == nil && bodies {
		err = t.addBodies(ctx, out, args)
	}
	if err != nil {
		return nil, fmt.Errorf("read %d rows: %w", len(ids), err)
	}
	return out, nil
}

// addBodies reads the bodies in a statement of its own, after the rows are held:
// one that waits for a row's lock goes on with the row as it is then, but with
// what it had read of other tables before.
func (t *tx) addBodies(ctx context.Context, rows []jobs.Row, keys []any) error {
	at := make(map[jobs.RowID]*jobs.Row, len(rows))
	for i := range rows {
		at[rows[i].RowID] = &rows[i]
	}
	return t.query(ctx, func(rows pgx.Rows) error {
		var flow, key string
		var body []byte
		if err := rows.Scan(&flow, &key, &body); err != nil {
			return err
		}
		var in stored.ReadIDs
		id := jobs.RowID{Flow: in.ID(flow), Key: in.ID(key)}
		r := at[id]
		if in.Err != nil || r == nil {
			return in.Err
		}
		var err error
		if r.Body, err = stored.Unpack(body); err != nil {
			return fmt.Errorf("row %s: %w", id, err)
		}
		return nil
	}, t.q.bodies, keys...)
}

// What one statement takes at most; a batch of larger bodies is sent in parts.
const (
	maxRows  = 5000
	maxBytes = 32 << 20
)

// PutRows implements jobs.Tx.
func (t *tx) PutRows(ctx context.Context, rows []jobs.Row) error {
	rows = stored.Rows(rows)
	t.touch(rows)
	var fresh []jobs.Row
	if t.absent != nil {
		fresh, rows = stored.Part(t.absent.rows, rows, rowID)
	}
	if err := t.putAll(ctx, fresh, true); err != nil {
		return t.mistaken(err)
	}
	t.touched.unread = t.touched.unread || len(rows) > 0
	return t.putAll(ctx, rows, false)
}

func (t *tx) putAll(ctx context.Context, rows []jobs.Row, fresh bool) error {
	for len(rows) > 0 {
		n, err := t.putSome(ctx, rows, fresh)
		if err != nil {
			return fmt.Errorf("store %d rows: %w", len(rows), err)
		}
		rows = rows[n:]
	}
	return nil
}

// putSome stores as many of the first rows as one statement takes, and returns how
// many. Of fresh ones it is known that they are not there.
func (t *tx) putSome(ctx context.Context, rows []jobs.Row, fresh bool) (int, error) {
	var pack stored.Packer
	var full, bare []jobs.RowID
	var bodies [][]byte
	n, size := 0, 0
	for n < len(rows) && n < maxRows && size < maxBytes {
		r := &rows[n]
		body, err := pack.Pack(r.Body)
		if err == nil {
			err = stored.FitRow(r)
		}
		if err != nil {
			return 0, fmt.Errorf("row %s: %w", r.RowID, err)
		}
		if body == nil {
			bare = append(bare, r.RowID)
		} else {
			full, bodies = append(full, r.RowID), append(bodies, body)
		}
		size += len(body)
		n++
	}
	put := slices.IndexFunc(shapes, func(s shape) bool { return s.fits(rows[:n]) })
	how, howBody := t.q.put[put], t.q.putBody
	if fresh {
		how, howBody = t.q.add[put], t.q.addBody
	}
	statements := []statement{{how, shapes[put].args(rows[:n])}}
	if len(full) > 0 {
		statements = append(statements, statement{howBody, append(keyArgs(full), bodies)})
	}
	if len(bare) > 0 && !fresh {
		statements = append(statements, statement{t.q.dropBody, keyArgs(bare)})
	}
	_, err := t.send(ctx, statements...)
	return n, err
}

// PatchRows implements jobs.Tx.
func (t *tx) PatchRows(ctx context.Context, rows []jobs.Row) error {
	rows = stored.Rows(rows)
	t.touch(rows)
	t.touched.unread = t.touched.unread || len(rows) > 0
	for len(rows) > 0 {
		n := min(len(rows), maxRows)
		for i := range rows[:n] {
			if err := stored.FitRow(&rows[i]); err != nil {
				return fmt.Errorf("update row %s: %w", rows[i].RowID, err)
			}
		}
		if _, err := t.exec(ctx, t.q.patch, rowArgs(rows[:n])...); err != nil {
			return fmt.Errorf("update %d rows: %w", len(rows), err)
		}
		rows = rows[n:]
	}
	return nil
}

// CloseRows implements jobs.Tx.
func (t *tx) CloseRows(ctx context.Context, client string, cs []jobs.Closing, now time.Time) (closed []jobs.RowID, rest []jobs.Row, err error) {
	if len(cs) == 0 {
		return nil, nil, nil
	}
	t.touched.unread = true
	cs = stored.Closings(cs)
	for i, class := range classesOf(cs) {
		some := cs
		if i > 0 { // the first statement holds them all
			some = slices.DeleteFunc(slices.Clone(cs), func(c jobs.Closing) bool { return c.Class != class })
		}
		ids, err := t.closeSome(ctx, client, some, class, now)
		if err != nil {
			return nil, nil, fmt.Errorf("close %d rows of client %s: %w", len(some), client, err)
		}
		closed = append(closed, ids...)
	}
	if len(closed) == len(cs) {
		return closed, nil, nil
	}
	done := make(map[jobs.RowID]bool, len(closed))
	for _, id := range closed {
		done[id] = true
	}
	var others []jobs.RowID
	for _, c := range cs {
		if !done[c.RowID] {
			others = append(others, c.RowID)
		}
	}
	rest, err = t.Rows(ctx, others, false)
	return closed, rest, err
}

// classesOf are the classes under which rows are to be closed, each once; "" alone
// when none is.
func classesOf(cs []jobs.Closing) (classes []connectors.Class) {
	for i := range cs {
		if c := cs[i].Class; c != "" && !slices.Contains(classes, c) {
			classes = append(classes, c)
		}
	}
	if classes == nil {
		classes = append(classes, "")
	}
	return classes
}

// closeSome holds all rows of cs and closes those of a class.
func (t *tx) closeSome(ctx context.Context, client string, cs []jobs.Closing, class connectors.Class, now time.Time) (closed []jobs.RowID, err error) {
	err = t.ask(ctx, func(rows pgx.Rows) error {
		var flow, key string
		if err := rows.Scan(&flow, &key); err != nil {
			return err
		}
		var in stored.ReadIDs
		closed = append(closed, jobs.RowID{Flow: in.ID(flow), Key: in.ID(key)})
		return in.Err
	}, t.q.close, stored.ID(client), string(class), stamp(now),
		column(cs, func(c *jobs.Closing) string { return stored.ID(c.Flow) }), column(cs, func(c *jobs.Closing) string { return stored.ID(c.Key) }),
		column(cs, func(c *jobs.Closing) int64 { return c.Generation }), column(cs, func(c *jobs.Closing) int64 {
			if class == "" || c.Class != class {
				return math.MinInt64 // no row's
			}
			return c.Attempt - 1
		}))
	return closed, err
}

// Due implements jobs.Tx.
func (t *tx) Due(ctx context.Context, lane jobs.LaneID, now time.Time, limit int) ([]jobs.Row, error) {
	if !t.write || limit <= 0 { // one that may find nothing tells nothing of what is there
		return t.dueIn(ctx, t.q.due, lane, now, limit, time.Time{})
	}
	s := t.marks.begin(lane)
	out, err := t.dueIn(ctx, t.q.dueHeld, lane, now, limit, t.touched.from(lane, s.from))
	if err != nil {
		return nil, err
	}
	t.touch(out)
	low := now
	if len(out) > 0 {
		low = out[0].DueAt
	}
	t.marks.end(lane, s, low)
	return out, nil
}

// dueIn reads the rows that are due from a time on until now.
func (t *tx) dueIn(ctx context.Context, sql string, lane jobs.LaneID, now time.Time, limit int, from time.Time) ([]jobs.Row, error) {
	out, err := t.readRows(ctx, sql, limit, stored.ID(lane.Client), now, limit, due(from), int32(lane.Shard))
	if err == nil && len(out) > 0 {
		// One that was changed while this statement ran comes with its new time.
		slices.SortStableFunc(out, func(a, b jobs.Row) int { return a.DueAt.Compare(b.DueAt) })
		err = t.addBodies(ctx, out, keyArgs(column(out, func(r *jobs.Row) jobs.RowID { return r.RowID })))
	}
	if err != nil {
		return nil, fmt.Errorf("read the due rows of client %s: %w", lane, err)
	}
	return out, nil
}

// NextDue implements jobs.Tx.
func (t *tx) NextDue(ctx context.Context, lanes []jobs.LaneID) ([]time.Time, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	next, there := make([]time.Time, len(lanes)), make([]bool, len(lanes))
	searches := make([]search, len(lanes))
	clients, since, shards := make([]string, len(lanes)), make([]pgtype.Timestamptz, len(lanes)), make([]int32, len(lanes))
	for i, lane := range lanes {
		searches[i] = t.marks.begin(lane)
		clients[i], since[i], shards[i] = stored.ID(lane.Client), due(t.touched.from(lane, searches[i].from)), int32(lane.Shard)
	}
	err := t.query(ctx, func(rows pgx.Rows) error {
		var n int64
		var d pgtype.Timestamptz
		if err := rows.Scan(&n, &d); err != nil {
			return err
		}
		next[n-1], there[n-1] = moment(d), true
		return nil
	}, t.q.nextDue, clients, since, shards)
	if err != nil {
		return nil, fmt.Errorf("find the next due rows of %d lanes: %w", len(lanes), err)
	}
	for i, lane := range lanes {
		t.marks.found(lane, searches[i], there[i], next[i])
	}
	return next, nil
}

// touch notes rows that the transaction holds or writes, for those who search.
func (t *tx) touch(rows []jobs.Row) {
	if !t.write {
		return
	}
	for i := range rows {
		t.touched.add(&rows[i])
	}
}

// Wake implements jobs.Tx.
func (t *tx) Wake(ctx context.Context, client string, keys []jobs.EntityKey, now time.Time) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	entities, ks := entityArgs(stored.EntityKeys(keys))
	n, err := t.exec(ctx, t.q.wake, stored.ID(client), now, entities, ks)
	t.touched.unread = t.touched.unread || n > 0 || err != nil
	if err != nil {
		return 0, fmt.Errorf("wake what waits for %d records of client %s: %w", len(keys), client, err)
	}
	if n > 0 {
		t.touched.woke(client, now)
	}
	return int(n), nil
}

func entityArgs(keys []jobs.EntityKey) (entities, ks []string) {
	return column(keys, func(k *jobs.EntityKey) string { return stored.ID(k.Entity) }),
		column(keys, func(k *jobs.EntityKey) string { return stored.ID(k.Key) })
}
