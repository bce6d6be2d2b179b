package sqlite

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// rowColumns are the columns of a row but for its body, in the order of rowArgs
// and readRow. The first two are its key.
var rowColumns = strings.Fields(`flow key client entity source_id state reason generation
	desired_epoch desired_version desired_observed changed_at read_at hash gone attempt tries streak first_try_at
	applied_generation applied_hash applied_gone applied_at unresolved_at misses miss_code open_since due_at solo
	last_class last_code last_message last_at wait_entity wait_key renamed_from shard grp key_epoch`)

func rowArgs(r *jobs.Row) []any {
	return []any{id(r.Flow), id(r.Key), id(r.Client), id(r.Entity), id(r.SourceID),
		string(r.State), string(r.Reason), r.Generation,
		r.Desired.Epoch, r.Desired.Version, stamp(r.Desired.Observed), stamp(r.ChangedAt), stamp(r.ReadAt),
		blob(r.Hash), r.Gone, r.Attempt, int64(r.Tries), int64(r.Streak), stamp(r.FirstTryAt),
		r.AppliedGeneration, blob(r.AppliedHash), r.AppliedGone, stamp(r.AppliedAt),
		stamp(r.UnresolvedAt), int64(r.Misses), stored.Message(r.MissCode), stamp(r.OpenSince), r.DueAt.UnixMicro(), r.Solo,
		string(r.LastClass), stored.Message(r.LastCode), stored.Message(r.LastMessage), stamp(r.LastAt),
		id(r.WaitEntity), id(r.WaitKey), id(r.RenamedFrom), int64(r.Shard), id(r.Group), r.KeyEpoch}
}

// readRow reads rowColumns and, when they follow, the packed body.
func readRow(v row) (jobs.Row, error) {
	var in stored.ReadIDs
	r := jobs.Row{RowID: jobs.RowID{Flow: in.ID(v.text(0)), Key: in.ID(v.text(1))},
		Client: in.ID(v.text(2)), Entity: in.ID(v.text(3)), SourceID: in.ID(v.text(4)),
		State: jobs.State(v.text(5)), Reason: jobs.Reason(v.text(6)), Generation: v.int(7),
		Desired:   connectors.Stamp{Epoch: v.int(8), Version: v.int(9), Observed: v.time(10)},
		ChangedAt: v.time(11), ReadAt: v.time(12), Hash: v.blob(13), Gone: v.bool(14),
		Attempt: v.int(15), Tries: int(v.int(16)), Streak: int(v.int(17)), FirstTryAt: v.time(18),
		AppliedGeneration: v.int(19), AppliedHash: v.blob(20), AppliedGone: v.bool(21), AppliedAt: v.time(22),
		UnresolvedAt: v.time(23), Misses: int(v.int(24)), MissCode: v.text(25),
		OpenSince: v.time(26), DueAt: v.due(27), Solo: v.bool(28),
		LastClass: connectors.Class(v.text(29)), LastCode: v.text(30), LastMessage: v.text(31), LastAt: v.time(32),
		WaitEntity: in.ID(v.text(33)), WaitKey: in.ID(v.text(34)), RenamedFrom: in.ID(v.text(35)),
		Shard: int(v.int(36)), Group: in.ID(v.text(37)), KeyEpoch: v.int(38)}
	err := in.Err
	if len(v) > len(rowColumns) && err == nil {
		r.Body, err = stored.Unpack(v.blob(len(rowColumns)))
	}
	if err != nil {
		return r, fmt.Errorf("row %s: %w", r.RowID, err)
	}
	return r, nil
}

// rowSQL are the statements over rows, written once from rowColumns.
type rowSQL struct {
	columns            string // a select list over jobs j
	rows, rowsBodies   string
	put, putNew        string
	addMany            string // new rows that are not there
	newest             string
	patch              string
	close, closeMany   string
	putBody, putBodyOf string
	addBodies          string
	dropBody           string
	due, nextDue       string
	heads              string
	anyWaiting, wake   string
}

