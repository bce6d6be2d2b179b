-- Times are microseconds since 1970, UTC; NULL is "never". due_at is never NULL,
-- so that one index holds all open rows in their order.

CREATE TABLE meta (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE jobs (
  id                 INTEGER PRIMARY KEY,
  flow               TEXT    NOT NULL,
  key                TEXT    NOT NULL,
  client             TEXT    NOT NULL,
  entity             TEXT    NOT NULL,
  source_id          TEXT    NOT NULL,
  state              TEXT    NOT NULL CHECK (state IN ('ready', 'done', 'dead', 'held')),
  reason             TEXT    NOT NULL,
  generation         INTEGER NOT NULL,
  desired_epoch      INTEGER NOT NULL,
  desired_version    INTEGER NOT NULL,
  desired_observed   INTEGER,
  changed_at         INTEGER,
  read_at            INTEGER,
  hash               BLOB,
  gone               INTEGER NOT NULL CHECK (gone IN (0, 1)),
  attempt            INTEGER NOT NULL,
  tries              INTEGER NOT NULL,
  streak             INTEGER NOT NULL,
  first_try_at       INTEGER,
  applied_generation INTEGER NOT NULL,
  applied_hash       BLOB,
  applied_gone       INTEGER NOT NULL CHECK (applied_gone IN (0, 1)),
  applied_at         INTEGER,
  unresolved_at      INTEGER,
  misses             INTEGER NOT NULL,
  miss_code          TEXT    NOT NULL,
  open_since         INTEGER,
  due_at             INTEGER NOT NULL,
  solo               INTEGER NOT NULL CHECK (solo IN (0, 1)),
  last_class         TEXT    NOT NULL,
  last_code          TEXT    NOT NULL,
  last_message       TEXT    NOT NULL,
  last_at            INTEGER,
  wait_entity        TEXT    NOT NULL,
  wait_key           TEXT    NOT NULL,
  renamed_from       TEXT    NOT NULL,
  UNIQUE (flow, key)
) STRICT;

CREATE INDEX jobs_due ON jobs (client, due_at) WHERE state = 'ready';
CREATE INDEX jobs_waiting ON jobs (client, wait_entity, wait_key) WHERE wait_entity <> '';
-- What people ask for is found without reading the done rows.
CREATE INDEX jobs_stuck ON jobs (flow, key) WHERE state IN ('dead', 'held');
CREATE INDEX jobs_unresolved ON jobs (flow, key) WHERE unresolved_at IS NOT NULL;
-- Done rows that need telling apart when rows are counted; most have no reason.
CREATE INDEX jobs_closed ON jobs (flow, reason, last_class) WHERE state = 'done' AND reason <> '';

-- Bodies stand apart, so that settling a job does not write its body again.
CREATE TABLE bodies (
  id   INTEGER PRIMARY KEY,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE sources (
  flow     TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  epoch    INTEGER NOT NULL,
  version  INTEGER NOT NULL,
  observed INTEGER,
  gone     INTEGER NOT NULL CHECK (gone IN (0, 1)),
  keys     TEXT    NOT NULL,
  PRIMARY KEY (flow, id)
) STRICT, WITHOUT ROWID;

CREATE TABLE contenders (
  flow       TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  source_id  TEXT    NOT NULL,
  epoch      INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  observed   INTEGER,
  changed_at INTEGER,
  hash       BLOB,
  body       BLOB,
  since      INTEGER,
  PRIMARY KEY (flow, key, source_id)
) STRICT;

CREATE TABLE cursors (
  flow        TEXT PRIMARY KEY,
  cursor      TEXT,
  epoch       INTEGER NOT NULL,
  page_starts INTEGER NOT NULL,
  suspect     TEXT    NOT NULL,
  moved_at    INTEGER,
  read_at     INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE claims (
  id     TEXT PRIMARY KEY,
  client TEXT    NOT NULL,
  owner  TEXT    NOT NULL,
  at     INTEGER,
  open   INTEGER NOT NULL,
  jobs   BLOB
) STRICT;

CREATE INDEX claims_client ON claims (client);

CREATE TABLE links (
  client  TEXT NOT NULL,
  entity  TEXT NOT NULL,
  key     TEXT NOT NULL,
  link    TEXT NOT NULL,
  seen_at INTEGER,
  PRIMARY KEY (client, entity, key)
) STRICT, WITHOUT ROWID;

CREATE TABLE attempts (
  id         INTEGER PRIMARY KEY,
  flow       TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  number     INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  at         INTEGER,
  class      TEXT    NOT NULL,
  code       TEXT    NOT NULL,
  message    TEXT    NOT NULL
) STRICT;

CREATE INDEX attempts_row ON attempts (flow, key, id);

-- AUTOINCREMENT, so that the id of a request that was answered never names a new one.
CREATE TABLE requests (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  client    TEXT    NOT NULL,
  flow      TEXT    NOT NULL,
  source_id TEXT    NOT NULL,
  kind      TEXT    NOT NULL,
  key       TEXT    NOT NULL,
  at        INTEGER,
  due_at    INTEGER NOT NULL,
  UNIQUE (flow, source_id, kind, key)
) STRICT;

CREATE INDEX requests_client ON requests (client, at, id);

CREATE TABLE clients (
  client       TEXT PRIMARY KEY,
  paused_until INTEGER,
  reason       TEXT    NOT NULL,
  evidence     TEXT    NOT NULL,
  since        INTEGER,
  strikes      INTEGER NOT NULL,
  owner        TEXT    NOT NULL,
  seen_at      INTEGER
) STRICT, WITHOUT ROWID;
