package postgres

import (
	"fmt"
	"strings"
)

// rowColumn is a column of the table jobs and the type of its array argument.
type rowColumn struct{ name, array string }

// rowColumns are the columns of a row but for its body, in the order of rowArgs
// and rowTargets. The first two are its key.
func rowColumns() []rowColumn {
	var cs []rowColumn
	for _, field := range strings.Fields(`flow:text key:text client:text entity:text source_id:text state:text reason:text
		generation:int8 desired_epoch:int8 desired_version:int8 desired_observed:timestamptz changed_at:timestamptz
		read_at:timestamptz hash:bytea gone:bool attempt:int8 tries:int4 streak:int4 first_try_at:timestamptz
		applied_generation:int8 applied_hash:bytea applied_gone:bool applied_at:timestamptz unresolved_at:timestamptz
		misses:int4 miss_code:text open_since:timestamptz due_at:timestamptz solo:bool last_class:text last_code:text
		last_message:text last_at:timestamptz wait_entity:text wait_key:text renamed_from:text`) {
		name, array, _ := strings.Cut(field, ":")
		cs = append(cs, rowColumn{name, array})
	}
	return cs
}

// queries are the statements, with the schema's name in them. Each takes a batch
// as arrays. Constants in the predicates of partial indexes are written out: as
// parameters they would be lost to the planner once it makes a generic plan.
type queries struct {
	columns                       string // a select list over jobs j
	jobs                          string // the table
	rows, rowsHeld, bodies        string
	put, patch, putBody, dropBody string
	due, dueHeld, nextDue, wake   string

	flow, flowHeld, flowMake, flowSave, flows string
	sources, sourcesPut                       string
	contenders, contenderPut, contenderDelete string
	contendersCount                           string
	claimAdd, claims, claimReduce, claimEnd   string
	links, linksPut, linksDelete              string
	attemptsAdd, attempts                     string
	requestsAdd, requests, requestPostpone    string
	requestsDelete, clients, clientPut        string
	counts, meta                              string

	leaseLook, leaseTake, leaseRenew, leaseRelease, leaseHold string
}

func newQueries(schema string) *queries {
	q := &queries{}
	q.overRows()
	q.overFlows()
	q.overClients()
	q.overLease()
	for _, s := range q.all() {
		*s = strings.ReplaceAll(*s, "{s}", schema)
	}
	return q
}

func (q *queries) all() []*string {
	return []*string{&q.jobs, &q.rows, &q.rowsHeld, &q.bodies, &q.put, &q.patch, &q.putBody, &q.dropBody, &q.due, &q.dueHeld, &q.nextDue, &q.wake,
		&q.flow, &q.flowHeld, &q.flowMake, &q.flowSave, &q.flows, &q.sources, &q.sourcesPut,
		&q.contenders, &q.contenderPut, &q.contenderDelete, &q.contendersCount,
		&q.claimAdd, &q.claims, &q.claimReduce, &q.claimEnd, &q.links, &q.linksPut, &q.linksDelete,
		&q.attemptsAdd, &q.attempts, &q.requestsAdd, &q.requests, &q.requestPostpone, &q.requestsDelete,
		&q.clients, &q.clientPut, &q.counts, &q.meta,
		&q.leaseLook, &q.leaseTake, &q.leaseRenew, &q.leaseRelease, &q.leaseHold}
}

// of is a batch k of keys that have their first column, the parameter $1, in
// common. Were that compared with $1 itself, the planner would, while it believes
// the table to be small, read all rows that have it for a look-up of a few; OFFSET 0
// hides from it that the column is the same in all.
func of(common string, columns ...string) string {
	arrays := make([]string, len(columns))
	for i := range columns {
		arrays[i] = fmt.Sprintf("$%d::text[]", i+2)
	}
	return "(SELECT $1::text COLLATE \"C\", * FROM unnest(" + strings.Join(arrays, ", ") + ") OFFSET 0) AS k (" +
		common + ", " + strings.Join(columns, ", ") + ")"
}

