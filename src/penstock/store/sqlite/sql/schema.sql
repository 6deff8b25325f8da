-- The data of one shard, format version 3.
-- Numbers (seq, commit number) come from counters that never go back; times are milliseconds since 1970.

CREATE TABLE shard (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  number      INTEGER NOT NULL,  -- of the last commit: the fence
  next_number INTEGER NOT NULL,
  now_ms      INTEGER NOT NULL,
  wall_ms     INTEGER NOT NULL,
  secret      BLOB    NOT NULL,
  owner       BLOB    NOT NULL DEFAULT x''
);

CREATE TABLE records (
  kind TEXT NOT NULL,
  key  TEXT NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (kind, key)
) WITHOUT ROWID;

CREATE TABLE logs (
  kind     TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  position INTEGER NOT NULL,
  data     BLOB    NOT NULL,
  PRIMARY KEY (kind, key, position)
) WITHOUT ROWID;

CREATE TABLE entries (
  seq             INTEGER PRIMARY KEY,
  queue           INTEGER NOT NULL,
  position        INTEGER NOT NULL,
  grp             TEXT,
  enqueued        INTEGER NOT NULL,
  due             INTEGER NOT NULL,
  receives        INTEGER NOT NULL,
  receives_before INTEGER NOT NULL,
  first_received  INTEGER NOT NULL,
  source          TEXT,
  content         BLOB,  -- NULL: too big to be rewritten with every receive, so it is in contents
  size            INTEGER NOT NULL DEFAULT 0,
  version         INTEGER NOT NULL DEFAULT 1
);

CREATE TABLE contents (
  seq     INTEGER PRIMARY KEY,
  content BLOB NOT NULL
);

-- Messages with and without a group are indexed apart: either kind is found at once behind any number of the other,
-- and a message without a group pays for one index less.
CREATE INDEX by_place_loose   ON entries (queue, position) WHERE grp IS NULL;
CREATE INDEX by_place_grouped ON entries (queue, position) WHERE grp IS NOT NULL;
CREATE INDEX by_group         ON entries (queue, grp, position) WHERE grp IS NOT NULL;

CREATE INDEX by_age ON entries (queue, enqueued, position);

-- Only what is or was hidden until a time. A receive changes no other index than these.
CREATE INDEX by_delay  ON entries (queue, due, position) WHERE due > 0 AND receives = 0;
CREATE INDEX by_flight ON entries (queue, due, position) WHERE due > 0 AND receives > 0;

CREATE TABLE usage (
  queue    INTEGER PRIMARY KEY,
  messages INTEGER NOT NULL,
  bytes    INTEGER NOT NULL
);

CREATE TABLE dedup (
  queue    INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  digest   BLOB    NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, seq)
) WITHOUT ROWID;

-- What is void but still has rows: messages up to a position, remembered sends up to a seq.
CREATE TABLE voids (
  queue    INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  seq      INTEGER NOT NULL
);
