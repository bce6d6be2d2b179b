package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"syncd/connectors"
)

// minVersion is the oldest server that has all we use: xid8 and pg_current_snapshot came with 13.
const minVersion = 130000

// Check asks the database whether tables, columns, indexes and privileges are as the configuration needs them, and says what to create otherwise.
func (in *instance) Check(ctx context.Context, streams, entities []string) []connectors.Finding {
	var version int
	var readOnly bool
	var encoding string
	h := &horizon{}
	err := in.db.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		const sql = `SELECT current_setting('server_version_num')::int, pg_is_in_recovery() OR current_setting('default_transaction_read_only')::boolean, current_setting('server_encoding')`
		if err := tx.QueryRow(ctx, sql).Scan(&version, &readOnly, &encoding); err != nil {
			return err
		}
		if version < minVersion {
			return nil
		}
		return h.look(ctx, tx)
	})
	if err != nil {
		o := outcome(err)
		return []connectors.Finding{{Problem: o.Message, Unreachable: o.Class != connectors.Invalid && o.Class != connectors.Auth}}
	}
	if version < minVersion {
		return []connectors.Finding{{Problem: fmt.Sprintf("the server is PostgreSQL %d; 13 or newer is needed", version/10000)}}
	}
	note := fmt.Sprintf("PostgreSQL %d.%d", version/10000, version%10000)
	if encoding == asciiOnly {
		note += "; the database's encoding is " + asciiOnly + ", which keeps whatever bytes it is given: rows with texts that are not UTF-8 become dead letters"
	}
	findings := []connectors.Finding{{Note: note}}
	for _, name := range streams {
		findings = append(findings, in.checkStream(ctx, name, h)...)
	}
	if readOnly && len(entities) > 0 {
		findings = append(findings, connectors.Finding{Problem: "the server takes no writes: it is a standby, or read-only by default; give the primary's address"})
	}
	for _, name := range entities {
		findings = append(findings, in.checkEntity(ctx, name)...)
	}
	return findings
}

// remarks gathers what is wrong with one subject.
type remarks struct {
	subject  string
	findings []connectors.Finding
}

func (r *remarks) problem(format string, args ...any) {
	r.findings = append(r.findings, connectors.Finding{Subject: r.subject, Problem: fmt.Sprintf(format, args...)})
}

func (r *remarks) failed(err error) []connectors.Finding {
	var f *failure
	var several problems
	switch {
	case errors.As(err, &several):
		for _, p := range several {
			r.problem("%v", p)
		}
		return r.findings
	case !errors.As(err, &f):
		r.problem("%v", err)
		return r.findings
	}
	o := outcome(err)
	r.findings = append(r.findings, connectors.Finding{Subject: r.subject, Problem: o.Message, Unreachable: o.Class != connectors.Invalid})
	return r.findings
}

func (r *remarks) unreachable() bool {
	return slices.ContainsFunc(r.findings, func(f connectors.Finding) bool { return f.Unreachable })
}

// done adds the note for when all is well.
func (r *remarks) done(format string, args ...any) []connectors.Finding {
	if len(r.findings) == 0 {
		r.findings = append(r.findings, connectors.Finding{Subject: r.subject, Note: fmt.Sprintf(format, args...)})
	}
	return r.findings
}

func (in *instance) checkEntity(ctx context.Context, name string) []connectors.Finding {
	r := &remarks{subject: name}
	config := in.settings.Records[name]
	if config == nil {
		r.problem("there is no such entity in the configuration")
		return r.findings
	}
	p, err := newPlan(config, func(n tableName) (*table, error) { return in.db.table(ctx, n, true) })
	if err != nil {
		r.failed(err)
	}
	if p == nil || r.unreachable() {
		return r.findings
	}
	r.index(p.table, p.index, p.key)
	r.privileges(p.table, "SELECT", "INSERT", "UPDATE")
	if len(p.key) == len(config.Key) && (len(config.Link) == 0 || len(p.link) == len(config.Link)) {
		r.keyColumns(p)
	}
	r.partial(p)
	for _, c := range p.children {
		r.child(c)
	}
	return r.done("table %s, key %s%s%s", p.table.tableName, list(names(p.key)), guardNote(p), keyNote(p))
}

// keyNote tells what a person may stumble over.
func keyNote(p *plan) (note string) {
	for _, c := range p.key {
		if c.folds {
			note += fmt.Sprintf("; the column %s (%s) takes texts for the same that are written differently: a key in another spelling than its row is refused", c.name, c.shown)
		}
	}
	for _, c := range p.table.order {
		if most := counts()[c.typ]; c.counter && most > 0 && p.index != nil && !slices.Contains(p.key, c) {
			note += fmt.Sprintf("; unless records give it, the column %s (%s) draws a number with every write, also of a row that is there already, and has none left after %d: make it bigint", c.name, c.typ, most)
		}
	}
	if p.table.secured {
		note += "; row-level security holds for this role: rows that it hides or refuses become dead letters"
	}
	return note
}

// counts are the types of columns whose numbers can run out, with their last one. An upsert draws the default of a
// new row before it knows whether there is one, and a number that was drawn does not come back.
// https://www.postgresql.org/docs/current/functions-sequence.html
func counts() map[string]int64 {
	return map[string]int64{"smallint": math.MaxInt16, "integer": math.MaxInt32}
}

