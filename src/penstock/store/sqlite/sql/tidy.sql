-- name: grave
SELECT queue, position, seq FROM graveyard ORDER BY queue LIMIT 1

-- name: void_entries
-- A bite: so many rows, where a content that lies apart counts as one row for each KiB it takes to free.
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

-- name: close_grave
DELETE FROM graveyard WHERE queue = ?
