-- Reads answer with one row. A row at a time, each would take the interpreter lock anew, and wait for a busy loop each
-- time; so rows are gathered as one JSON array, and contents as hexadecimal digits between commas. The LIMIT beside each
-- ORDER BY keeps SQLite from thinking that the order of what is gathered does not matter.

-- name: shard
SELECT position, next_number, now_ms, wall_ms, secret FROM shard

-- name: seals
SELECT group_concat(hex(name)) FROM seals

-- name: queues
SELECT '[' || coalesce(group_concat(record), '') || ']' FROM (SELECT record FROM queues ORDER BY id LIMIT -1)

-- name: cooldowns
SELECT json_group_array(json_array(account, region, name, until_ms)) FROM cooldowns

-- name: tasks
SELECT '[' || coalesce(group_concat(record), '') || ']' FROM (SELECT record FROM tasks ORDER BY id LIMIT -1)

-- name: messages
SELECT (SELECT count(*) FROM entries) - (
  SELECT coalesce(sum(
      (SELECT count(*) FROM entries WHERE queue = graveyard.queue AND position <= graveyard.position AND grp IS NULL)
    + (SELECT count(*) FROM entries WHERE queue = graveyard.queue AND position <= graveyard.position
                                      AND grp IS NOT NULL)
  ), 0) FROM graveyard
)

-- name: tally
SELECT
  (SELECT count(*) FROM entries INDEXED BY by_age WHERE queue = :queue AND position > :after),
  (SELECT count(*) FROM entries INDEXED BY by_flight
    WHERE queue = :queue AND due > 0 AND due > :now_ms AND receives > 0 AND position > :after),
  (SELECT count(*) FROM entries INDEXED BY by_delay
    WHERE queue = :queue AND due > 0 AND due > :now_ms AND receives = 0 AND position > :after)

-- name: groups
WITH
  ahead AS (
    SELECT grp, position FROM entries
    WHERE queue = :queue AND position > :after AND due <= :due_ms_max AND grp IS NULL
    UNION ALL
    SELECT grp, position FROM entries
    WHERE queue = :queue AND position > :after AND due <= :due_ms_max AND grp IS NOT NULL
    ORDER BY position LIMIT :rows_max
  ),
  grouped AS (
    SELECT grp, count(*) AS messages, min(position) AS first, max(position) AS last FROM ahead GROUP BY grp
  )
SELECT json_group_array(json_array(grp, messages, first)), coalesce(max(last), :after)
FROM (SELECT * FROM grouped ORDER BY first LIMIT -1)

-- name: waiting_loose
SELECT
  json_group_array(json_array(
    seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL)),
  group_concat(hex(content))
FROM (
  SELECT * FROM entries
  WHERE queue = :queue AND grp IS NULL AND position > :after AND due <= :due_ms_max
  ORDER BY position LIMIT :rows_max
)

-- name: waiting_grouped
SELECT
  json_group_array(json_array(
    seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL)),
  group_concat(hex(content))
FROM (
  SELECT * FROM entries INDEXED BY by_group
  WHERE queue = :queue AND grp = :grp AND grp IS NOT NULL AND position > :after AND due <= :due_ms_max
  ORDER BY position LIMIT :rows_max
)

-- name: delayed
SELECT json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL))
FROM (
  SELECT * FROM entries INDEXED BY by_delay
  WHERE queue = :queue AND due > 0 AND due >= :due_ms_min AND receives = 0 AND position > :after
  ORDER BY due, seq LIMIT :rows_max
)

-- name: in_flight
SELECT json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL))
FROM (
  SELECT * FROM entries INDEXED BY by_flight
  WHERE queue = :queue AND due > 0 AND due >= :due_ms_min AND receives > 0 AND position > :after
  ORDER BY position LIMIT -1
)

-- name: lookup
SELECT json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL))
FROM (
  SELECT * FROM entries NOT INDEXED
  WHERE seq IN (SELECT value FROM json_each(:seqs)) AND queue = :queue AND position > :after
)

-- name: contents_inside
SELECT json_group_array(seq), group_concat(hex(content))
FROM entries NOT INDEXED WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: content_apart
SELECT content FROM contents WHERE seq = :seq

-- name: heads
SELECT json_group_array(json_array(seq, queue, size)), group_concat(hex(start))
FROM (
  SELECT seq, queue,
    coalesce(length(content), (SELECT length(content) FROM contents WHERE seq = entries.seq), 0) AS size,
    coalesce(
      substr(content, 1, :bytes_max), (SELECT substr(content, 1, :bytes_max) FROM contents WHERE seq = entries.seq)
    ) AS start
  FROM entries NOT INDEXED
  WHERE seq > :after AND seq <= :upto
  ORDER BY seq LIMIT :rows_max
)

-- name: count_expired
SELECT count(*) FROM (
  SELECT 1 FROM entries INDEXED BY by_age
  WHERE queue = :queue AND enqueued <= :enqueued_ms_max AND position > :after LIMIT :rows_max
)

-- name: expired_few
-- All there are, by age, then put in order.
SELECT json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL))
FROM (
  SELECT * FROM entries INDEXED BY by_age
  WHERE queue = :queue AND enqueued <= :enqueued_ms_max AND position > :after
  ORDER BY position LIMIT :rows_max
)

-- name: expired_many
-- More than were asked for: walk in order and stop at the last one wanted.
SELECT json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL))
FROM (
  SELECT * FROM entries
  WHERE queue = :queue AND enqueued <= :enqueued_ms_max AND position > :after AND grp IS NULL
  UNION ALL
  SELECT * FROM entries
  WHERE queue = :queue AND enqueued <= :enqueued_ms_max AND position > :after AND grp IS NOT NULL
  ORDER BY position LIMIT :rows_max
)

-- name: oldest_ms
SELECT (
  SELECT enqueued FROM entries INDEXED BY by_age
  WHERE queue = :queue AND position > :after ORDER BY enqueued LIMIT 1
)

-- name: younger
SELECT count(*) FROM entries INDEXED BY by_age
WHERE queue = :queue AND enqueued >= :enqueued_ms_min AND position > :after

-- name: dedup
SELECT json_group_array(json_array(queue, seq, until_ms)), group_concat(hex(digest))
FROM (
  SELECT * FROM dedup
  WHERE queue = :queue
    AND seq > max(:after, coalesce((SELECT seq FROM graveyard WHERE queue = :queue), 0))
    AND until_ms > :now_ms
  ORDER BY seq LIMIT :rows_max
)
