package postgres

import (
	"fmt"
	"strings"

	"syncd/jobs/internal/stored"
)

// queries are the statements, with the schema's name in them. Each takes a batch
// as arrays. Constants in the predicates of partial indexes are written out: as
// parameters they would be lost to the planner once it makes a generic plan.
type queries struct {
	columns                     string // a select list over jobs j
	jobs                        string // the table
	rows, rowsHeld, bodies      string
	put, add                    []string // for each of shapes; add is for rows that are not there
	patch, close                string
	putBody, addBody, dropBody  string
	due, dueHeld, nextDue, wake string

	flow, flowHeld, flowMake, flowSave, flows string
	sources, sourcesPut, sourcesAdd           string
	contenders, contenderPut, contenderDelete string
	contendersCount, contended, bodied        string
	claimAdd, claims, claimReduce, claimEnd   string
	links, linksPut, linksDelete              string
	attemptsAdd, attempts                     string
	requestsAdd, requests, requestPostpone    string
	requestsDelete, asked, clients            string
	pausePut, expiryHoldPut                   string
	counts, destinations, meta, metaPut       string

	place, countReady, heads, rowsOf, rowsNext, rowsEnd  string
	groups, groupsPut, pins, pinsPut, pinsDelete         string
	attemptsOld, attemptsPrune, attemptsDelete           string
	runAdd, runPut, runs, runsOpen, runFlows, runsDelete string
	listSources, listContenders, listLinks, listGroups   string
	listPins, listAttempts, listRequests, linkClients    string

	leaseLook, leaseClose                                 string
	leases, leaseWait, leaseFirst, leaseLock, leaseTake   string
	leaseRenew, leaseFree, leaseHold, leaseCheck, patient string
	members, memberPut, memberDelete                      string
}

func newQueries(schema string) *queries {
	q := &queries{}
	q.overRows()
	q.overFlows()
	q.overClients()
	q.overGroups()
	q.overRuns()
	q.overWalks()
	q.overLeases()
	for _, s := range q.all() {
		*s = strings.ReplaceAll(*s, "{s}", schema)
	}
	return q
}

func (q *queries) all() []*string {
	var puts []*string
	for i := range q.put {
		puts = append(puts, &q.put[i], &q.add[i])
	}
	return append(puts, []*string{&q.jobs, &q.rows, &q.rowsHeld, &q.bodies, &q.patch, &q.close, &q.putBody, &q.addBody, &q.dropBody, &q.due, &q.dueHeld, &q.nextDue, &q.wake,
		&q.flow, &q.flowHeld, &q.flowMake, &q.flowSave, &q.flows, &q.sources, &q.sourcesPut, &q.sourcesAdd,
		&q.contenders, &q.contenderPut, &q.contenderDelete, &q.contendersCount, &q.contended, &q.bodied,
		&q.claimAdd, &q.claims, &q.claimReduce, &q.claimEnd, &q.links, &q.linksPut, &q.linksDelete,
		&q.attemptsAdd, &q.attempts, &q.requestsAdd, &q.requests, &q.requestPostpone, &q.requestsDelete, &q.asked,
		&q.clients, &q.pausePut, &q.expiryHoldPut, &q.counts, &q.destinations, &q.meta, &q.metaPut,
		&q.place, &q.countReady, &q.heads, &q.rowsOf, &q.rowsNext, &q.rowsEnd, &q.groups, &q.groupsPut, &q.pins, &q.pinsPut, &q.pinsDelete, &q.attemptsOld, &q.attemptsPrune, &q.attemptsDelete,
		&q.runAdd, &q.runPut, &q.runs, &q.runsOpen, &q.runFlows, &q.runsDelete,
		&q.listSources, &q.listContenders, &q.listLinks, &q.listGroups, &q.listPins, &q.listAttempts, &q.listRequests, &q.linkClients,
		&q.leaseLook, &q.leaseClose, &q.leases, &q.leaseWait, &q.leaseFirst, &q.leaseLock, &q.leaseTake,
		&q.leaseRenew, &q.leaseFree, &q.leaseHold, &q.leaseCheck, &q.patient, &q.members, &q.memberPut, &q.memberDelete}...)
}

