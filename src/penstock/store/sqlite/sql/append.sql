-- name: advance
-- The fence: nobody can write batch n who did not see batch n - 1 as the last one.
UPDATE shard SET position = ?, next_number = ?, now_ms = ?, wall_ms = ? WHERE id = 1 AND position = ?

-- name: bury
INSERT INTO graveyard (queue, position, seq) VALUES {rows}
ON CONFLICT (queue) DO UPDATE SET
  position = max(position, excluded.position),
  seq      = max(seq, excluded.seq)

-- name: drop_queues
DELETE FROM queues WHERE id IN (SELECT value FROM json_each(?))

-- name: add_entries
INSERT INTO entries (
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, content
) VALUES {rows}

-- name: add_contents
INSERT INTO contents (seq, content) VALUES {rows}

-- name: update_in_place
-- The common change. Naming queue, position or enqueued after SET would rewrite every index of the row, changed or not.
UPDATE entries NOT INDEXED SET
  due             = new.column5,
  receives        = new.column6,
  receives_before = new.column7,
  first_received  = new.column8,
  source          = new.column9
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1
  AND entries.queue = new.column2
  AND entries.position = new.column3
  AND entries.enqueued = new.column4

-- name: update_anywhere
UPDATE entries NOT INDEXED SET
  queue           = new.column2,
  position        = new.column3,
  enqueued        = new.column4,
  due             = new.column5,
  receives        = new.column6,
  receives_before = new.column7,
  first_received  = new.column8,
  source          = new.column9
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1

-- name: remove_entries
DELETE FROM entries WHERE seq IN (SELECT value FROM json_each(?))

-- name: remove_contents
DELETE FROM contents WHERE seq IN (SELECT value FROM json_each(?))

-- name: rewrite_inside
UPDATE entries NOT INDEXED SET content = new.column2
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1 AND entries.content IS NOT NULL

-- name: rewrite_apart
UPDATE contents SET content = new.column2
FROM (VALUES {rows}) AS new
WHERE contents.seq = new.column1

-- name: put_queues
INSERT INTO queues (id, account, region, name, record) VALUES {rows}
ON CONFLICT (id) DO UPDATE SET
  account = excluded.account,
  region  = excluded.region,
  name    = excluded.name,
  record  = excluded.record

-- name: put_cooldowns
INSERT INTO cooldowns (account, region, name, until_ms) VALUES {rows}
ON CONFLICT (account, region, name) DO UPDATE SET until_ms = excluded.until_ms

-- name: end_cooldowns
DELETE FROM cooldowns WHERE (account, region, name) IN (VALUES {rows})

-- name: put_tasks
INSERT INTO tasks (id, record) VALUES {rows}
ON CONFLICT (id) DO UPDATE SET record = excluded.record

-- name: end_tasks
DELETE FROM tasks WHERE id IN (SELECT value FROM json_each(?))

-- name: remember_sends
INSERT INTO dedup (queue, seq, digest, until_ms) VALUES {rows}

-- name: forget_sends
DELETE FROM dedup
WHERE queue = :queue
  AND seq IN (SELECT seq FROM dedup WHERE queue = :queue AND seq <= :seq ORDER BY seq LIMIT :rows_max)

-- name: forget_seals
DELETE FROM seals

-- name: add_seal
INSERT INTO seals (name) VALUES (?)
