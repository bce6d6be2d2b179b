package postgres

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgtype"
)

// plan is an entity's configuration held against the database's catalog.
type plan struct {
	table  *table
	key    []*column
	link   []*column
	fields map[string]*column // what a record's fields go to
	index  *unique            // nil where no unique index covers the key

	version, observed, epoch *column // nil without
	gone                     *column
	goneValue                string // "" for the time of the removal

	children map[string]*childPlan
	fresh    bool // made from a catalog that was read for it
}

// childPlan is the plan of a collection inside a record.
type childPlan struct {
	name     string
	table    *table
	parent   []*column
	to       []*column // the columns of the record's table that parent points at
	key      []*column
	index    *unique
	replaces bool
	fields   map[string]*column
}

// problems are all that is wrong with a configuration.
type problems []error

func (ps problems) Error() string {
	var texts []string
	for _, p := range ps {
		texts = append(texts, p.Error())
	}
	return strings.Join(texts, "; and ")
}

// add takes an error, or several. What is about the database's not answering ends all.
func (ps *problems) add(err error) {
	var several problems
	switch {
	case err == nil:
	case errors.As(err, &several):
		*ps = append(*ps, several...)
	default:
		*ps = append(*ps, err)
	}
}

// err is nil if there are none. A failure to ask stands for itself.
func (ps problems) err() error {
	for _, p := range ps {
		var f *failure
		if errors.As(p, &f) {
			return p
		}
	}
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// newPlan resolves an entity. tables gives catalog entries. Where something is wrong the error names all of it, and the plan holds what is right, if
// the table is there.
func newPlan(e *Entity, tables func(tableName) (*table, error)) (*plan, error) {
	t, err := namedTable(e.Table, tables)
	if err != nil {
		return nil, err
	}
	if t.kind != 'r' && t.kind != 'p' {
		return nil, fmt.Errorf("%s is not a table; rows are upserted into tables only", t.tableName)
	}
	p := &plan{table: t, children: map[string]*childPlan{}}
	var ps problems
	var keyErr error
	p.key, keyErr = t.pick(e.Key)
	ps.add(keyErr)
	p.link, err = t.pick(e.Link)
	ps.add(err)
	if len(p.link) == 0 {
		p.link = p.key
	}
	ps.add(p.own(e))
	if e.Unique && keyErr == nil {
		p.index, err = arbiter(t, e.Key)
		ps.add(err)
	}
	p.fields, err = fieldColumns(t, e.Columns, p.version, p.observed, p.epoch)
	ps.add(err)
	for _, name := range slices.Sorted(maps.Keys(e.Children)) {
		c, err := newChildPlan(name, e.Children[name], p, tables)
		var several problems
		if errors.As(err, &several) {
			for _, one := range several {
				ps.add(fmt.Errorf("children %s: %w", name, one))
			}
		} else if err != nil {
			ps.add(fmt.Errorf("children %s: %w", name, err))
		}
		if err == nil {
			p.children[name] = c
		}
		delete(p.fields, name)
	}
	return p, ps.err()
}

func namedTable(text string, tables func(tableName) (*table, error)) (*table, error) {
	name, err := parseTable(text)
	if err != nil {
		return nil, err
	}
	return tables(name)
}

// own finds the columns that syncd keeps for itself.
func (p *plan) own(e *Entity) error {
	var ps problems
	for _, w := range []struct {
		name  string
		to    **column
		types []uint32
		what  string
	}{
		{e.Version, &p.version, []uint32{pgtype.Int8OID}, "bigint, since versions are microseconds or other large numbers"},
		{e.Observed, &p.observed, []uint32{pgtype.TimestamptzOID}, "timestamptz"},
		{e.SourceEpoch, &p.epoch, []uint32{pgtype.Int8OID, pgtype.Int4OID}, "bigint or integer"},
		{e.Gone.Column, &p.gone, nil, ""},
	} {
		if w.name == "" {
			continue
		}
		c := p.table.columns[w.name]
		switch {
		case c == nil:
			ps.add(missingColumn{p.table.tableName, w.name})
		case c.generated:
			ps.add(fmt.Errorf("the column %s of %s is generated and cannot be set", w.name, p.table.tableName))
		case w.types != nil && !slices.Contains(w.types, c.oid):
			ps.add(fmt.Errorf("the column %s of %s is %s; it must be %s", w.name, p.table.tableName, c.shown, w.what))
		default:
			*w.to = c
		}
	}
	if p.gone != nil {
		ps.add(p.markGone(e.Gone.Value))
	}
	return ps.err()
}

// markGone says what the column of archived rows is set to.
func (p *plan) markGone(v string) error {
	switch p.gone.oid {
	case pgtype.TimestamptzOID, pgtype.TimestampOID, pgtype.DateOID:
		if v != "" {
			return fmt.Errorf("gone.value is for the column %s, which is a time; take it out: it gets the time of the removal", p.gone.name)
		}
		return nil
	case pgtype.BoolOID:
		if v == "" {
			v = "true"
		}
	}
	if v == "" {
		return fmt.Errorf("gone.value is missing: the column %s is %s, so say what marks a row as gone", p.gone.name, p.gone.shown)
	}
	p.goneValue = v
	return nil
}

// arbiter finds the unique index that an upsert leans on.
func arbiter(t *table, columns []string) (*unique, error) {
	switch {
	case len(t.rules) > 0:
		return nil, fmt.Errorf("the table %s has the rule %s on INSERT or UPDATE, with which PostgreSQL allows no upsert; use a trigger instead, or say unique: false and use strategy lookup", t.tableName, t.rules[0])
	case t.heirs:
		return nil, fmt.Errorf("other tables inherit from %s, and no unique index covers their rows too; use a partitioned table, or say unique: false and use strategy lookup", t.tableName)
	}
	found, near := t.uniqueOver(columns)
	switch {
	case found != nil:
		return found, nil
	case near == nil:
		return nil, noIndex{t, columns, ""}
	case near.expression:
		return nil, noIndex{t, columns, near.unfit(t) + "; "}
	}
	return nil, errors.New(near.unfit(t))
}

// noIndex is the error for a key that nothing makes unique.
type noIndex struct {
	table   *table
	columns []string
	why     string // what there is instead
}

func (n noIndex) Error() string {
	var quoted []string
	for _, c := range n.columns {
		quoted = append(quoted, quote(c))
	}
	return n.why + fmt.Sprintf("no unique index of %s covers exactly %s; run CREATE UNIQUE INDEX CONCURRENTLY ON %s (%s)",
		n.table.tableName, list(n.columns), n.table.quoted(), strings.Join(quoted, ", "))
}

// fieldColumns says which fields a record may have, and where they go.
func fieldColumns(t *table, renames map[string]string, reserved ...*column) (map[string]*column, error) {
	fields := make(map[string]*column, len(t.columns))
	renamed := map[string]bool{}
	var ps problems
	for _, field := range slices.Sorted(maps.Keys(renames)) {
		name := renames[field]
		c := t.columns[name]
		if c == nil {
			ps.add(missingColumn{t.tableName, name})
			continue
		}
		fields[field], renamed[name] = c, true
	}
	for name, c := range t.columns {
		if _, taken := fields[name]; !taken && !renamed[name] {
			fields[name] = c
		}
	}
	for field, c := range fields {
		if slices.Contains(reserved, c) {
			delete(fields, field)
		}
	}
	return fields, ps.err()
}

func newChildPlan(name string, c *Child, p *plan, tables func(tableName) (*table, error)) (*childPlan, error) {
	t, err := namedTable(c.Table, tables)
	if err != nil {
		return nil, err
	}
	if t.kind != 'r' && t.kind != 'p' {
		return nil, fmt.Errorf("%s is not a table; rows are written into tables only", t.tableName)
	}
	cp := &childPlan{name: name, table: t, replaces: c.Mode != "keys"}
	var ps problems
	var parentErr, keyErr error
	cp.parent, parentErr = t.pick(c.Parent)
	ps.add(parentErr)
	cp.key, keyErr = t.pick(c.Key)
	ps.add(keyErr)
	if parentErr == nil && len(p.key) > 0 {
		cp.to, err = cp.target(c, p)
		ps.add(err)
	}
	cp.fields, err = fieldColumns(t, c.Columns)
	ps.add(err)
	if len(cp.key) > 0 && parentErr == nil && keyErr == nil {
		ps.add(cp.arbiter(c))
	}
	return cp, ps.err()
}

// arbiter finds the index that tells children apart.
func (cp *childPlan) arbiter(c *Child) (err error) {
	t := cp.table
	cp.index, err = arbiter(t, append(slices.Clone(c.Parent), c.Key...))
	var none noIndex
	if errors.As(err, &none) {
		// A key that is unique in the whole table will do as well.
		if u, _ := t.uniqueOver(c.Key); u != nil {
			cp.index, err = u, nil
		}
	}
	if err == nil && cp.index.outside(slices.Concat(c.Parent, c.Key)...) {
		return fmt.Errorf("the unique index %s of %s holds only WHERE %s, so that children outside it would be doubled; create one without WHERE", cp.index.name, t.tableName, cp.index.predicate)
	}
	return err
}

// target finds what the parent columns point at: what their foreign key says, else the link if there is one, else the key.
func (cp *childPlan) target(c *Child, p *plan) ([]*column, error) {
	for _, ref := range cp.table.refs {
		if ref.target != p.table.oid || !sameSet(ref.columns, c.Parent) {
			continue
		}
		to := make([]string, len(c.Parent))
		for i, name := range c.Parent {
			to[i] = ref.to[slices.Index(ref.columns, name)]
		}
		return p.table.pick(to)
	}
	for _, to := range [][]*column{p.link, p.key} {
		if len(to) == len(cp.parent) {
			return to, nil
		}
	}
	return nil, fmt.Errorf("parent has %d %s, and the record's key %d; name as many, or add a foreign key to %s",
		len(cp.parent), plural(len(cp.parent), "column"), len(p.key), p.table.tableName)
}

// returned are the columns of a written row that have to be known: its key, its link, and what children point at.
func (p *plan) returned() []*column {
	cs := slices.Clone(p.key)
	add := func(more []*column) {
		for _, c := range more {
			if !slices.Contains(cs, c) {
				cs = append(cs, c)
			}
		}
	}
	add(p.link)
	for _, name := range slices.Sorted(maps.Keys(p.children)) {
		add(p.children[name].to)
	}
	return cs
}
