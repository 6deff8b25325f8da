-- name: advance
-- The fence: commit n can only be written by a process that has seen commit n - 1 as the last one.
UPDATE shard SET number = ?, next_number = ?, now_ms = ?, wall_ms = ? WHERE id = 1 AND number = ?

-- name: void
INSERT INTO voids (queue, position, seq) VALUES {rows}
ON CONFLICT (queue) DO UPDATE SET
  position = max(position, excluded.position),
  seq      = max(seq, excluded.seq)

-- name: forget_usage
DELETE FROM usage WHERE queue IN (SELECT value FROM json_each(?))

-- name: add_usage
INSERT INTO usage (queue, messages, bytes) VALUES {rows}
ON CONFLICT (queue) DO UPDATE SET
  messages = messages + excluded.messages,
  bytes    = bytes + excluded.bytes

-- name: add_sent
-- The common row, a message that was never received. Each column that is bound costs as much as a small index.
INSERT INTO entries (
  seq, queue, position, grp, enqueued, due, content, size, receives, receives_before, first_received
)
SELECT column1, column2, column3, column4, column5, column6, column7, column8, 0, 0, 0 FROM (VALUES {rows})

-- name: add_entries
INSERT INTO entries (
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, content,
  size, version
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

-- name: replaceable
-- Of the messages to be edited, those that are there and have the version they should.
SELECT entries.seq, entries.queue, entries.size, entries.grp
FROM (VALUES {rows}) AS new JOIN entries ON entries.seq = new.column1 AND entries.version = new.column2
WHERE entries.position > coalesce((SELECT position FROM voids WHERE queue = entries.queue), -1)

-- name: replace_contents
UPDATE entries NOT INDEXED SET content = new.column2
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1

-- name: renew
UPDATE entries NOT INDEXED SET version = new.column2, size = new.column3
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1

-- name: change_groups
UPDATE entries NOT INDEXED SET grp = new.column2
FROM (VALUES {rows}) AS new
WHERE entries.seq = new.column1

-- name: remove_entries
DELETE FROM entries WHERE seq IN (SELECT value FROM json_each(?))

-- name: remove_contents
DELETE FROM contents WHERE seq IN (SELECT value FROM json_each(?))

-- name: put_records
INSERT INTO records (kind, key, data) VALUES {rows}
ON CONFLICT (kind, key) DO UPDATE SET data = excluded.data

-- name: remove_records
DELETE FROM records WHERE (kind, key) IN (VALUES {rows})

-- name: append_logs
INSERT INTO logs (kind, key, position, data) VALUES {rows}

-- name: truncate_log
DELETE FROM logs WHERE kind = ? AND key = ? AND position <= ?

-- name: remember_sends
INSERT INTO dedup (queue, seq, digest, until_ms) VALUES {rows}

-- name: forget_sends
DELETE FROM dedup
WHERE queue = :queue
  AND seq IN (SELECT seq FROM dedup WHERE queue = :queue AND seq <= :seq ORDER BY seq LIMIT :rows_max)

-- name: first_void
SELECT queue, position, seq FROM voids ORDER BY queue LIMIT 1

-- name: void_entries
-- At most this many rows, where a content that lies apart counts as one row for each KiB it takes to free.
SELECT json_group_array(seq) FROM (
  SELECT seq, sum(cost) OVER (ORDER BY place ROWS UNBOUNDED PRECEDING) - cost AS before FROM (
    SELECT seq, position AS place,
      1 + coalesce((SELECT length(contents.content) / 1024 FROM contents WHERE contents.seq = void.seq), 0) AS cost
    FROM (
      SELECT seq, position FROM entries WHERE queue = :queue AND position <= :position AND grp IS NULL
      UNION ALL
      SELECT seq, position FROM entries WHERE queue = :queue AND position <= :position AND grp IS NOT NULL
      ORDER BY position LIMIT :rows_max
    ) AS void
  )
) WHERE before < :rows_max

-- name: end_void
DELETE FROM voids WHERE queue = ?