func (q *queries) overRows() {
	var names, selects, arrays, excluded, patched []string
	for i, c := range rowColumns() {
		names = append(names, c.name)
		selects = append(selects, "j."+c.name)
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", i+1, c.array))
		if i > 1 {
			excluded = append(excluded, c.name+" = excluded."+c.name)
			patched = append(patched, c.name+" = v."+c.name)
		}
	}
	list, batch := strings.Join(names, ", "), "unnest("+strings.Join(arrays, ", ")+")"
	q.jobs = "{s}.jobs"
	q.columns = strings.Join(selects, ", ")
	q.rows = "SELECT " + q.columns + ` FROM unnest($1::text[], $2::text[]) AS k (flow, key)
		JOIN {s}.jobs j ON j.flow = k.flow AND j.key = k.key ORDER BY j.flow, j.key`
	q.rowsHeld = q.rows + " FOR NO KEY UPDATE OF j"
	q.bodies = `SELECT b.flow, b.key, b.body FROM unnest($1::text[], $2::text[]) AS k (flow, key)
		JOIN {s}.bodies b ON b.flow = k.flow AND b.key = k.key`
	q.put = "INSERT INTO {s}.jobs (" + list + ") SELECT * FROM " + batch + " ON CONFLICT (flow, key) DO UPDATE SET " + strings.Join(excluded, ", ")
	q.patch = "UPDATE {s}.jobs j SET " + strings.Join(patched, ", ") + " FROM " + batch + " AS v (" + list + ") WHERE j.flow = v.flow AND j.key = v.key"
	q.putBody = `INSERT INTO {s}.bodies (flow, key, body) SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])
		ON CONFLICT (flow, key) DO UPDATE SET body = excluded.body`
	q.dropBody = `DELETE FROM {s}.bodies b USING unnest($1::text[], $2::text[]) AS k (flow, key) WHERE b.flow = k.flow AND b.key = k.key`
	q.due = "SELECT " + q.columns + ` FROM {s}.jobs j WHERE j.client = $1 AND j.state = 'ready' AND j.due_at <= $2 ORDER BY j.due_at LIMIT $3`
	q.dueHeld = q.due + " FOR NO KEY UPDATE SKIP LOCKED"
	q.nextDue = `SELECT due_at FROM {s}.jobs WHERE client = $1 AND state = 'ready' ORDER BY due_at LIMIT 1`
	q.wake = `WITH w AS (SELECT j.flow, j.key FROM ` + of("client", "entity", "key") + `
		JOIN {s}.jobs j ON j.client = k.client AND j.wait_entity = k.entity AND j.wait_entity <> '' AND j.wait_key = k.key
		WHERE j.state = 'ready' ORDER BY j.flow, j.key FOR NO KEY UPDATE OF j)
		UPDATE {s}.jobs j SET due_at = $4 FROM w WHERE j.flow = w.flow AND j.key = w.key`
	q.counts = `SELECT flow, state, reason, last_class, count(*), min(open_since), min(due_at) FILTER (WHERE due_at > '-infinity'),
		count(*) FILTER (WHERE state = 'ready' AND due_at <= $1), count(unresolved_at)
		FROM {s}.jobs GROUP BY flow, state, reason, last_class ORDER BY flow, state, reason, last_class`
	q.meta = `SELECT name, value FROM {s}.meta UNION ALL SELECT 'schema', max(version_id)::text FROM {s}.` + versionTable
}

func (q *queries) overFlows() {
	const flow = `SELECT flow, cursor, epoch, page_starts, suspect, moved_at, read_at FROM {s}.cursors`
	q.flows = flow + ` ORDER BY flow`
	q.flow = flow + ` WHERE flow = $1`
	q.flowHeld = q.flow + ` FOR NO KEY UPDATE`
	q.flowMake = `INSERT INTO {s}.cursors (flow, epoch, page_starts, suspect) VALUES ($1, 0, 0, '') ON CONFLICT DO NOTHING`
	q.flowSave = `INSERT INTO {s}.cursors (flow, cursor, epoch, page_starts, suspect, moved_at, read_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (flow) DO UPDATE SET cursor = excluded.cursor, epoch = excluded.epoch, page_starts = excluded.page_starts,
		suspect = excluded.suspect, moved_at = excluded.moved_at, read_at = excluded.read_at`
	q.sources = `SELECT s.id, s.epoch, s.version, s.observed, s.gone, s.keys FROM ` + of("flow", "id") + `
		JOIN {s}.sources s ON s.flow = k.flow AND s.id = k.id`
	q.sourcesPut = `INSERT INTO {s}.sources (flow, id, epoch, version, observed, gone, keys)
		SELECT $1, * FROM unnest($2::text[], $3::int8[], $4::int8[], $5::timestamptz[], $6::bool[], $7::text[])
		ON CONFLICT (flow, id) DO UPDATE SET epoch = excluded.epoch, version = excluded.version,
		observed = excluded.observed, gone = excluded.gone, keys = excluded.keys`
	q.contenders = `SELECT c.flow, c.key, c.source_id, c.epoch, c.version, c.observed, c.changed_at, c.hash, c.body, c.since
		FROM ` + of("flow", "key") + ` JOIN {s}.contenders c ON c.flow = k.flow AND c.key = k.key ORDER BY c.since NULLS FIRST, c.key, c.source_id`
	q.contenderPut = `INSERT INTO {s}.contenders (flow, key, source_id, epoch, version, observed, changed_at, hash, body, since)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (flow, key, source_id) DO UPDATE SET epoch = excluded.epoch,
		version = excluded.version, observed = excluded.observed, changed_at = excluded.changed_at, hash = excluded.hash,
		body = excluded.body, since = excluded.since`
	q.contenderDelete = `DELETE FROM {s}.contenders WHERE flow = $1 AND key = $2 AND source_id = $3`
	q.contendersCount = `SELECT flow, count(*) FROM {s}.contenders GROUP BY flow`
}

