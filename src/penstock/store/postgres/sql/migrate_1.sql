-- Format version 1 to 2: the row of a node proves that it knows the secret of the cluster.
ALTER TABLE nodes ADD COLUMN IF NOT EXISTS proof bytea
