-- Reads answer with one row. A row at a time, each would take the interpreter lock again, and wait for a busy loop each
-- time; so rows are gathered as one JSON array. Bytes, which JSON cannot hold, are gathered as their lengths and one
-- BLOB of all of them; the length is of a BLOB, since a damaged content may be a text and counted in characters.
-- The LIMIT beside each ORDER BY keeps SQLite from concluding that the order of what is gathered does not matter.
-- "due > 0" stands behind the bounds of due: SQLite walks an index from the first bound it finds.

-- name: entries
-- What stands for {entries} below.
json_group_array(json_array(
  seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL,
  size, version))

-- name: shard
SELECT number, next_number, now_ms, wall_ms, secret, owner FROM shard

-- name: all_records
SELECT json_group_array(json_array(kind, key)),
  json_group_array(length(CAST(data AS BLOB))), CAST(group_concat(data, '') AS BLOB)
FROM records

-- name: records
SELECT json_group_array(json_array(kind, key)),
  json_group_array(length(CAST(data AS BLOB))), CAST(group_concat(data, '') AS BLOB)
FROM records WHERE kind = :kind

-- name: log
SELECT json_group_array(position), json_group_array(length(CAST(data AS BLOB))), CAST(group_concat(data, '') AS BLOB)
FROM (
  SELECT position, data FROM logs
  WHERE kind = :kind AND key = :key AND position > :after ORDER BY position LIMIT :rows_max
)

-- name: usage
SELECT json_group_array(json_array(queue, messages, bytes)) FROM usage WHERE messages > 0

-- name: usage_of
SELECT json_group_array(json_array(queue, messages, bytes)) FROM usage WHERE messages > 0 AND queue = :queue

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

-- name: lane_loose
SELECT {entries}, json_group_array(length(CAST(content AS BLOB))), CAST(group_concat(content, '') AS BLOB)
FROM (
  SELECT * FROM entries
  WHERE queue = :queue AND grp IS NULL AND position > :after AND due <= :due_ms_max
  ORDER BY position LIMIT :rows_max
)

-- name: lane_grouped
SELECT {entries}, json_group_array(length(CAST(content AS BLOB))), CAST(group_concat(content, '') AS BLOB)
FROM (
  SELECT * FROM entries INDEXED BY by_group
  WHERE queue = :queue AND grp = :grp AND grp IS NOT NULL AND position > :after AND due <= :due_ms_max
  ORDER BY position LIMIT :rows_max
)

-- name: scan
SELECT {entries}, json_group_array(length(CAST(content AS BLOB))), CAST(group_concat(content, '') AS BLOB)
FROM (
  SELECT * FROM entries NOT INDEXED
  WHERE seq > :after AND seq <= :upto
    AND position > coalesce((SELECT position FROM voids WHERE queue = entries.queue), -1)
  ORDER BY seq LIMIT :rows_max
)

-- name: by_position
SELECT {entries}
FROM (
  SELECT * FROM entries
  WHERE queue = :queue AND position > :after AND grp IS NULL
    AND due BETWEEN :due_ms_min AND :due_ms_max AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
    AND (:received IS NULL OR (receives > 0) = :received)
  UNION ALL
  SELECT * FROM entries
  WHERE queue = :queue AND position > :after AND grp IS NOT NULL
    AND due BETWEEN :due_ms_min AND :due_ms_max AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
    AND (:received IS NULL OR (receives > 0) = :received)
  ORDER BY position LIMIT :rows_max
)

-- name: by_position_of_old
-- All there are up to an age, then put in order.
SELECT {entries}
FROM (
  SELECT * FROM entries INDEXED BY by_age
  WHERE queue = :queue AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max AND position > :after
    AND due BETWEEN :due_ms_min AND :due_ms_max AND (:received IS NULL OR (receives > 0) = :received)
  ORDER BY position LIMIT :rows_max
)

-- name: count_old
SELECT count(*) FROM (
  SELECT 1 FROM entries INDEXED BY by_age
  WHERE queue = :queue AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max AND position > :after
  LIMIT :rows_max
)