func newRowSQL() rowSQL {
	cols := "j." + strings.Join(rowColumns, ", j.")
	sets := make([]string, 0, len(rowColumns))
	for _, c := range rowColumns[2:] {
		sets = append(sets, c+" = excluded."+c)
	}
	patch := make([]string, 0, len(rowColumns))
	for i, c := range rowColumns[2:] {
		patch = append(patch, fmt.Sprintf("%s = ?%d", c, i+3))
	}
	// The list drives the look-ups: CROSS JOIN keeps its place in the plan.
	from := ` FROM json_each(?2) k CROSS JOIN jobs j ON j.flow = ?1 AND j.key = k.value`
	body := ` LEFT JOIN bodies b ON b.id = j.id`
	return rowSQL{
		columns:    cols,
		rows:       "SELECT " + cols + from,
		rowsBodies: "SELECT " + cols + ", b.body" + from + body,
		put: "INSERT INTO jobs (" + strings.Join(rowColumns, ", ") + ") VALUES (?" + strings.Repeat(", ?", len(rowColumns)-1) +
			") ON CONFLICT (flow, key) DO UPDATE SET " + strings.Join(sets, ", "),
		putNew: "INSERT INTO jobs (" + strings.Join(rowColumns, ", ") + ") VALUES (" + newValues() +
			") ON CONFLICT (flow, key) DO UPDATE SET " + strings.Join(sets, ", "),
		patch:     "UPDATE jobs SET " + strings.Join(patch, ", ") + " WHERE flow = ?1 AND key = ?2",
		addMany:   addManySQL(),
		newest:    `SELECT coalesce(max(id), 0) FROM jobs`,
		close:     closeSQL("key = ?8"),
		closeMany: closeSQL("key IN (?8" + strings.Repeat(", ?", many-1) + ")"),
		putBody: `INSERT INTO bodies (id, body) SELECT id, ?3 FROM jobs WHERE flow = ?1 AND key = ?2
			ON CONFLICT (id) DO UPDATE SET body = excluded.body`,
		putBodyOf: `INSERT INTO bodies (id, body) VALUES (?1, ?2) ON CONFLICT (id) DO UPDATE SET body = excluded.body`,
		addBodies: `INSERT INTO bodies (id, body) VALUES ` + times(many, func(i int) string { return fmt.Sprintf("(?1 + %d, ?)", i) }),
		dropBody:  `DELETE FROM bodies WHERE id = (SELECT id FROM jobs WHERE flow = ?1 AND key = ?2)`,
		due: "SELECT " + cols + ", b.body FROM jobs j" + body +
			` WHERE j.client = ?1 AND j.shard = ?2 AND j.state = 'ready' AND j.due_at <= ?3 ORDER BY j.due_at LIMIT ?4`,
		nextDue: `SELECT due_at FROM jobs WHERE client = ?1 AND shard = ?2 AND state = 'ready' ORDER BY due_at LIMIT 1`,
		heads: "SELECT " + cols + ` FROM json_each(?2) g CROSS JOIN jobs j ON j.id =
			(SELECT h.id FROM jobs h WHERE h.flow = ?1 AND h.grp = g.value AND h.grp <> '' AND h.state <> 'done'
				AND h.state NOT IN (SELECT value FROM json_each(?3))
				ORDER BY h.desired_epoch, h.desired_version, h.desired_observed, h.key LIMIT 1)`,
		anyWaiting: `SELECT 1 FROM jobs WHERE client = ?1 AND wait_entity <> '' LIMIT 1`,
		wake: `UPDATE jobs SET due_at = ?4 WHERE client = ?1 AND wait_entity = ?2 AND wait_entity <> '' AND wait_key = ?3
			AND state = 'ready'`,
	}
}

// many is how many rows one statement takes. To begin and end a statement costs as
// much as what it does with a row.
const many = 32

// times is n pieces of SQL in a row. Parameters without a number come after those that
// have one, in their order.
func times(n int, piece func(i int) string) string {
	pieces := make([]string, n)
	for i := range pieces {
		pieces[i] = piece(i)
	}
	return strings.Join(pieces, ", ")
}

// closeSQL closes rows of one flow and generation whose attempts have one number.
func closeSQL(keys string) string {
	return `UPDATE jobs INDEXED BY sqlite_autoindex_jobs_1 SET state = 'done', reason = '', attempt = ?4, streak = 0, solo = 0, misses = 0, miss_code = '',
		applied_generation = generation, applied_hash = hash, applied_gone = 0, applied_at = ?6, open_since = NULL, due_at = ?7,
		last_class = ?5, last_code = '', last_message = '', last_at = ?6
		WHERE flow = ?1 AND ` + keys + ` AND client = ?2 AND generation = ?3 AND attempt = ?4 - 1 AND state = 'ready' AND NOT gone
		AND unresolved_at IS NULL AND last_class IN (` + stored.QuietClasses() + `)
		AND grp = '' AND wait_entity = '' AND wait_key = '' AND renamed_from = ''`
}

