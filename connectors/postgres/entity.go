package postgres

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"syncd/connectors"
	"syncd/internal/field"
)

// Entity says which table records go to, and what its columns mean.
type Entity struct {
	Table       string
	Key         []string
	Unique      bool
	Version     string
	Observed    string
	SourceEpoch string
	Link        []string
	Gone        Gone
	Columns     map[string]string
	Children    map[string]*Child
}

// Fields declares the settings.
func (e *Entity) Fields(f *field.Set) {
	f.String(&e.Table, "table", "The table, as schema.table; without a schema it is public.", field.Required(), field.Example("erp.orders"))
	f.Strings(&e.Key, "key", "The column with the record's key, or several: then the flow's key is a JSON array of their values, or the record holds them as fields.",
		field.Required(), field.Example("number"))
	f.Bool(&e.Unique, "unique", "A unique index covers the key columns. Where there is none, only the strategy lookup remains.", field.Default("true"))
	f.String(&e.Version, "version", "A bigint column for the version of the record that was written last. With it, the database itself refuses an older state.", field.Example("sync_version"))
	f.String(&e.Observed, "observed", "A timestamptz column for the time at which that state was read; it decides between equal versions.", field.Example("sync_observed"))
	f.String(&e.SourceEpoch, "source_epoch", "A bigint or integer column for the source's epoch, which grows when a shop was restored from a backup.", field.Advanced())
	f.Strings(&e.Link, "link", "The column, or columns, by which this database calls the row, such as its serial number. Without it, the key.", field.Example("id"))
	f.Struct(&e.Gone, "gone", "How a row is marked that no longer exists at the source. Without it, a row can only be deleted.")
	f.StringMap(&e.Columns, "columns", "Columns whose names differ from the record's fields: the field's name, and the column's.")
	field.Map(f, &e.Children, "children", "Collections inside a record that go to tables of their own: the field with the array, and its table. They are written in the record's transaction.")
}

// Validate checks the settings of an entity.
func (e *Entity) Validate(r *field.Report) {
	tableSetting(r, "table", e.Table)
	if len(e.Key) == 0 && !r.Failed("key") {
		r.At("key").Errorf("no column; name the column with the record's key")
	}
	columnNames(r, "key", e.Key...)
	columnNames(r, "link", e.Link...)
	columnNames(r, "columns", slices.Collect(maps.Values(e.Columns))...)
	seen := map[string]string{}
	for at, column := range map[string]string{"version": e.Version, "observed": e.Observed, "source_epoch": e.SourceEpoch} {
		if column == "" {
			continue
		}
		columnNames(r, at, column)
		if other := seen[column]; other != "" || slices.Contains(e.Key, column) || column == e.Gone.Column {
			r.At(at).Errorf("the column is used for something else, too; give it one of its own")
		}
		seen[column] = at
	}
	if e.Version == "" {
		for at, column := range map[string]string{"observed": e.Observed, "source_epoch": e.SourceEpoch} {
			if column != "" {
				r.At(at).Errorf("of no use without version; name a bigint column there")
			}
		}
	}
	to := map[string]bool{}
	for _, column := range e.Columns {
		if to[column] {
			r.At("columns").Errorf("two fields go to one column; give each its own")
		}
		to[column] = true
	}
	for name := range e.Children {
		if _, ok := e.Columns[name]; ok {
			r.At("columns").Errorf("%s is a child table, too; use one of them", name)
		}
	}
}

// Gone says how a row is marked as archived.
type Gone struct{ Column, Value string }

// Fields declares the settings.
func (g *Gone) Fields(f *field.Set) {
	f.String(&g.Column, "column", "The column to set. A record that comes back to life sets it to its default.", field.Example("deleted_at"))
	f.String(&g.Value, "value", "What to set it to. Without it, true for a boolean column, and the time of the removal for a date or time.", field.Example("archived"))
}

// Validate checks the settings.
func (g *Gone) Validate(r *field.Report) {
	if g.Column == "" && (g.Value != "" || r.Given("value")) {
		r.At("column").Errorf("missing; name the column to set")
	}
	if g.Column != "" {
		columnNames(r, "column", g.Column)
	}
}

// Child is a collection inside a record.
type Child struct {
	Table   string
	Parent  []string
	Key     []string
	Mode    string
	Columns map[string]string
}

// Fields declares the settings.
func (c *Child) Fields(f *field.Set) {
	f.String(&c.Table, "table", "The table, as schema.table.", field.Required(), field.Example("erp.order_lines"))
	f.Strings(&c.Parent, "parent", "The columns that point at the record: by their foreign key, or else one for link, or as many as the record has key columns.",
		field.Required(), field.Example("order_id"))
	f.Strings(&c.Key, "key", "The columns that tell the children of one record apart. Without them, all are deleted and written anew each time.", field.Example("line_no"))
	f.String(&c.Mode, "mode", "What a repeated write does.", field.Default(string(connectors.Replaces)), field.Choices(
		field.Choice{Name: string(connectors.Replaces), Doc: "the children are as the record says; others are deleted"},
		field.Choice{Name: string(connectors.Keyed), Doc: "children in the record are created or updated; others stay"}))
	f.StringMap(&c.Columns, "columns", "Columns whose names differ from the child's fields: the field's name, and the column's.")
}

// Validate checks the settings.
func (c *Child) Validate(r *field.Report) {
	tableSetting(r, "table", c.Table)
	if len(c.Parent) == 0 && !r.Failed("parent") {
		r.At("parent").Errorf("no column; name the columns that point at the record")
	}
	if len(c.Key) == 0 && c.Mode == string(connectors.Keyed) && !r.Failed("key") {
		r.At("key").Errorf("missing; mode keys needs the columns that tell the children apart")
	}
	columnNames(r, "parent", c.Parent...)
	columnNames(r, "key", c.Key...)
	columnNames(r, "columns", slices.Collect(maps.Values(c.Columns))...)
	for _, k := range c.Key {
		if slices.Contains(c.Parent, k) {
			r.At("key").Errorf("a column of parent, too; name only what tells the children of one record apart")
			break
		}
	}
}

// info describes the entity, as far as it can be told without asking the database.
func (e *Entity) info(name string, timeout time.Duration) connectors.EntityInfo {
	keys := strings.Join(e.Key, ", ")
	in := connectors.EntityInfo{
		Name:       name,
		Doc:        fmt.Sprintf("Rows of the table %s.", e.Table),
		Finds:      true,
		Guarded:    e.Version != "",
		SettleTime: timeout,
		Removals:   []connectors.Removal{connectors.Delete},
		Renames:    len(e.Link) > 0 && !slices.Equal(e.Link, e.Key),
	}
	if e.Unique {
		in.MaxBatch = maxBatch
		in.Strategies = []connectors.StrategyInfo{
			{Strategy: connectors.NaturalKey, Field: keys + " (unique index)", KeyField: keys},
			{Strategy: connectors.ExternalRef, Field: keys + " (unique index)", KeyField: keys},
		}
	}
	in.Strategies = append(in.Strategies, connectors.StrategyInfo{Strategy: connectors.Lookup, Field: keys, KeyField: keys})
	if e.Gone.Column != "" {
		in.Removals = []connectors.Removal{connectors.Archive, connectors.Delete}
	}
	if len(e.Children) > 0 {
		in.Children = map[string]connectors.ChildMode{}
		for n, c := range e.Children {
			in.Children[n] = connectors.ChildMode(c.Mode)
		}
	}
	return in
}