-- name: by_position_in_flight
SELECT {entries}
FROM (
  SELECT * FROM entries INDEXED BY by_flight
  WHERE queue = :queue AND due BETWEEN :due_ms_min AND :due_ms_max AND due > 0 AND receives > 0
    AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
  ORDER BY position LIMIT :rows_max
)

-- name: by_age
SELECT {entries}
FROM (
  SELECT * FROM entries INDEXED BY by_age
  WHERE queue = :queue AND (enqueued, position) > (:time_ms, :position) AND enqueued <= :enqueued_ms_max
    AND position > :after
    AND due BETWEEN :due_ms_min AND :due_ms_max AND (:received IS NULL OR (receives > 0) = :received)
  ORDER BY enqueued, position LIMIT :rows_max
)

-- name: by_due_delayed
SELECT {entries}
FROM (
  SELECT * FROM entries INDEXED BY by_delay
  WHERE queue = :queue AND (due, position) > (:time_ms, :position) AND due <= :due_ms_max
    AND due > 0 AND receives = 0
    AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
  ORDER BY due, position LIMIT :rows_max
)

-- name: by_due_in_flight
SELECT {entries}
FROM (
  SELECT * FROM entries INDEXED BY by_flight
  WHERE queue = :queue AND (due, position) > (:time_ms, :position) AND due <= :due_ms_max
    AND due > 0 AND receives > 0
    AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
  ORDER BY due, position LIMIT :rows_max
)

-- name: by_due
SELECT {entries}
FROM (
  SELECT * FROM entries
  WHERE queue = :queue AND (due, position) > (:time_ms, :position) AND due <= :due_ms_max
    AND due > 0 AND receives = 0
    AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
  UNION ALL
  SELECT * FROM entries
  WHERE queue = :queue AND (due, position) > (:time_ms, :position) AND due <= :due_ms_max
    AND due > 0 AND receives > 0
    AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max
  ORDER BY due, position LIMIT :rows_max
)

-- name: count_delayed
SELECT count(*) FROM entries INDEXED BY by_delay
WHERE queue = :queue AND due BETWEEN :due_ms_min AND :due_ms_max AND due > 0 AND receives = 0
  AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max

-- name: count_in_flight
SELECT count(*) FROM entries INDEXED BY by_flight
WHERE queue = :queue AND due BETWEEN :due_ms_min AND :due_ms_max AND due > 0 AND receives > 0
  AND position > :after AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max

-- name: count_by_age
SELECT count(*) FROM entries INDEXED BY by_age
WHERE queue = :queue AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max AND position > :after

-- name: count
SELECT count(*) FROM entries INDEXED BY by_age
WHERE queue = :queue AND enqueued BETWEEN :enqueued_ms_min AND :enqueued_ms_max AND position > :after
  AND due BETWEEN :due_ms_min AND :due_ms_max AND (:received IS NULL OR (receives > 0) = :received)

-- name: lookup
SELECT {entries}
FROM (
  SELECT * FROM entries NOT INDEXED
  WHERE seq IN (SELECT value FROM json_each(:seqs)) AND queue = :queue AND position > :after
)

-- name: contents_inside
SELECT json_group_array(seq), json_group_array(length(CAST(content AS BLOB))), CAST(group_concat(content, '') AS BLOB)
FROM entries NOT INDEXED WHERE seq IN (SELECT value FROM json_each(:seqs))

-- name: content_apart
SELECT content FROM contents WHERE seq = :seq

-- name: dedup
SELECT json_group_array(json_array(queue, seq, until_ms)),
  json_group_array(length(CAST(digest AS BLOB))), CAST(group_concat(digest, '') AS BLOB)
FROM (
  SELECT * FROM dedup
  WHERE queue = :queue
    AND seq > max(:after, coalesce((SELECT seq FROM voids WHERE queue = :queue), 0))
    AND until_ms > :now_ms
  ORDER BY seq LIMIT :rows_max
)
