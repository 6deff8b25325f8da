-- The data of all shards, format version 1. Run again it changes nothing, so that a start that was cut short is repeated.
-- Numbers (seq, commit number) come from counters of the shard that never go back; times are milliseconds since 1970.
-- Texts that a client chooses are stored as UTF-8 bytes: they may hold zero characters, which the type text refuses.

CREATE TABLE IF NOT EXISTS shard (
  id          int   PRIMARY KEY,
  number      int8  NOT NULL,  -- of the last commit: the fence
  next_number int8  NOT NULL,
  now_ms      int8  NOT NULL,
  wall_ms     int8  NOT NULL,
  secret      bytea NOT NULL,
  owner       bytea NOT NULL,  -- the process that has the shard
  writer      bytea NOT NULL   -- its connection: what another one still sends is refused
);

CREATE TABLE IF NOT EXISTS records (
  shard int   NOT NULL,
  kind  text  NOT NULL,
  key   text  NOT NULL,
  data  bytea NOT NULL,
  PRIMARY KEY (shard, kind, key)
);

CREATE TABLE IF NOT EXISTS logs (
  shard    int   NOT NULL,
  kind     text  NOT NULL,
  key      text  NOT NULL,
  position int8  NOT NULL,
  data     bytea NOT NULL,
  PRIMARY KEY (shard, kind, key, position)
);

CREATE TABLE IF NOT EXISTS entries (
  shard           int   NOT NULL,
  seq             int8  NOT NULL,
  queue           int8  NOT NULL,
  position        int8  NOT NULL,
  grp             bytea,
  enqueued        int8  NOT NULL,
  due             int8  NOT NULL,
  receives        int8  NOT NULL,
  receives_before int8  NOT NULL,
  first_received  int8  NOT NULL,
  source          text,
  content         bytea NOT NULL,  -- a large one lies apart by itself, and an update does not rewrite it
  size            int8  NOT NULL,
  version         int8  NOT NULL,
  PRIMARY KEY (shard, seq)
);

-- Messages with and without a group are indexed apart: either kind is found at once behind any number of the other,
-- and a message without a group pays for one index less.
CREATE INDEX IF NOT EXISTS by_place_loose   ON entries (shard, queue, position) WHERE grp IS NULL;
CREATE INDEX IF NOT EXISTS by_place_grouped ON entries (shard, queue, position) WHERE grp IS NOT NULL;
CREATE INDEX IF NOT EXISTS by_group         ON entries (shard, queue, grp, position) WHERE grp IS NOT NULL;

CREATE INDEX IF NOT EXISTS by_age ON entries (shard, queue, enqueued, position);

-- Only what is or was hidden until a time.
CREATE INDEX IF NOT EXISTS by_delay  ON entries (shard, queue, due, position) WHERE due > 0 AND receives = 0;
CREATE INDEX IF NOT EXISTS by_flight ON entries (shard, queue, due, position) WHERE due > 0 AND receives > 0;

CREATE TABLE IF NOT EXISTS usage (
  shard    int  NOT NULL,
  queue    int8 NOT NULL,
  messages int8 NOT NULL,
  bytes    int8 NOT NULL,
  PRIMARY KEY (shard, queue)
);

CREATE TABLE IF NOT EXISTS dedup (
  shard    int   NOT NULL,
  queue    int8  NOT NULL,
  seq      int8  NOT NULL,
  digest   bytea NOT NULL,
  until_ms int8  NOT NULL,
  PRIMARY KEY (shard, queue, seq)
);

-- What is void but still has rows: messages up to a position, remembered sends up to a seq.
CREATE TABLE IF NOT EXISTS voids (
  shard    int  NOT NULL,
  queue    int8 NOT NULL,
  position int8 NOT NULL,
  seq      int8 NOT NULL,
  PRIMARY KEY (shard, queue)
);

-- The nodes of a cluster: alive while their row exists.
CREATE TABLE IF NOT EXISTS nodes (
  id       text        PRIMARY KEY,  -- of one process; never used again
  address  text        NOT NULL,
  version  text        NOT NULL,
  draining boolean     NOT NULL,
  renewed  timestamptz NOT NULL,
  until    timestamptz NOT NULL  -- then any node may remove the row
);

CREATE TABLE IF NOT EXISTS leases (
  shard   int     PRIMARY KEY,
  owner   text,                 -- a node, which may have no row any more
  epoch   int8    NOT NULL,     -- raised by every change of the owner
  serving boolean NOT NULL,     -- the owner has loaded the shard
  wish    text                  -- the address of the node that an operator chose
)
