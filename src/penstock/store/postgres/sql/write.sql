-- name: take
-- A new owner. It waits for a commit of the last one that is under way; a later one finds another writer and fails.
INSERT INTO shard (id, number, next_number, now_ms, wall_ms, secret, owner, writer)
VALUES (%(shard)s, 0, 1, 0, 0, %(secret)s, %(owner)s, %(writer)s)
ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, writer = excluded.writer
RETURNING number, next_number, now_ms, wall_ms, secret

-- name: continue
-- The same owner on another connection.
UPDATE shard SET writer = %(writer)s WHERE id = %(shard)s AND owner = %(owner)s RETURNING number

-- name: advance
-- The fence: commit n is written by the connection that has the shard, after commit n - 1, or the division fails and
-- the transaction with it. As an error it stops the statements that were sent along.
WITH advanced AS (
  UPDATE shard SET number = %s, next_number = %s, now_ms = %s, wall_ms = %s
  WHERE id = %s AND writer = %s AND number = %s
  RETURNING id
)
SELECT 1 / count(*) FROM advanced

-- name: check
-- The fence of what changes no commit number. It keeps out another owner until the transaction ends.
SELECT 1 / count(*) FROM (SELECT id FROM shard WHERE id = %s AND writer = %s FOR UPDATE) AS owned

-- name: void
INSERT INTO voids (shard, queue, position, seq)
SELECT %s, * FROM unnest(%s, %s, %s)
ON CONFLICT (shard, queue) DO UPDATE SET
  position = greatest(voids.position, excluded.position),
  seq      = greatest(voids.seq, excluded.seq)

-- name: forget_usage
DELETE FROM usage WHERE shard = %s AND queue = ANY(%s)

-- name: add_usage
INSERT INTO usage (shard, queue, messages, bytes)
SELECT %s, * FROM unnest(%s, %s, %s)
ON CONFLICT (shard, queue) DO UPDATE SET
  messages = usage.messages + excluded.messages,
  bytes    = usage.bytes + excluded.bytes

-- name: add_sent
-- The common row, a message that was never received.
INSERT INTO entries (
  shard, seq, queue, position, grp, enqueued, due, content, size,
  receives, receives_before, first_received, version
)
SELECT %s, *, 0, 0, 0, 1 FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s)

-- name: add_entries
INSERT INTO entries (
  shard, seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, content,
  size, version
)
SELECT %s, * FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)

-- name: update_entries
UPDATE entries SET
  queue           = new.queue,
  position        = new.position,
  enqueued        = new.enqueued,
  due             = new.due,
  receives        = new.receives,
  receives_before = new.receives_before,
  first_received  = new.first_received,
  source          = new.source
FROM unnest(%s, %s, %s, %s, %s, %s, %s, %s, %s) AS new (
  seq, queue, position, enqueued, due, receives, receives_before, first_received, source
)
WHERE entries.shard = %s AND entries.seq = new.seq

-- name: replace
-- Of the messages to be edited, returns those that are there and have the version they should.
WITH
  found AS (
    SELECT entries.seq, entries.queue, entries.size AS size_before, new.content, new.version, new.size,
      new.grp
    FROM unnest(%s, %s, %s, %s, %s, %s, %s)
      AS new (seq, queue, content, if_version, version, size, grp)
    JOIN entries
      ON entries.shard = %s AND entries.seq = new.seq AND entries.version = new.if_version
    WHERE entries.position > coalesce(
      (SELECT voids.position FROM voids WHERE voids.shard = entries.shard AND voids.queue = entries.queue), -1)
  ),
  made AS (
    UPDATE entries SET
      content = coalesce(found.content, entries.content),
      version = found.version,
      size    = found.size,
      grp     = found.grp
    FROM found WHERE entries.shard = %s AND entries.seq = found.seq
    RETURNING entries.seq
  ),
  counted AS (
    UPDATE usage SET bytes = usage.bytes + grown.bytes
    FROM (SELECT queue, sum(size - size_before)::int8 AS bytes FROM found GROUP BY queue) AS grown
    WHERE usage.shard = %s AND usage.queue = grown.queue
    RETURNING usage.queue
  )
SELECT seq FROM made

-- name: remove_entries
DELETE FROM entries WHERE shard = %s AND seq = ANY(%s)

-- name: put_records
INSERT INTO records (shard, kind, key, data)
SELECT %s, * FROM unnest(%s, %s, %s)
ON CONFLICT (shard, kind, key) DO UPDATE SET data = excluded.data

-- name: remove_records
DELETE FROM records USING unnest(%s, %s) AS gone (kind, key)
WHERE records.shard = %s AND records.kind = gone.kind AND records.key = gone.key

-- name: append_logs
INSERT INTO logs (shard, kind, key, position, data) SELECT %s, * FROM unnest(%s, %s, %s, %s)

-- name: truncate_log
DELETE FROM logs WHERE shard = %s AND kind = %s AND key = %s AND position <= %s

-- name: remember_sends
INSERT INTO dedup (shard, queue, seq, digest, until_ms) SELECT %s, * FROM unnest(%s, %s, %s, %s)

-- name: forget_sends
-- At most this many rows; a mark stands for the rest.
WITH forgotten AS (
  DELETE FROM dedup
  WHERE shard = %(shard)s AND queue = %(queue)s AND seq <= (
    SELECT max(seq) FROM (
      SELECT seq FROM dedup WHERE shard = %(shard)s AND queue = %(queue)s AND seq <= %(seq)s
      ORDER BY seq LIMIT %(rows_max)s
    ) AS first
  )
  RETURNING seq
)
INSERT INTO voids (shard, queue, position, seq)
SELECT %(shard)s, %(queue)s, 0, %(seq)s WHERE (SELECT count(*) FROM forgotten) >= %(rows_max)s
ON CONFLICT (shard, queue) DO UPDATE SET seq = greatest(voids.seq, excluded.seq)

-- name: first_void
SELECT queue, position, seq FROM voids WHERE shard = %s ORDER BY queue LIMIT 1

-- name: remove_void_entries
-- At most this many rows, where a large content counts as one row for each KiB.
DELETE FROM entries WHERE shard = %(shard)s AND seq = ANY(ARRAY(
  SELECT seq FROM (
    SELECT seq, sum(1 + size / 1024) OVER (ORDER BY position, seq) - (1 + size / 1024) AS before FROM (
      (
        SELECT seq, position, size FROM entries
        WHERE shard = %(shard)s AND queue = %(queue)s AND position <= %(position)s AND grp IS NULL
        ORDER BY position LIMIT %(rows_max)s
      ) UNION ALL (
        SELECT seq, position, size FROM entries
        WHERE shard = %(shard)s AND queue = %(queue)s AND position <= %(position)s AND grp IS NOT NULL
        ORDER BY position LIMIT %(rows_max)s
      )
    ) AS first
  ) AS counted
  WHERE before < %(rows_max)s
))

-- name: remove_void_sends
DELETE FROM dedup
WHERE shard = %(shard)s AND queue = %(queue)s AND seq <= (
  SELECT max(seq) FROM (
    SELECT seq FROM dedup WHERE shard = %(shard)s AND queue = %(queue)s AND seq <= %(seq)s
    ORDER BY seq LIMIT %(rows_max)s
  ) AS first
)

-- name: end_void
DELETE FROM voids WHERE shard = %s AND queue = %s
