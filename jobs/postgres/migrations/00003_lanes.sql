-- An index over a large table takes its time.
SET LOCAL statement_timeout = 0;

ALTER TABLE {schema}.jobs
  ADD COLUMN key_epoch bigint  NOT NULL DEFAULT 0,
  ADD COLUMN shard     integer NOT NULL DEFAULT 0,
  ADD COLUMN grp       text COLLATE "C" NOT NULL DEFAULT '';

-- The flow stands last, so that the ready rows of one are counted without a look at
-- those of others; an index of its own would cost more. It stands there as an
-- expression, so that the table's key is no way to count them.
DROP INDEX {schema}.jobs_due;
CREATE INDEX jobs_due ON {schema}.jobs (client, shard, due_at, (flow || '')) WHERE state = 'ready';
-- The heads of groups, in the order of Stamp.Compare: no time is before all times.
CREATE INDEX jobs_heads ON {schema}.jobs (flow, grp, desired_epoch, desired_version, desired_observed NULLS FIRST, key)
  WHERE grp <> '' AND state <> 'done';

-- What is rarely there, as JSON; '' for nothing.
ALTER TABLE {schema}.cursors ADD COLUMN more text NOT NULL DEFAULT '';
ALTER TABLE {schema}.clients ADD COLUMN more text NOT NULL DEFAULT '';
ALTER TABLE {schema}.claims ADD COLUMN shard integer NOT NULL DEFAULT 0;

-- Which daemon runs a lane: token is '' while none does. It stands in every
-- transaction of that lane that writes; expires_at is the database's time.
CREATE TABLE {schema}.leases (
  since      timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  shard      integer NOT NULL,
  client     text COLLATE "C" NOT NULL,
  owner      text COLLATE "C" NOT NULL,
  token      text COLLATE "C" NOT NULL,
  PRIMARY KEY (client, shard)
);

CREATE INDEX leases_token ON {schema}.leases (token) WHERE token <> '';

-- The daemons at work. The table daemons of before stays for its one row: an older
-- daemon takes that to have the whole journal, and is kept out by it.
CREATE TABLE {schema}.members (
  since      timestamptz,
  expires_at timestamptz NOT NULL,
  leaving    boolean NOT NULL,
  owner      text COLLATE "C" PRIMARY KEY,
  process    text NOT NULL,
  lanes      text NOT NULL
);

-- What was sent under an idempotency key, while a write under it is in doubt.
CREATE TABLE {schema}.idempotency_keys (
  epoch         bigint NOT NULL,
  generation    bigint NOT NULL,
  first_sent_at timestamptz,
  flow          text COLLATE "C" NOT NULL,
  key           text COLLATE "C" NOT NULL,
  operation     text COLLATE "C" NOT NULL,
  name          text COLLATE "C" NOT NULL,
  hash          bytea,
  body          bytea,
  PRIMARY KEY (flow, key, operation)
);

ALTER TABLE {schema}.idempotency_keys ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE {schema}.groups (
  epoch    bigint NOT NULL,
  version  bigint NOT NULL,
  observed timestamptz,
  flow     text COLLATE "C" NOT NULL,
  name     text COLLATE "C" NOT NULL,
  sent_key text COLLATE "C" NOT NULL,
  PRIMARY KEY (flow, name)
);

CREATE TABLE {schema}.runs (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  total     bigint NOT NULL,
  done      bigint NOT NULL,
  failed    bigint NOT NULL,
  at        timestamptz,
  ended_at  timestamptz,
  kind      text COLLATE "C" NOT NULL,
  flow      text COLLATE "C" NOT NULL,
  client    text COLLATE "C" NOT NULL,
  settings  text COLLATE "C",
  after_flow text COLLATE "C" NOT NULL,
  after_key  text COLLATE "C" NOT NULL,
  asked_by  text NOT NULL,
  why       text NOT NULL,
  message   text NOT NULL
);

CREATE INDEX runs_open ON {schema}.runs (id) WHERE ended_at IS NULL;
