-- name: register
INSERT INTO nodes (id, address, version, proof, draining, renewed, until)
VALUES (%(id)s, %(address)s, %(version)s, %(proof)s, %(draining)s, clock_timestamp(),
  clock_timestamp() + %(valid_ms)s * interval '1 millisecond')

-- name: add_leases
INSERT INTO leases (shard, epoch, serving)
SELECT shard, 0, false FROM generate_series(0, %(shards)s - 1) AS shard
ON CONFLICT (shard) DO NOTHING

-- name: renew
-- Finds no row if the node was removed.
UPDATE nodes SET renewed = clock_timestamp(), until = clock_timestamp() + %(valid_ms)s * interval '1 millisecond'
WHERE id = %(id)s

-- name: remove_expired
-- A row that is renewed meanwhile is looked at again, and stays.
DELETE FROM nodes WHERE until < clock_timestamp()

-- name: nodes
SELECT id, address, version, draining,
  greatest(0, extract(epoch FROM clock_timestamp() - renewed) * 1000)::int8, coalesce(proof, '')
FROM nodes ORDER BY id

-- name: leases
SELECT shard, owner, epoch, serving, wish FROM leases ORDER BY shard

-- name: claim
-- Ids of nodes are never used twice: an owner without a row stays without one.
UPDATE leases SET owner = %(owner)s, epoch = epoch + 1, serving = false
WHERE shard = %(shard)s AND epoch = %(epoch)s
  AND NOT EXISTS (SELECT 1 FROM nodes WHERE nodes.id = leases.owner)

-- name: hand_over
UPDATE leases SET owner = %(target)s, epoch = epoch + 1, serving = false
WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s

-- name: serving
UPDATE leases SET serving = true WHERE shard = %(shard)s AND epoch = %(epoch)s AND owner = %(owner)s

-- name: leave
DELETE FROM nodes WHERE id = %(id)s

-- name: drain
UPDATE nodes SET draining = %(draining)s WHERE address = %(address)s

-- name: wish
UPDATE leases SET wish = %(address)s WHERE shard = %(shard)s
