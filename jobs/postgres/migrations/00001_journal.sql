-- {schema} is replaced by the schema's name. Keys compare byte by byte, whatever
-- the database's collation. A time that is NULL is "never"; due_at is -infinity
-- instead, so that one index holds all open rows in their order. Within a table,
-- columns stand by their width, which spares the padding between them.

CREATE TABLE {schema}.meta (
  name  text PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE {schema}.jobs (
  generation         bigint      NOT NULL,
  desired_epoch      bigint      NOT NULL,
  desired_version    bigint      NOT NULL,
  attempt            bigint      NOT NULL,
  applied_generation bigint      NOT NULL,
  due_at             timestamptz NOT NULL,
  desired_observed   timestamptz,
  changed_at         timestamptz,
  read_at            timestamptz,
  first_try_at       timestamptz,
  applied_at         timestamptz,
  unresolved_at      timestamptz,
  open_since         timestamptz,
  last_at            timestamptz,
  tries              integer     NOT NULL,
  streak             integer     NOT NULL,
  misses             integer     NOT NULL,
  gone               boolean     NOT NULL,
  applied_gone       boolean     NOT NULL,
  solo               boolean     NOT NULL,
  flow               text COLLATE "C" NOT NULL,
  key                text COLLATE "C" NOT NULL,
  client             text COLLATE "C" NOT NULL,
  entity             text COLLATE "C" NOT NULL,
  source_id          text COLLATE "C" NOT NULL,
  state              text COLLATE "C" NOT NULL CHECK (state IN ('ready', 'done', 'dead', 'held')),
  reason             text COLLATE "C" NOT NULL,
  hash               bytea,
  applied_hash       bytea,
  miss_code          text COLLATE "C" NOT NULL,
  last_class         text COLLATE "C" NOT NULL,
  last_code          text COLLATE "C" NOT NULL,
  last_message       text COLLATE "C" NOT NULL,
  wait_entity        text COLLATE "C" NOT NULL,
  wait_key           text COLLATE "C" NOT NULL,
  renamed_from       text COLLATE "C" NOT NULL,
  PRIMARY KEY (flow, key)
);

CREATE INDEX jobs_due ON {schema}.jobs (client, due_at) WHERE state = 'ready';
CREATE INDEX jobs_waiting ON {schema}.jobs (client, wait_entity, wait_key) WHERE wait_entity <> '';
-- What people ask for is found without reading the done rows.
CREATE INDEX jobs_stuck ON {schema}.jobs (flow, key) WHERE state IN ('dead', 'held');
CREATE INDEX jobs_unresolved ON {schema}.jobs (flow, key) WHERE unresolved_at IS NOT NULL;

-- Bodies stand apart, so that settling a job does not write its body again. They
-- come compressed; the server need not try.
CREATE TABLE {schema}.bodies (
  flow text COLLATE "C" NOT NULL,
  key  text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (flow, key)
);

ALTER TABLE {schema}.bodies ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE {schema}.sources (
  epoch    bigint NOT NULL,
  version  bigint NOT NULL,
  observed timestamptz,
  gone     boolean NOT NULL,
  flow     text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  keys     text COLLATE "C" NOT NULL,
  PRIMARY KEY (flow, id)
);

CREATE TABLE {schema}.contenders (
  epoch      bigint NOT NULL,
  version    bigint NOT NULL,
  observed   timestamptz,
  changed_at timestamptz,
  since      timestamptz,
  flow       text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  source_id  text COLLATE "C" NOT NULL,
  hash       bytea,
  body       bytea,
  PRIMARY KEY (flow, key, source_id)
);

ALTER TABLE {schema}.contenders ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE {schema}.cursors (
  epoch       bigint NOT NULL,
  moved_at    timestamptz,
  read_at     timestamptz,
  page_starts integer NOT NULL,
  flow        text COLLATE "C" PRIMARY KEY,
  cursor      text COLLATE "C",
  suspect     text COLLATE "C" NOT NULL
);

CREATE TABLE {schema}.claims (
  open   bigint NOT NULL,
  at     timestamptz,
  id     text COLLATE "C" PRIMARY KEY,
  client text COLLATE "C" NOT NULL,
  owner  text COLLATE "C" NOT NULL,
  jobs   bytea
);

ALTER TABLE {schema}.claims ALTER COLUMN jobs SET STORAGE EXTERNAL;
CREATE INDEX claims_client ON {schema}.claims (client);

CREATE TABLE {schema}.links (
  seen_at timestamptz,
  client  text COLLATE "C" NOT NULL,
  entity  text COLLATE "C" NOT NULL,
  key     text COLLATE "C" NOT NULL,
  link    text COLLATE "C" NOT NULL,
  PRIMARY KEY (client, entity, key)
);

CREATE TABLE {schema}.attempts (
  id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  number     bigint NOT NULL,
  generation bigint NOT NULL,
  at         timestamptz,
  flow       text COLLATE "C" NOT NULL,
  key        text COLLATE "C" NOT NULL,
  class      text COLLATE "C" NOT NULL,
  code       text COLLATE "C" NOT NULL,
  message    text COLLATE "C" NOT NULL
);

CREATE INDEX attempts_row ON {schema}.attempts (flow, key, id);

CREATE TABLE {schema}.requests (
  id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at        timestamptz,
  due_at    timestamptz NOT NULL,
  client    text COLLATE "C" NOT NULL,
  flow      text COLLATE "C" NOT NULL,
  source_id text COLLATE "C" NOT NULL,
  kind      text COLLATE "C" NOT NULL,
  key       text COLLATE "C" NOT NULL,
  UNIQUE (flow, source_id, kind, key)
);

CREATE INDEX requests_client ON {schema}.requests (client, at, id);

CREATE TABLE {schema}.clients (
  paused_until timestamptz,
  since        timestamptz,
  seen_at      timestamptz,
  strikes      integer NOT NULL,
  client       text COLLATE "C" PRIMARY KEY,
  reason       text COLLATE "C" NOT NULL,
  evidence     text COLLATE "C" NOT NULL,
  owner        text COLLATE "C" NOT NULL
);

-- The daemon that has the journal. Its token is in every transaction of that
-- daemon that writes; expires_at is the database's time.
CREATE TABLE {schema}.daemons (
  since      timestamptz NOT NULL,
  renewed_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  pid        bigint NOT NULL,
  started    bigint NOT NULL,
  name       text COLLATE "C" PRIMARY KEY,
  token      text COLLATE "C" NOT NULL,
  host       text COLLATE "C" NOT NULL,
  boot_id    text COLLATE "C" NOT NULL,
  pid_space  text COLLATE "C" NOT NULL
);

INSERT INTO {schema}.daemons VALUES ('epoch', 'epoch', 'epoch', 0, 0, 'journal', '', '', '', '');
