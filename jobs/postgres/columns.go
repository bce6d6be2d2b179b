package postgres

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"

	"syncd/jobs"
	"syncd/jobs/internal/stored"
)

// rowColumn is a column of the table jobs.
type rowColumn struct {
	name string
	// kind is the type of one value; "[]" behind it is that of a batch.
	kind string
	// one is a row's value as an argument, batch those of rows.
	one   func(*jobs.Row) any
	batch func([]jobs.Row) any
	// same reports whether two rows have one value. It may say no of equal ones.
	same func(a, b *jobs.Row) bool
}

func columnOf[T comparable](name, kind string, get func(*jobs.Row) T) rowColumn {
	return rowColumn{name, kind, func(r *jobs.Row) any { return get(r) }, func(rows []jobs.Row) any { return column(rows, get) },
		func(a, b *jobs.Row) bool { return get(a) == get(b) }}
}

func bytesOf(name string, get func(*jobs.Row) []byte) rowColumn {
	return rowColumn{name, "bytea", func(r *jobs.Row) any { return get(r) }, func(rows []jobs.Row) any { return column(rows, get) },
		func(a, b *jobs.Row) bool { return bytes.Equal(get(a), get(b)) }}
}

// rowColumns are the columns of a row but for its body, in the order of rowReader.
// The first two are its key.
var rowColumns = []rowColumn{
	columnOf("flow", "text", func(r *jobs.Row) string { return stored.ID(r.Flow) }),
	columnOf("key", "text", func(r *jobs.Row) string { return stored.ID(r.Key) }),
	columnOf("client", "text", func(r *jobs.Row) string { return stored.ID(r.Client) }),
	columnOf("entity", "text", func(r *jobs.Row) string { return stored.ID(r.Entity) }),
	columnOf("source_id", "text", func(r *jobs.Row) string { return stored.ID(r.SourceID) }),
	columnOf("state", "text", func(r *jobs.Row) string { return string(r.State) }),
	columnOf("reason", "text", func(r *jobs.Row) string { return string(r.Reason) }),
	columnOf("generation", "int8", func(r *jobs.Row) int64 { return r.Generation }),
	columnOf("desired_epoch", "int8", func(r *jobs.Row) int64 { return r.Desired.Epoch }),
	columnOf("desired_version", "int8", func(r *jobs.Row) int64 { return r.Desired.Version }),
	columnOf("desired_observed", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.Desired.Observed) }),
	columnOf("changed_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.ChangedAt) }),
	columnOf("read_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.ReadAt) }),
	bytesOf("hash", func(r *jobs.Row) []byte { return blob(r.Hash) }),
	columnOf("gone", "bool", func(r *jobs.Row) bool { return r.Gone }),
	columnOf("attempt", "int8", func(r *jobs.Row) int64 { return r.Attempt }),
	columnOf("tries", "int4", func(r *jobs.Row) int32 { return int32(r.Tries) }),
	columnOf("streak", "int4", func(r *jobs.Row) int32 { return int32(r.Streak) }),
	columnOf("first_try_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.FirstTryAt) }),
	columnOf("applied_generation", "int8", func(r *jobs.Row) int64 { return r.AppliedGeneration }),
	bytesOf("applied_hash", func(r *jobs.Row) []byte { return blob(r.AppliedHash) }),
	columnOf("applied_gone", "bool", func(r *jobs.Row) bool { return r.AppliedGone }),
	columnOf("applied_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.AppliedAt) }),
	columnOf("unresolved_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.UnresolvedAt) }),
	columnOf("misses", "int4", func(r *jobs.Row) int32 { return int32(r.Misses) }),
	columnOf("miss_code", "text", func(r *jobs.Row) string { return stored.Message(r.MissCode) }),
	columnOf("open_since", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.OpenSince) }),
	columnOf("due_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return due(r.DueAt) }),
	columnOf("solo", "bool", func(r *jobs.Row) bool { return r.Solo }),
	columnOf("last_class", "text", func(r *jobs.Row) string { return stored.Message(string(r.LastClass)) }),
	columnOf("last_code", "text", func(r *jobs.Row) string { return stored.Message(r.LastCode) }),
	columnOf("last_message", "text", func(r *jobs.Row) string { return stored.Message(r.LastMessage) }),
	columnOf("last_at", "timestamptz", func(r *jobs.Row) pgtype.Timestamptz { return stamp(r.LastAt) }),
	columnOf("wait_entity", "text", func(r *jobs.Row) string { return stored.ID(r.WaitEntity) }),
	columnOf("wait_key", "text", func(r *jobs.Row) string { return stored.ID(r.WaitKey) }),
	columnOf("renamed_from", "text", func(r *jobs.Row) string { return stored.ID(r.RenamedFrom) }),
	columnOf("shard", "int4", func(r *jobs.Row) int32 { return int32(r.Shard) }),
	columnOf("grp", "text", func(r *jobs.Row) string { return stored.ID(r.Group) }),
	columnOf("key_epoch", "int8", func(r *jobs.Row) int64 { return r.KeyEpoch }),
}

// rowArgs are the columns of rows as arrays.
func rowArgs(rows []jobs.Row) []any { return shape(rowColumns).args(rows) }

// A shape says which columns of a batch have a value for each row. Those that are
// not in it have one for all rows, which costs the batch next to nothing: the rows of
// one page differ in little.
type shape []rowColumn

// shapes are those that a batch is tried for, the leanest first: that of new rows,
// that of rows which were done, and all columns.
var shapes = []shape{
	columnsNamed("key source_id generation desired_version changed_at hash shard"),
	columnsNamed(`key source_id generation desired_version desired_observed changed_at read_at hash attempt
		applied_generation applied_hash applied_at last_class last_at shard grp`),
	rowColumns,
}

func columnsNamed(names string) (s shape) {
	for _, name := range strings.Fields(names) {
		i := slices.IndexFunc(rowColumns, func(c rowColumn) bool { return c.name == name })
		s = append(s, rowColumns[i])
	}
	return s
}

// has reports whether a column has a value for each row.
func (s shape) has(name string) bool {
	return slices.ContainsFunc(s, func(c rowColumn) bool { return c.name == name })
}

// fits reports whether rows, of which there are some, are alike in all other columns.
func (s shape) fits(rows []jobs.Row) bool {
	for _, c := range rowColumns {
		if s.has(c.name) {
			continue
		}
		for i := range rows[1:] {
			if !c.same(&rows[0], &rows[i+1]) {
				return false
			}
		}
	}
	return true
}

// args are the arguments of a statement over rows: the columns of the shape, then
// the values that all rows have.
func (s shape) args(rows []jobs.Row) (args []any) {
	for _, c := range s {
		args = append(args, c.batch(rows))
	}
	for _, c := range rowColumns {
		if !s.has(c.name) {
			args = append(args, c.one(&rows[0]))
		}
	}
	return args
}

// source is a FROM clause v over the arguments, and a select list of all columns.
func (s shape) source() (list, from string) {
	var names, arrays, values []string
	for i, c := range s {
		names = append(names, c.name)
		arrays = append(arrays, "$"+strconv.Itoa(i+1)+"::"+c.kind+"[]")
	}
	n := len(s)
	for _, c := range rowColumns {
		if s.has(c.name) {
			values = append(values, "v."+c.name)
		} else {
			n++
			values = append(values, "$"+strconv.Itoa(n)+"::"+c.kind)
		}
	}
	return strings.Join(values, ", "), "unnest(" + strings.Join(arrays, ", ") + ") AS v (" + strings.Join(names, ", ") + ")"
}
