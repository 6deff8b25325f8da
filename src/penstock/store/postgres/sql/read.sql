-- Each is one statement, so it sees one state of the database at every isolation level.

-- name: entries
-- What stands for {entries} below.
seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source, NULL::bytea AS content,
  size, version

-- name: entries_with_content
-- What stands for {entries_with_content} below.
seq, queue, position, grp, enqueued, due, receives, receives_before, first_received, source,
  CASE WHEN before < %(content_bytes_max)s THEN content END AS content, size, version

-- name: all_records
SELECT kind, key, data FROM records WHERE shard = %(shard)s

-- name: records
SELECT key, data FROM records WHERE shard = %(shard)s AND kind = %(kind)s

-- name: log
SELECT position, data FROM logs
WHERE shard = %(shard)s AND kind = %(kind)s AND key = %(key)s AND position > %(after)s
ORDER BY position LIMIT %(rows_max)s

-- name: usage
SELECT queue, messages, bytes FROM usage WHERE shard = %(shard)s AND messages > 0

-- name: usage_of
SELECT queue, messages, bytes FROM usage WHERE shard = %(shard)s AND queue = %(queue)s AND messages > 0

-- name: groups
WITH ahead AS (
  (
    SELECT grp, position FROM entries
    WHERE shard = %(shard)s AND queue = %(queue)s AND position > %(after)s AND due <= %(due_ms_max)s AND grp IS NULL
    ORDER BY position LIMIT %(rows_max)s
  ) UNION ALL (
    SELECT grp, position FROM entries
    WHERE shard = %(shard)s AND queue = %(queue)s AND position > %(after)s AND due <= %(due_ms_max)s
      AND grp IS NOT NULL
    ORDER BY position LIMIT %(rows_max)s
  )
  ORDER BY position LIMIT %(rows_max)s
)
SELECT grp, count(*), min(position) AS first, max(position) FROM ahead GROUP BY grp ORDER BY first

-- name: lane_loose
SELECT {entries_with_content}
FROM (
  SELECT *, sum(octet_length(content)) OVER (ORDER BY position, seq) - octet_length(content) AS before FROM (
    SELECT * FROM entries
    WHERE shard = %(shard)s AND queue = %(queue)s AND grp IS NULL AND position > %(after)s AND due <= %(due_ms_max)s
    ORDER BY position LIMIT %(rows_max)s
  ) AS first
) AS counted
ORDER BY position, seq

-- name: lane_grouped
SELECT {entries_with_content}
FROM (
  SELECT *, sum(octet_length(content)) OVER (ORDER BY position, seq) - octet_length(content) AS before FROM (
    SELECT * FROM entries
    WHERE shard = %(shard)s AND queue = %(queue)s AND grp = %(grp)s AND grp IS NOT NULL AND position > %(after)s
      AND due <= %(due_ms_max)s
    ORDER BY position LIMIT %(rows_max)s
  ) AS first
) AS counted
ORDER BY position, seq

-- name: scan
SELECT {entries_with_content}
FROM (
  SELECT *, sum(octet_length(content)) OVER (ORDER BY seq) - octet_length(content) AS before FROM (
    SELECT * FROM entries
    WHERE shard = %(shard)s AND seq > %(after)s AND seq <= %(upto)s
      AND position > coalesce(
        (SELECT voids.position FROM voids WHERE voids.shard = %(shard)s AND voids.queue = entries.queue), -1)
    ORDER BY seq LIMIT %(rows_max)s
  ) AS first
) AS counted
WHERE before < %(content_bytes_max)s
ORDER BY seq

-- name: by_position
-- In order from the first one on: "+ 0" keeps the planner from going by age and sorting.
(
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s AND position > %(after)s AND grp IS NULL
    AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
    AND enqueued + 0 BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
    AND (%(received)s::bool IS NULL OR (receives > 0) = %(received)s)
  ORDER BY position LIMIT %(rows_max)s
) UNION ALL (
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s AND position > %(after)s AND grp IS NOT NULL
    AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
    AND enqueued + 0 BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
    AND (%(received)s::bool IS NULL OR (receives > 0) = %(received)s)
  ORDER BY position LIMIT %(rows_max)s
)
ORDER BY position LIMIT %(rows_max)s