// sharedColumns are those of newColumns that many new rows have in common, in the order
// of sharedArgs, ownColumns those that each has for itself, in the order of ownArgs.
var (
	sharedColumns = strings.Fields(`flow client entity desired_epoch desired_observed read_at open_since due_at grp`)
	ownColumns    = strings.Fields(`key source_id generation desired_version changed_at hash shard`)
)

func sharedArgs(r *jobs.Row) []any {
	return []any{id(r.Flow), id(r.Client), id(r.Entity), r.Desired.Epoch, stamp(r.Desired.Observed), stamp(r.ReadAt), stamp(r.OpenSince),
		r.DueAt.UnixMicro(), id(r.Group)}
}

func ownArgs(args []any, r *jobs.Row) []any {
	return append(args, id(r.Key), id(r.SourceID), r.Generation, r.Desired.Version, stamp(r.ChangedAt), blob(r.Hash), int64(r.Shard))
}

// alike reports whether two rows have one value in each of sharedColumns.
func alike(a, b *jobs.Row) bool {
	return a.Flow == b.Flow && a.Client == b.Client && a.Entity == b.Entity && a.Desired.Epoch == b.Desired.Epoch &&
		a.Desired.Observed.Equal(b.Desired.Observed) && a.ReadAt.Equal(b.ReadAt) && a.OpenSince.Equal(b.OpenSince) && a.DueAt.Equal(b.DueAt) && a.Group == b.Group
}

// addManySQL adds new rows; the first has a number that is given, the others those that follow.
func addManySQL() string {
	var rest, values []string
	for _, c := range rowColumns {
		if !slices.Contains(newColumns, c) {
			rest, values = append(rest, c), append(values, newValue(c))
		}
	}
	for i := range sharedColumns {
		values = append(values, fmt.Sprint("?", i+2))
	}
	values = append(values, strings.Split(strings.Repeat("?,", len(ownColumns)-1)+"?", ",")...)
	columns := slices.Concat([]string{"id"}, rest, sharedColumns, ownColumns)
	return "INSERT INTO jobs (" + strings.Join(columns, ", ") + ") VALUES " +
		times(many, func(i int) string { return fmt.Sprintf("(?1 + %d, %s)", i, strings.Join(values, ", ")) })
}

// newColumns are the columns that a new row has something in, in the order of newArgs.
var newColumns = strings.Fields(`flow key client entity source_id generation desired_epoch desired_version desired_observed
	changed_at read_at hash open_since due_at shard grp`)

func newArgs(r *jobs.Row) []any {
	return []any{id(r.Flow), id(r.Key), id(r.Client), id(r.Entity), id(r.SourceID), r.Generation, r.Desired.Epoch, r.Desired.Version, stamp(r.Desired.Observed),
		stamp(r.ChangedAt), stamp(r.ReadAt), blob(r.Hash), stamp(r.OpenSince), r.DueAt.UnixMicro(), int64(r.Shard), id(r.Group)}
}

// isNew reports whether a row is ready and has nothing in columns but newColumns.
// To bind a value costs as much as to store it, and most rows are put when they are new.
func isNew(r *jobs.Row) bool {
	if r.State != jobs.Ready || r.Attempt != 0 || r.LastClass != "" {
		return false
	}
	x := *r
	x.RowID, x.Client, x.Entity, x.SourceID, x.State, x.Generation, x.Desired = jobs.RowID{}, "", "", "", "", 0, connectors.Stamp{}
	x.ChangedAt, x.ReadAt, x.Hash, x.OpenSince, x.DueAt, x.Shard, x.Group, x.Body = time.Time{}, time.Time{}, nil, time.Time{}, time.Time{}, 0, "", nil
	return reflect.ValueOf(&x).Elem().IsZero()
}

// newValues are the values of rowColumns of a new row.
func newValues() string {
	values := make([]string, len(rowColumns))
	for i, c := range rowColumns {
		if at := slices.Index(newColumns, c); at >= 0 {
			values[i] = fmt.Sprint("?", at+1)
		} else {
			values[i] = newValue(c)
		}
	}
	return strings.Join(values, ", ")
}

// newValue is what a new row has in a column that is none of newColumns.
func newValue(column string) string {
	switch column {
	case "state":
		return "'ready'"
	case "reason", "miss_code", "last_class", "last_code", "last_message", "wait_entity", "wait_key", "renamed_from":
		return "''"
	case "first_try_at", "applied_hash", "applied_at", "unresolved_at", "last_at":
		return "NULL"
	}
	return "0"
}