// found is a FROM clause: the rows x of a table for a batch of keys, each looked up
// by itself. match compares columns of x with those of the batch k, columns of
// which are arrays from parameter $first on; then is what follows the look-up.
//
// Written as a join, the planner would, while it believes the table to be small,
// read all of it for a look-up of a few, and keep to that plan while the table
// grows. OFFSET 0 leaves it no choice but the index that match is made for.
func found(columns, table, match, then string, first int, batch ...string) string {
	arrays := make([]string, len(batch))
	for i := range batch {
		arrays[i] = fmt.Sprintf("$%d::text[]", first+i)
	}
	return "FROM unnest(" + strings.Join(arrays, ", ") + ") AS k (" + strings.Join(batch, ", ") + ") CROSS JOIN LATERAL (SELECT " + columns +
		" FROM " + table + " x WHERE " + match + " OFFSET 0" + then + ") AS x"
}

// theRows is a condition: that a row is one of those found, which are held, so
// that its place stays where it was seen.
func theRows(from string) string { return "ctid = ANY (ARRAY(SELECT x.ctid " + from + "))" }

// held is the lock of a row that is to be changed.
const held = " FOR NO KEY UPDATE"

func (q *queries) overRows() {
	var names, selects, excluded []string
	for i, c := range rowColumns {
		names = append(names, c.name)
		selects = append(selects, "j."+c.name)
		if i > 1 {
			excluded = append(excluded, c.name+" = excluded."+c.name)
		}
	}
	list := strings.Join(names, ", ")
	const byKey = "x.flow = k.flow AND x.key = k.key"
	q.jobs, q.contended, q.bodied = "{s}.jobs", "{s}.contenders", "{s}.bodies"
	q.columns = strings.Join(selects, ", ")
	q.rows = "SELECT x.* " + found(list, "{s}.jobs", byKey, "", 1, "flow", "key")
	q.rowsHeld = "SELECT x.* " + found(list, "{s}.jobs", byKey, held, 1, "flow", "key")
	q.bodies = "SELECT x.* " + found("flow, key, body", "{s}.bodies", byKey, "", 1, "flow", "key")
	// Row by row of each group's own part of the index.
	q.heads = "SELECT x.* FROM unnest($2::text[]) AS k (grp) CROSS JOIN LATERAL (SELECT " + list + ` FROM {s}.jobs x WHERE x.flow = $1 AND x.grp = k.grp
		AND x.grp <> '' AND x.state <> 'done' AND x.state <> ALL ($3::text[])
		ORDER BY x.desired_epoch, x.desired_version, x.desired_observed NULLS FIRST, x.key LIMIT 1) AS x`
	replace := " ON CONFLICT (flow, key) DO UPDATE SET " + strings.Join(excluded, ", ")
	for _, sh := range shapes {
		values, from := sh.source()
		add := "INSERT INTO {s}.jobs (" + list + ") SELECT " + values + " FROM " + from
		q.add, q.put = append(q.add, add), append(q.put, add+replace)
	}
	// Of rows that are there the conflict finds each by its key, as no join is sure to.
	values, from := shape(rowColumns).source()
	q.patch = "INSERT INTO {s}.jobs (" + list + ") SELECT " + values + " FROM " + from +
		" CROSS JOIN LATERAL (SELECT 1 FROM {s}.jobs x WHERE x.flow = v.flow AND x.key = v.key OFFSET 0) AS x" + replace
	// Which rows fit is asked of those that are held already, as they are then. Their
	// columns have the names that they have here.
	q.close = `UPDATE {s}.jobs SET state = 'done', reason = '', attempt = attempt + 1, streak = 0, solo = false, misses = 0, miss_code = '',
		applied_generation = generation, applied_hash = hash, applied_gone = false, applied_at = $3, open_since = NULL, due_at = '-infinity',
		last_class = $2, last_code = '', last_message = '', last_at = $3 WHERE ctid = ANY (ARRAY(SELECT x.ctid
		FROM unnest($4::text[], $5::text[], $6::int8[], $7::int8[]) AS k (flow, key, generation, attempt) CROSS JOIN LATERAL (
			SELECT ctid, client, generation, attempt, state, gone, unresolved_at, last_class, grp, wait_entity, wait_key, renamed_from
			FROM {s}.jobs x WHERE ` + byKey + ` OFFSET 0` + held + `) AS x
		WHERE x.client = $1 AND x.generation = k.generation AND x.attempt = k.attempt AND x.state = 'ready' AND NOT x.gone
		AND x.unresolved_at IS NULL AND x.last_class IN (` + stored.QuietClasses() + `)
		AND x.grp = '' AND x.wait_entity = '' AND x.wait_key = '' AND x.renamed_from = '')) RETURNING flow, key`
	q.addBody = `INSERT INTO {s}.bodies (flow, key, body) SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[])`
	q.putBody = q.addBody + ` ON CONFLICT (flow, key) DO UPDATE SET body = excluded.body`
	q.dropBody = "DELETE FROM {s}.bodies WHERE " + theRows(found("ctid", "{s}.bodies", byKey, " FOR UPDATE", 1, "flow", "key"))
	q.due = "SELECT " + q.columns + ` FROM {s}.jobs j WHERE j.client = $1 AND j.shard = $5 AND j.state = 'ready' AND j.due_at <= $2 AND j.due_at >= $4
		ORDER BY j.due_at LIMIT $3`
	q.dueHeld = q.due + held + " SKIP LOCKED"
	q.nextDue = `SELECT k.n, x.due_at FROM unnest($1::text[], $2::timestamptz[], $3::int4[]) WITH ORDINALITY AS k (client, since, shard, n) CROSS JOIN LATERAL
		(SELECT due_at FROM {s}.jobs WHERE client = k.client AND shard = k.shard AND state = 'ready' AND due_at >= k.since ORDER BY due_at LIMIT 1) AS x`
	// Rows that are held by now and ready.
	q.place = "UPDATE {s}.jobs SET shard = $1 WHERE " + theRows(found("ctid", "{s}.jobs", byKey, held, 2, "flow", "key"))
	q.rowsOf = `DECLARE ready NO SCROLL CURSOR FOR SELECT flow, key, entity, shard FROM {s}.jobs WHERE client = $1 AND state = 'ready' ORDER BY shard, due_at`
	q.rowsNext = fmt.Sprintf(`FETCH %d FROM ready`, reshardPage)
	q.rowsEnd = `CLOSE ready`
	q.countReady = `SELECT count(*) FROM (SELECT 1 FROM {s}.jobs WHERE flow || '' = $1 AND state = 'ready' LIMIT $2) AS x`
	// The state is compared in a way that no index serves: the one over ready rows
	// would look as good, to the planner, as the one over waiting rows. Each applied
	// record asks, and hardly ever does anything wait, so that is looked at first.
	q.wake = "UPDATE {s}.jobs SET due_at = $2 WHERE state || '' = 'ready' AND " + theRows(found("ctid", "{s}.jobs",
		"x.client = $1 AND x.wait_entity = k.entity AND x.wait_entity <> '' AND x.wait_key = k.key", held, 3, "entity", "key")+
		" WHERE EXISTS (SELECT 1 FROM {s}.jobs w WHERE w.client = $1 AND w.wait_entity <> '')")
	q.counts = `SELECT flow, state, reason, CASE WHEN state = 'done' AND reason = '' THEN '' ELSE last_class END, count(*),
		min(open_since) FILTER (WHERE state <> 'done'), min(due_at) FILTER (WHERE state <> 'done' AND due_at > '-infinity'),
		count(*) FILTER (WHERE state = 'ready' AND due_at <= $1), count(unresolved_at) FROM {s}.jobs GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`
	q.metaPut = `INSERT INTO {s}.meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`
	q.destinations = `SELECT DISTINCT client, entity FROM {s}.jobs WHERE flow = $1 ORDER BY client, entity`
	q.meta = `SELECT name, value FROM {s}.meta UNION ALL SELECT 'schema', max(version_id)::text FROM {s}.` + versionTable
}

