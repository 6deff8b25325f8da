-- How many messages and bytes queues hold. Void rows, which purged and dropped queues left, are nobody's.

-- name: everything
SELECT json_group_array(json_array(queue, messages, bytes)) FROM (
  SELECT queue, count(*) AS messages,
    sum(coalesce(length(content), (SELECT length(content) FROM contents WHERE seq = entries.seq))) AS bytes
  FROM entries
  WHERE position > coalesce((SELECT position FROM graveyard WHERE queue = entries.queue), -1)
  GROUP BY queue
)

-- name: of_messages
SELECT json_group_array(json_array(queue, messages, bytes)) FROM (
  SELECT queue, count(*) AS messages,
    sum(coalesce(length(content), (SELECT length(content) FROM contents WHERE seq = entries.seq))) AS bytes
  FROM entries NOT INDEXED
  WHERE seq IN (SELECT value FROM json_each(:seqs))
    AND position > coalesce((SELECT position FROM graveyard WHERE queue = entries.queue), -1)
  GROUP BY queue
)

-- name: of_purged_queue
-- What came after the purge, or with it: next to nothing.
SELECT json_group_array(json_array(queue, messages, bytes)) FROM (
  SELECT queue, count(*) AS messages,
    sum(coalesce(length(content), (SELECT length(content) FROM contents WHERE seq = later.seq))) AS bytes
  FROM (
    SELECT queue, seq, content FROM entries
    WHERE queue = :queue AND grp IS NULL AND position > (SELECT position FROM graveyard WHERE queue = :queue)
    UNION ALL
    SELECT queue, seq, content FROM entries
    WHERE queue = :queue AND grp IS NOT NULL AND position > (SELECT position FROM graveyard WHERE queue = :queue)
  ) AS later
  GROUP BY queue
)