func (q *queries) overClients() {
	q.claimAdd = `INSERT INTO {s}.claims (id, client, owner, at, open, jobs) VALUES ($1, $2, $3, $4, $5, $6)`
	q.claims = `SELECT id, client, owner, at, open, jobs FROM {s}.claims`
	q.claimReduce = `UPDATE {s}.claims SET open = open - $3 WHERE id = $1 AND owner = $2`
	q.claimEnd = `DELETE FROM {s}.claims WHERE id = $1 AND owner = $2 AND open <= 0`
	q.links = `SELECT l.entity, l.key, l.link, l.seen_at FROM ` + of("client", "entity", "key") + `
		JOIN {s}.links l ON l.client = k.client AND l.entity = k.entity AND l.key = k.key`
	q.linksPut = `INSERT INTO {s}.links AS l (client, entity, key, link, seen_at)
		SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[])
		ON CONFLICT (client, entity, key) DO UPDATE SET link = excluded.link, seen_at = excluded.seen_at WHERE l.link <> excluded.link`
	q.linksDelete = `DELETE FROM {s}.links l USING ` + of("client", "entity", "key") + `
		WHERE l.client = k.client AND l.entity = k.entity AND l.key = k.key`
	q.attemptsAdd = `INSERT INTO {s}.attempts (flow, key, number, generation, at, class, code, message)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::timestamptz[], $6::text[], $7::text[], $8::text[])`
	q.attempts = `SELECT number, generation, at, class, code, message FROM {s}.attempts WHERE flow = $1 AND key = $2 ORDER BY id DESC LIMIT $3`
	q.requestsAdd = `INSERT INTO {s}.requests (client, flow, source_id, kind, key, at, due_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
		ON CONFLICT (flow, source_id, kind, key) DO NOTHING`
	q.requests = `SELECT id, client, flow, source_id, kind, key, at, due_at FROM {s}.requests WHERE client = $1 AND due_at <= $2 ORDER BY at, id LIMIT $3`
	q.requestPostpone = `UPDATE {s}.requests SET due_at = $2 WHERE id = $1`
	q.requestsDelete = `DELETE FROM {s}.requests WHERE id = ANY ($1::int8[])`
	q.clients = `SELECT client, paused_until, reason, evidence, since, strikes, owner, seen_at FROM {s}.clients ORDER BY client`
	q.clientPut = `INSERT INTO {s}.clients (client, paused_until, reason, evidence, since, strikes, owner, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (client) DO UPDATE SET paused_until = excluded.paused_until,
		reason = excluded.reason, evidence = excluded.evidence, since = excluded.since, strikes = excluded.strikes,
		owner = excluded.owner, seen_at = excluded.seen_at`
}

// overLease: a transaction that writes holds the lease's row with the weakest of
// locks, which a renewal does not mind and a takeover waits for.
func (q *queries) overLease() {
	const mine = ` WHERE name = 'journal' AND token = $1`
	q.leaseLook = `SELECT host, boot_id, pid_space, pid, started, token, since, expires_at, expires_at <= clock_timestamp()
		FROM {s}.daemons WHERE name = 'journal' FOR UPDATE`
	q.leaseTake = `UPDATE {s}.daemons SET token = $1, host = $2, boot_id = $3, pid_space = $4, pid = $5, started = $6,
		since = clock_timestamp(), renewed_at = clock_timestamp(), expires_at = clock_timestamp() + $7::interval WHERE name = 'journal'`
	q.leaseRenew = `UPDATE {s}.daemons SET renewed_at = clock_timestamp(), expires_at = clock_timestamp() + $2::interval` + mine
	q.leaseRelease = `UPDATE {s}.daemons SET token = '', expires_at = 'epoch'` + mine
	q.leaseHold = `SELECT 1 FROM {s}.daemons` + mine + ` FOR KEY SHARE`
}