// partial looks whether records may lie outside a unique index that does not hold for all rows.
func (r *remarks) partial(p *plan) {
	if p.index == nil {
		return
	}
	fixed := names(p.key)
	if p.gone != nil {
		fixed = append(fixed, p.gone.name)
	}
	if p.index.outside(fixed...) {
		r.problem("the unique index %s of %s holds only WHERE %s, and records outside it are refused, since nothing keeps them from being doubled; create a unique index for all rows, "+
			"or name in gone the column that says that a row is archived", p.index.name, p.table.tableName, p.index.predicate)
	}
}

func guardNote(p *plan) string {
	switch {
	case p.version == nil:
		return "; without a version column, an older state can overwrite a newer one for a moment"
	case p.observed == nil:
		return ", guarded by version"
	}
	return ", guarded by version and time of reading"
}

// keyColumns looks for what would make the key or the link not be one.
func (r *remarks) keyColumns(p *plan) {
	for _, c := range p.key {
		if c.generated || c.always {
			r.problem("the values of the key column %s of %s are made by the database and cannot be written; use another key, and name this column in link", c.name, p.table.tableName)
		}
	}
	for _, c := range p.link {
		if !c.notNull && p.renames() {
			r.problem("the link column %s of %s can be null; ALTER TABLE %s ALTER COLUMN %s SET NOT NULL", c.name, p.table.tableName, p.table.quoted(), quote(c.name))
		}
	}
	if u, _ := p.table.uniqueOver(names(p.link)); u == nil && p.renames() {
		r.problem("%v, since a link must lead to one row", noIndex{p.table, names(p.link), ""})
	}
	if p.gone != nil && p.gone.notNull && !p.gone.hasDefault {
		r.problem("the column %s of %s needs a default for rows that live; ALTER TABLE %s ALTER COLUMN %s SET DEFAULT …", p.gone.name, p.table.tableName, p.table.quoted(), quote(p.gone.name))
	}
	if p.gone != nil && p.gone.generated {
		r.problem("the column %s of %s is generated and cannot be set", p.gone.name, p.table.tableName)
	}
}

// index looks whether the unique index holds for every row that can be written.
func (r *remarks) index(t *table, u *unique, columns []*column) {
	if u == nil || u.nulls {
		return
	}
	for _, c := range columns {
		if !c.notNull {
			r.problem("the key column %s of %s can be null, and rows with null are never the same to the index %s; ALTER TABLE %s ALTER COLUMN %s SET NOT NULL, "+
				"or make the index NULLS NOT DISTINCT", c.name, t.tableName, u.name, t.quoted(), quote(c.name))
		}
	}
}

func (r *remarks) privileges(t *table, needed ...string) {
	var lacks []string
	for _, p := range needed {
		if !t.may[p] {
			lacks = append(lacks, p)
		}
	}
	if len(lacks) > 0 {
		r.problem("this role lacks a right; GRANT %s ON %s TO it", strings.Join(lacks, ", "), t.quoted())
	}
}

func (r *remarks) child(c *childPlan) {
	needed := []string{"SELECT", "INSERT", "UPDATE"}
	if c.replaces {
		needed = append(needed, "DELETE")
	}
	r.privileges(c.table, needed...)
	if c.index != nil {
		var key []*column
		for _, n := range c.index.columns {
			key = append(key, c.table.columns[n])
		}
		r.index(c.table, c.index, key)
	}
}

func (in *instance) checkStream(ctx context.Context, name string, h *horizon) []connectors.Finding {
	r := &remarks{subject: name}
	s := in.settings.Tables[name]
	if s == nil {
		r.problem("there is no such stream in the configuration")
		return r.findings
	}
	rd, err := newReader(s, func(n tableName) (*table, error) { return in.db.table(ctx, n, true) })
	if err != nil {
		r.failed(err)
	}
	if rd == nil || r.unreachable() {
		return r.findings
	}
	r.privileges(rd.table, "SELECT")
	if err != nil {
		return r.findings
	}
	if rd.hasXmin() {
		if rd.id != nil && s.Mode == modePoll {
			if u, near := rd.table.uniqueOver([]string{rd.id.name}); (u == nil || u.predicate != "") && !(near != nil && near.valid && !near.expression) {
				r.problem("the column %s of %s is not unique, so rows could be passed over at the border of two pages; name a unique column as id", rd.id.name, rd.table.tableName)
			}
		}
		indexed, err := in.indexed(ctx, rd)
		if err != nil {
			return r.failed(err)
		}
		if !indexed {
			r.problem("no index of %s begins with %s, so each poll reads the whole table; run CREATE INDEX CONCURRENTLY ON %s (%s)",
				rd.table.tableName, rd.version.name, rd.table.quoted(), strings.ReplaceAll(rd.sorted(), "t.", ""))
		}
	}
	if rd.order != byXID && !h.sure && s.Overlap < settle {
		r.problem("overlap is %s, and rows that become visible late cannot be told otherwise: %s", s.Overlap, h.why)
	}
	note := ""
	if rd.order != byXID && !h.sure {
		note = "; rows that become visible late are looked for within overlap only: " + h.why
	}
	return r.done("%s in the order of %s%s", rd.table.tableName, rd.version.name, note)
}

// indexed reports whether an index serves the order of reading.
func (in *instance) indexed(ctx context.Context, rd *reader) (ok bool, err error) {
	const sql = `SELECT EXISTS (SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]
WHERE i.indrelid = $1 AND i.indisvalid AND i.indpred IS NULL AND a.attname = $2)`
	err = in.db.read(ctx, func(ctx context.Context, tx pgx.Tx) error {
		return tx.QueryRow(ctx, sql, rd.table.oid, rd.version.name).Scan(&ok)
	})
	return ok, err
}
