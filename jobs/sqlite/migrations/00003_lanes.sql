ALTER TABLE jobs ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN grp TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN key_epoch INTEGER NOT NULL DEFAULT 0;

-- The flow comes last, so that the ready rows of one are counted without a look at
-- any of them.
DROP INDEX jobs_due;
CREATE INDEX jobs_due ON jobs (client, shard, due_at, flow) WHERE state = 'ready';
-- The heads of groups. The state comes last, so that those passed over are not read.
CREATE INDEX jobs_heads ON jobs (flow, grp, desired_epoch, desired_version, desired_observed, key, state)
  WHERE grp <> '' AND state <> 'done';

-- What is rarely there, as JSON; '' for nothing.
ALTER TABLE cursors ADD COLUMN more TEXT NOT NULL DEFAULT '';
ALTER TABLE clients ADD COLUMN more TEXT NOT NULL DEFAULT '';

ALTER TABLE claims ADD COLUMN shard INTEGER NOT NULL DEFAULT 0;

-- token is '' while nobody has the lane.
CREATE TABLE leases (
  client TEXT    NOT NULL,
  shard  INTEGER NOT NULL,
  owner  TEXT    NOT NULL,
  token  TEXT    NOT NULL,
  since  INTEGER,
  until  INTEGER,
  PRIMARY KEY (client, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE daemons (
  owner   TEXT PRIMARY KEY,
  process TEXT    NOT NULL,
  since   INTEGER,
  until   INTEGER,
  lanes   TEXT    NOT NULL,
  leaving INTEGER NOT NULL CHECK (leaving IN (0, 1))
) STRICT, WITHOUT ROWID;

CREATE TABLE idempotency_keys (
  flow          TEXT    NOT NULL,
  key           TEXT    NOT NULL,
  operation     TEXT    NOT NULL,
  epoch         INTEGER NOT NULL,
  sent_key      TEXT    NOT NULL,
  body          BLOB,
  generation    INTEGER NOT NULL,
  hash          BLOB,
  first_sent_at INTEGER,
  PRIMARY KEY (flow, key, operation)
) STRICT;

CREATE TABLE groups (
  flow     TEXT    NOT NULL,
  name     TEXT    NOT NULL,
  epoch    INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  observed INTEGER,
  sent_key TEXT    NOT NULL,
  PRIMARY KEY (flow, name)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT, so that the number of an errand never names another one.
CREATE TABLE runs (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  kind       TEXT    NOT NULL,
  flow       TEXT    NOT NULL,
  client     TEXT    NOT NULL,
  settings   TEXT,
  total      INTEGER NOT NULL,
  done       INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
  after_flow TEXT    NOT NULL,
  after_key  TEXT    NOT NULL,
  at         INTEGER,
  ended_at   INTEGER,
  asked_by   TEXT    NOT NULL,
  why        TEXT    NOT NULL,
  message    TEXT    NOT NULL
) STRICT;

CREATE INDEX runs_open ON runs (id) WHERE ended_at IS NULL;