func (q *queries) overFlows() {
	const flow = `SELECT flow, cursor, epoch, page_starts, suspect, moved_at, read_at,
		failing_since, fail_class, fail_code, fail_message, more FROM {s}.cursors`
	q.flows = flow + ` ORDER BY flow`
	q.flow = flow + ` WHERE flow = $1`
	q.flowHeld = q.flow + ` FOR NO KEY UPDATE`
	q.flowMake = `INSERT INTO {s}.cursors (flow, epoch, page_starts, suspect) VALUES ($1, 0, 0, '') ON CONFLICT DO NOTHING`
	q.flowSave = `INSERT INTO {s}.cursors (flow, cursor, epoch, page_starts, suspect, moved_at, read_at,
		failing_since, fail_class, fail_code, fail_message, more) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
		ON CONFLICT (flow) DO UPDATE SET cursor = excluded.cursor, epoch = excluded.epoch, page_starts = excluded.page_starts,
		suspect = excluded.suspect, moved_at = excluded.moved_at, read_at = excluded.read_at, failing_since = excluded.failing_since,
		fail_class = excluded.fail_class, fail_code = excluded.fail_code, fail_message = excluded.fail_message, more = excluded.more`
	q.sources = "SELECT x.* " + found("id, epoch, version, observed, gone, keys", "{s}.sources", "x.flow = $1 AND x.id = k.id", "", 2, "id")
	q.sourcesAdd = `INSERT INTO {s}.sources (flow, id, epoch, version, observed, gone, keys)
		SELECT $1, * FROM unnest($2::text[], $3::int8[], $4::int8[], $5::timestamptz[], $6::bool[], $7::text[])`
	q.sourcesPut = q.sourcesAdd + ` ON CONFLICT (flow, id) DO UPDATE SET epoch = excluded.epoch, version = excluded.version,
		observed = excluded.observed, gone = excluded.gone, keys = excluded.keys`
	const contender = "flow, key, source_id, epoch, version, observed, changed_at, hash, body, since"
	q.listContenders = "SELECT " + contender + ` FROM {s}.contenders WHERE flow = $1 AND (key, source_id) > ($2, $3) ORDER BY key, source_id LIMIT $4`
	q.contenders = "SELECT x.* " + found(contender, "{s}.contenders",
		"x.flow = $1 AND x.key = k.key", "", 2, "key") + " ORDER BY x.since NULLS FIRST, x.key, x.source_id"
	q.contenderPut = `INSERT INTO {s}.contenders (flow, key, source_id, epoch, version, observed, changed_at, hash, body, since)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT (flow, key, source_id) DO UPDATE SET epoch = excluded.epoch,
		version = excluded.version, observed = excluded.observed, changed_at = excluded.changed_at, hash = excluded.hash,
		body = excluded.body, since = excluded.since`
	q.contenderDelete = `DELETE FROM {s}.contenders WHERE flow = $1 AND key = $2 AND source_id = $3`
	q.contendersCount = `SELECT flow, count(*) FROM {s}.contenders GROUP BY flow`
}