-- name: by_position_of_old
-- All there are up to an age, then put in order.
WITH old AS MATERIALIZED (
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s
    AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s AND position > %(after)s
    AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
    AND (%(received)s::bool IS NULL OR (receives > 0) = %(received)s)
)
SELECT * FROM old ORDER BY position LIMIT %(rows_max)s

-- name: count_old
SELECT count(*) FROM (
  SELECT 1 FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s
    AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s AND position > %(after)s
  ORDER BY enqueued LIMIT %(rows_max)s
) AS old

-- name: by_position_in_flight
WITH hidden AS MATERIALIZED (
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
    AND due > 0 AND receives > 0
    AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
)
SELECT * FROM hidden ORDER BY position LIMIT %(rows_max)s

-- name: by_age
SELECT {entries} FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s AND (enqueued, position) > (%(time_ms)s, %(position)s)
  AND enqueued <= %(enqueued_ms_max)s AND position > %(after)s
  AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
  AND (%(received)s::bool IS NULL OR (receives > 0) = %(received)s)
ORDER BY enqueued, position LIMIT %(rows_max)s

-- name: by_due_delayed
SELECT {entries} FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s AND (due, position) > (%(time_ms)s, %(position)s)
  AND due <= %(due_ms_max)s AND due > 0 AND receives = 0
  AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
ORDER BY due, position LIMIT %(rows_max)s

-- name: by_due_in_flight
SELECT {entries} FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s AND (due, position) > (%(time_ms)s, %(position)s)
  AND due <= %(due_ms_max)s AND due > 0 AND receives > 0
  AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
ORDER BY due, position LIMIT %(rows_max)s

-- name: by_due
(
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s AND (due, position) > (%(time_ms)s, %(position)s)
    AND due <= %(due_ms_max)s AND due > 0 AND receives = 0
    AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
  ORDER BY due, position LIMIT %(rows_max)s
) UNION ALL (
  SELECT {entries} FROM entries
  WHERE shard = %(shard)s AND queue = %(queue)s AND (due, position) > (%(time_ms)s, %(position)s)
    AND due <= %(due_ms_max)s AND due > 0 AND receives > 0
    AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s
  ORDER BY due, position LIMIT %(rows_max)s
)
ORDER BY due, position LIMIT %(rows_max)s

-- name: count_delayed
SELECT count(*) FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
  AND due > 0 AND receives = 0
  AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s

-- name: count_in_flight
SELECT count(*) FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
  AND due > 0 AND receives > 0
  AND position > %(after)s AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s

-- name: count
SELECT count(*) FROM entries
WHERE shard = %(shard)s AND queue = %(queue)s
  AND enqueued BETWEEN %(enqueued_ms_min)s AND %(enqueued_ms_max)s AND position > %(after)s
  AND due BETWEEN %(due_ms_min)s AND %(due_ms_max)s
  AND (%(received)s::bool IS NULL OR (receives > 0) = %(received)s)

-- name: lookup
SELECT {entries} FROM entries
WHERE shard = %(shard)s AND seq = ANY(%(seqs)s) AND queue = %(queue)s AND position > %(after)s

-- name: contents
SELECT seq, content FROM entries WHERE shard = %(shard)s AND seq = ANY(%(seqs)s)

-- name: dedup
SELECT queue, seq, digest, until_ms FROM dedup
WHERE shard = %(shard)s AND queue = %(queue)s
  AND seq > greatest(
    %(after)s, coalesce((SELECT seq FROM voids WHERE voids.shard = %(shard)s AND voids.queue = %(queue)s), 0))
  AND until_ms > %(now_ms)s
ORDER BY seq LIMIT %(rows_max)s
