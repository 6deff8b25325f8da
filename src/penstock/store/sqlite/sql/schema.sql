-- The data of one shard, format version 2.
-- Numbers (seq, position) come from one counter that never goes back; times are milliseconds since 1970.

CREATE TABLE shard (
  id          INTEGER PRIMARY KEY CHECK (id = 1),
  position    INTEGER NOT NULL,  -- number of the last batch: the fence
  next_number INTEGER NOT NULL,
  now_ms      INTEGER NOT NULL,
  wall_ms     INTEGER NOT NULL,
  secret      BLOB    NOT NULL
);

CREATE TABLE queues (
  id      INTEGER PRIMARY KEY,
  account TEXT NOT NULL,
  region  TEXT NOT NULL,
  name    TEXT NOT NULL,
  record  TEXT NOT NULL,  -- JSON
  UNIQUE (account, region, name)
);

CREATE TABLE cooldowns (
  account  TEXT NOT NULL,
  region   TEXT NOT NULL,
  name     TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (account, region, name)
) WITHOUT ROWID;

CREATE TABLE tasks (
  id     TEXT PRIMARY KEY,
  record TEXT NOT NULL  -- JSON
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
  content         BLOB  -- NULL: too big to be rewritten with every receive, so it is in contents
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

-- Only what sleeps or once slept. A receive changes no other index than these.
CREATE INDEX by_delay  ON entries (queue, due, seq, position) WHERE due > 0 AND receives = 0;
CREATE INDEX by_flight ON entries (queue, due, position) WHERE due > 0 AND receives > 0;

CREATE TABLE dedup (
  queue    INTEGER NOT NULL,
  seq      INTEGER NOT NULL,
  digest   BLOB    NOT NULL,
  until_ms INTEGER NOT NULL,
  PRIMARY KEY (queue, seq)
) WITHOUT ROWID;

-- How contents begin that are encrypted: one row for each version of a key that was ever used here.
CREATE TABLE seals (
  name BLOB PRIMARY KEY
) WITHOUT ROWID;

-- What is void but still has rows: messages up to a position, remembered sends up to a seq.
CREATE TABLE graveyard (
  queue    INTEGER PRIMARY KEY,
  position INTEGER NOT NULL,
  seq      INTEGER NOT NULL
);
