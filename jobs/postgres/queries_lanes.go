package postgres

// overLeases: a transaction of a lane that writes holds the row of the lane's lease
// with the weakest of locks, which a renewal does not mind and a takeover waits for.
func (q *queries) overLeases() {
	const lane, mine = ` WHERE client = $1 AND shard = $2`, ` WHERE client = $1 AND shard = $2 AND token = $3`
	q.leases = `SELECT client, shard, owner, token, since, expires_at, expires_at <= clock_timestamp() FROM {s}.leases`
	q.leaseWait = `SET LOCAL lock_timeout = '` + leaseWait + `'`
	q.patient = `SET LOCAL lock_timeout = '` + lockTimeout + `'`
	q.leaseFirst = `INSERT INTO {s}.leases (client, shard, owner, token, since, expires_at)
		SELECT $1, $2, $3, $4, clock_timestamp(), clock_timestamp() + $6::interval WHERE $5::text = '' ON CONFLICT DO NOTHING`
	q.leaseLock = `SELECT 1 FROM {s}.leases` + mine + ` FOR UPDATE`
	q.leaseTake = `UPDATE {s}.leases SET owner = $4, token = $5, since = clock_timestamp(), expires_at = clock_timestamp() + $6::interval` + mine +
		` AND ($7::timestamptz IS NULL OR expires_at = $7)`
	q.leaseRenew = `UPDATE {s}.leases SET expires_at = clock_timestamp() + $2::interval WHERE token = ANY ($1::text[]) AND token <> '' RETURNING token`
	q.leaseFree = `UPDATE {s}.leases SET owner = '', token = '', expires_at = clock_timestamp()` + mine + ` AND token <> ''`
	q.leaseHold = `SELECT 1 FROM {s}.leases` + mine + ` FOR KEY SHARE`
	q.leaseCheck = `SELECT 1 FROM {s}.leases` + mine
	q.members = `SELECT owner, process, since, expires_at, expires_at <= clock_timestamp(), lanes, leaving FROM {s}.members ORDER BY owner`
	q.memberPut = `INSERT INTO {s}.members (owner, process, since, expires_at, lanes, leaving)
		VALUES ($1, $2, $3, clock_timestamp() + $4::interval, $5, $6) ON CONFLICT (owner) DO UPDATE SET process = excluded.process,
		since = excluded.since, expires_at = excluded.expires_at, lanes = excluded.lanes, leaving = excluded.leaving`
	q.memberDelete = `DELETE FROM {s}.members WHERE owner = $1`

	// The row by which one daemon of an older version has the whole journal.
	q.leaseLook = `SELECT host, boot_id, pid_space, pid, started, token, since, expires_at, expires_at <= clock_timestamp()
		FROM {s}.daemons WHERE name = 'journal'`
	q.leaseClose = `UPDATE {s}.daemons SET token = 'newer', host = 'any (daemons of a newer version share the journal)', boot_id = '', pid_space = '',
		pid = 0, started = 0, since = clock_timestamp(), renewed_at = clock_timestamp(), expires_at = 'infinity' WHERE name = 'journal'`
}

func (q *queries) overGroups() {
	const group = "flow, name, epoch, version, observed, sent_key"
	q.groups = "SELECT x.* " + found(group, "{s}.groups", "x.flow = $1 AND x.name = k.name", "", 2, "name")
	q.groupsPut = `INSERT INTO {s}.groups (` + group + `) SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::timestamptz[], $6::text[])
		ON CONFLICT (flow, name) DO UPDATE SET epoch = excluded.epoch, version = excluded.version, observed = excluded.observed, sent_key = excluded.sent_key`
	q.listGroups = "SELECT " + group + ` FROM {s}.groups WHERE flow = $1 AND name > $2 ORDER BY name LIMIT $3`
	const byKey = "x.flow = k.flow AND x.key = k.key"
	const pin = "flow, key, operation, epoch, name, body, generation, hash, first_sent_at"
	q.pins = "SELECT x.* " + found(pin, "{s}.idempotency_keys", byKey, "", 1, "flow", "key")
	q.pinsPut = `INSERT INTO {s}.idempotency_keys (` + pin + `) SELECT * FROM
		unnest($1::text[], $2::text[], $3::text[], $4::int8[], $5::text[], $6::bytea[], $7::int8[], $8::bytea[], $9::timestamptz[])
		ON CONFLICT (flow, key, operation) DO UPDATE SET epoch = excluded.epoch, name = excluded.name, body = excluded.body,
		generation = excluded.generation, hash = excluded.hash, first_sent_at = excluded.first_sent_at`
	q.pinsDelete = "DELETE FROM {s}.idempotency_keys WHERE " + theRows(found("ctid", "{s}.idempotency_keys", byKey, " FOR UPDATE", 1, "flow", "key"))
	q.listPins = "SELECT " + pin + ` FROM {s}.idempotency_keys WHERE (flow, key, operation) > ($1, $2, $3) ORDER BY flow, key, operation LIMIT $4`
}

func (q *queries) overRuns() {
	const run = "kind, flow, client, settings, total, done, failed, after_flow, after_key, at, ended_at, asked_by, why, message"
	q.runAdd = `INSERT INTO {s}.runs (` + run + `) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING id`
	q.runPut = `UPDATE {s}.runs SET (` + run + `) = ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) WHERE id = $15`
	q.runs = `SELECT id, ` + run + ` FROM {s}.runs ORDER BY id DESC LIMIT $1`
	q.runsOpen = `SELECT id, ` + run + ` FROM {s}.runs WHERE ended_at IS NULL ORDER BY id DESC LIMIT $1`
	q.runFlows = `SELECT DISTINCT flow FROM {s}.runs WHERE ended_at IS NULL AND kind = $1`
	q.runsDelete = `DELETE FROM {s}.runs WHERE id = ANY ($1::int8[])`
}

// overWalks: all that the journal remembers beside its rows, piece by piece.
func (q *queries) overWalks() {
	q.listSources = `SELECT id, epoch, version, observed, gone, keys FROM {s}.sources WHERE flow = $1 AND id > $2 ORDER BY id LIMIT $3`
	q.listLinks = `SELECT entity, key, link, seen_at FROM {s}.links WHERE client = $1 AND (entity, key) > ($2, $3) ORDER BY entity, key LIMIT $4`
	q.listAttempts = `SELECT id, flow, key, number, generation, at, class, code, message FROM {s}.attempts WHERE id > $1 ORDER BY id LIMIT $2`
	q.listRequests = `SELECT id, client, flow, source_id, kind, key, at, due_at FROM {s}.requests WHERE id > $1 ORDER BY id LIMIT $2`
	// From each client's first link straight to the next client's.
	q.linkClients = `WITH RECURSIVE c AS ((SELECT client FROM {s}.links ORDER BY client LIMIT 1)
		UNION ALL SELECT (SELECT l.client FROM {s}.links l WHERE l.client > c.client ORDER BY l.client LIMIT 1) FROM c WHERE c.client IS NOT NULL)
		SELECT client FROM c WHERE client IS NOT NULL`
}