func (q *queries) overClients() {
	q.claimAdd = `INSERT INTO {s}.claims (id, client, owner, at, open, jobs, shard) VALUES ($1, $2, $3, $4, $5, $6, $7)`
	q.claims = `SELECT id, client, owner, at, open, jobs, shard FROM {s}.claims`
	q.claimReduce = `UPDATE {s}.claims SET open = open - $3 WHERE id = $1 AND owner = $2`
	q.claimEnd = `DELETE FROM {s}.claims WHERE id = $1 AND owner = $2 AND open <= 0`
	const byEntity = "x.client = $1 AND x.entity = k.entity AND x.key = k.key"
	q.links = "SELECT x.* " + found("entity, key, link, seen_at", "{s}.links", byEntity, "", 2, "entity", "key")
	q.linksPut = `INSERT INTO {s}.links AS l (client, entity, key, link, seen_at)
		SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::timestamptz[])
		ON CONFLICT (client, entity, key) DO UPDATE SET link = excluded.link, seen_at = excluded.seen_at WHERE l.link <> excluded.link`
	q.linksDelete = "DELETE FROM {s}.links WHERE " + theRows(found("ctid", "{s}.links", byEntity, " FOR UPDATE", 2, "entity", "key"))
	q.attemptsAdd = `INSERT INTO {s}.attempts (flow, key, number, generation, at, class, code, message)
		SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::timestamptz[], $6::text[], $7::text[], $8::text[])`
	// Ordered by a sum, so that the index over ids alone looks useless.
	q.attempts = `SELECT number, generation, at, class, code, message FROM {s}.attempts WHERE flow = $1 AND key = $2 ORDER BY id + 0 DESC LIMIT $3`
	const oldest = `(SELECT id, flow, key, at FROM {s}.attempts WHERE id > $1 ORDER BY id LIMIT $3) o WHERE (o.at IS NULL OR o.at < $2)`
	q.attemptsOld = `SELECT coalesce(max(id), $1) FROM ` + oldest
	// One look-up for each, whatever the planner believes of the tables.
	q.attemptsPrune = `DELETE FROM {s}.attempts WHERE id = ANY (ARRAY(SELECT o.id FROM ` + oldest + `
		AND (SELECT j.unresolved_at IS NOT NULL OR j.renamed_from <> '' FROM {s}.jobs j WHERE j.flow = o.flow AND j.key = o.key) IS NOT TRUE))`
	q.attemptsDelete = "DELETE FROM {s}.attempts WHERE " + theRows(found("ctid", "{s}.attempts", "x.flow = k.flow AND x.key = k.key", " FOR UPDATE", 1, "flow", "key"))
	q.requestsAdd = `INSERT INTO {s}.requests (client, flow, source_id, kind, key, at, due_at)
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::timestamptz[])
		ON CONFLICT (flow, source_id, kind, key) DO NOTHING`
	q.requests = `SELECT id, client, flow, source_id, kind, key, at, due_at FROM {s}.requests WHERE client = $1 AND due_at <= $2 ORDER BY at, id LIMIT $3`
	q.asked = `SELECT k.client FROM unnest($1::text[]) AS k (client) CROSS JOIN LATERAL
		(SELECT 1 FROM {s}.requests WHERE client = k.client AND due_at <= $2 ORDER BY at, id LIMIT 1) AS x`
	q.requestPostpone = `UPDATE {s}.requests SET due_at = $2 WHERE id = $1`
	q.requestsDelete = `DELETE FROM {s}.requests WHERE id = ANY ($1::int8[])`
	q.clients = `SELECT client, paused_until, reason, evidence, since, strikes, owner, seen_at, more FROM {s}.clients ORDER BY client`
	q.pausePut = `INSERT INTO {s}.clients (client, paused_until, reason, evidence, since, strikes, owner, seen_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (client) DO UPDATE SET paused_until = excluded.paused_until,
		reason = excluded.reason, evidence = excluded.evidence, since = excluded.since, strikes = excluded.strikes,
		owner = excluded.owner, seen_at = excluded.seen_at`
	q.expiryHoldPut = `INSERT INTO {s}.clients (client, reason, evidence, strikes, owner, more) VALUES ($1, '', '', 0, '', $2)
		ON CONFLICT (client) DO UPDATE SET more = excluded.more`
}