// Rows implements jobs.Tx.
func (t *tx) Rows(ctx context.Context, ids []jobs.RowID, bodies bool) (out []jobs.Row, err error) {
	sql := t.sql.rows
	if bodies {
		sql = t.sql.rowsBodies
	}
	ids = stored.RowIDs(ids)
	out = make([]jobs.Row, 0, len(ids))
	for flow, keys := range byFlow(ids) {
		err := t.query(ctx, sql, []any{id(flow), list(keys)}, func(v row) error {
			r, err := readRow(v)
			out = append(out, r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read %d rows of flow %s: %w", len(keys), flow, err)
		}
	}
	if t.write {
		stored.Note(t.absent, ids, out, func(r *jobs.Row) jobs.RowID { return r.RowID })
	}
	return out, nil
}

func byFlow(ids []jobs.RowID) map[string][]string {
	flows := map[string][]string{}
	for _, id := range stored.RowIDs(ids) {
		flows[id.Flow] = append(flows[id.Flow], id.Key)
	}
	return flows
}

// list is a list of ids as the JSON array that json_each takes.
func list(ids []string) any { return stored.Keys(ids) }

// PutRows implements jobs.Tx.
func (t *tx) PutRows(ctx context.Context, rows []jobs.Row) error {
	var pack stored.Packer
	fresh, rows := stored.Part(t.absent, stored.Rows(rows), func(r *jobs.Row) jobs.RowID { return r.RowID })
	fresh, err := t.addRows(ctx, fresh, &pack)
	if err != nil {
		return err
	}
	for i := range fresh {
		if err := t.putRow(ctx, &fresh[i], &pack); err != nil {
			return fmt.Errorf("store row %s: %w", fresh[i].RowID, err)
		}
	}
	for i := range rows {
		if err := t.putRow(ctx, &rows[i], &pack); err != nil {
			return fmt.Errorf("store row %s: %w", rows[i].RowID, err)
		}
	}
	return nil
}

// addRows adds rows that are not there, many at a time, and returns those that are
// left: what has no body, or is not new, or has too few beside it that are like it.
func (t *tx) addRows(ctx context.Context, rows []jobs.Row, pack *stored.Packer) (left []jobs.Row, err error) {
	if len(rows) < many {
		return rows, nil
	}
	newest := int64(0)
	err = t.query(ctx, t.sql.newest, nil, func(v row) error {
		newest = v.int(0)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("find the newest row: %w", err)
	}
	for len(rows) > 0 {
		n := 0
		for n < min(many, len(rows)) && isNew(&rows[n]) && len(rows[n].Body) > 0 && alike(&rows[0], &rows[n]) {
			n++
		}
		if n < many {
			n = max(n, 1)
			left, rows = append(left, rows[:n]...), rows[n:]
			continue
		}
		if err := t.addSome(ctx, rows[:many], newest+1, pack); err != nil {
			return nil, fmt.Errorf("store %d rows from %s on: %w", many, rows[0].RowID, err)
		}
		newest, rows = newest+many, rows[many:]
	}
	return left, nil
}

// addSome adds many rows, of which the first gets a number.
func (t *tx) addSome(ctx context.Context, rows []jobs.Row, first int64, pack *stored.Packer) error {
	args := append([]any{first}, sharedArgs(&rows[0])...)
	bodies := append(make([]any, 0, len(rows)+1), first)
	for i := range rows {
		r := &rows[i]
		if err := stored.FitRow(r); err != nil {
			return fmt.Errorf("row %s: %w", r.RowID, err)
		}
		body, err := pack.Pack(r.Body)
		if err != nil {
			return fmt.Errorf("row %s: %w", r.RowID, err)
		}
		args, bodies = ownArgs(args, r), append(bodies, body)
	}
	if _, err := t.exec(ctx, t.sql.addMany, args...); err != nil {
		return err
	}
	_, err := t.exec(ctx, t.sql.addBodies, bodies...)
	return err
}

func (t *tx) putRow(ctx context.Context, r *jobs.Row, pack *stored.Packer) error {
	if err := stored.FitRow(r); err != nil {
		return err
	}
	body, err := pack.Pack(r.Body)
	if err != nil {
		return err
	}
	before := t.c.inserted
	if isNew(r) {
		_, err = t.exec(ctx, t.sql.putNew, newArgs(r)...)
	} else {
		_, err = t.exec(ctx, t.sql.put, rowArgs(r)...)
	}
	switch {
	case err != nil:
	case body == nil:
		_, err = t.exec(ctx, t.sql.dropBody, id(r.Flow), id(r.Key))
	case t.c.inserted != before:
		// The row's own number: had it been there, it would be the one from before.
		_, err = t.exec(ctx, t.sql.putBodyOf, t.c.inserted, body)
	default:
		_, err = t.exec(ctx, t.sql.putBody, id(r.Flow), id(r.Key), body)
	}
	return err
}

// PatchRows implements jobs.Tx.
func (t *tx) PatchRows(ctx context.Context, rows []jobs.Row) error {
	rows = stored.Rows(rows)
	for i := range rows {
		err := stored.FitRow(&rows[i])
		if err == nil {
			_, err = t.exec(ctx, t.sql.patch, rowArgs(&rows[i])...)
		}
		if err != nil {
			return fmt.Errorf("update row %s: %w", rows[i].RowID, err)
		}
	}
	return nil
}

// CloseRows implements jobs.Tx.
func (t *tx) CloseRows(ctx context.Context, client string, cs []jobs.Closing, now time.Time) (closed []jobs.RowID, rest []jobs.Row, err error) {
	x := &closer{tx: t, client: id(client), at: now.UnixMicro()}
	groups, singly := x.groups(cs)
	for _, g := range groups {
		if err := x.many(ctx, g, &singly); err != nil {
			return nil, nil, fmt.Errorf("close %d rows of flow %s: %w", len(g), g[0].Flow, err)
		}
	}
	for i := range singly {
		if err := x.one(ctx, &singly[i]); err != nil {
			return nil, nil, fmt.Errorf("close row %s: %w", singly[i].RowID, err)
		}
	}
	if len(x.others) > 0 {
		rest, err = t.Rows(ctx, x.others, false)
	}
	return x.closed, rest, err
}

// Due implements jobs.Tx.
func (t *tx) Due(ctx context.Context, lane jobs.LaneID, now time.Time, limit int) (out []jobs.Row, err error) {
	err = t.query(ctx, t.sql.due, []any{id(lane.Client), int64(lane.Shard), now.UnixMicro(), int64(limit)}, func(v row) error {
		r, err := readRow(v)
		out = append(out, r)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the due rows of client %s: %w", lane, err)
	}
	return out, nil
}

// NextDue implements jobs.Tx.
func (t *tx) NextDue(ctx context.Context, lanes []jobs.LaneID) ([]time.Time, error) {
	next := make([]time.Time, len(lanes))
	for i, lane := range lanes {
		err := t.query(ctx, t.sql.nextDue, []any{id(lane.Client), int64(lane.Shard)}, func(v row) error {
			next[i] = v.due(0)
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("find the next due row of client %s: %w", lane, err)
		}
	}
	return next, nil
}

// Wake implements jobs.Tx.
func (t *tx) Wake(ctx context.Context, client string, keys []jobs.EntityKey, now time.Time) (int, error) {
	woken := 0
	err := t.wake(ctx, client, stored.EntityKeys(keys), now, &woken)
	if err != nil {
		return 0, fmt.Errorf("wake what waits for %d records of client %s: %w", len(keys), client, err)
	}
	return woken, nil
}

func (t *tx) wake(ctx context.Context, client string, keys []jobs.EntityKey, now time.Time, woken *int) error {
	// Each applied record asks, and hardly ever does anything wait: one look saves
	// as many statements as there are keys.
	waiting := false
	err := t.query(ctx, t.sql.anyWaiting, []any{id(client)}, func(row) error { waiting = true; return nil })
	if err != nil || !waiting {
		return err
	}
	for _, k := range keys {
		n, err := t.exec(ctx, t.sql.wake, id(client), id(k.Entity), id(k.Key), now.UnixMicro())
		if err != nil {
			return err
		}
		*woken += int(n)
	}
	return nil
}

// DropBodies implements jobs.Tx.
func (t *tx) DropBodies(ctx context.Context, ids []jobs.RowID) (int, error) {
	dropped := 0
	for _, rid := range stored.RowIDs(ids) {
		n, err := t.exec(ctx, t.sql.dropBody, id(rid.Flow), id(rid.Key))
		if err != nil {
			return 0, fmt.Errorf("remove the body of row %s: %w", rid, err)
		}
		dropped += int(n)
	}
	return dropped, nil
}
