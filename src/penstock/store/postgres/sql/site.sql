-- name: find
SELECT to_regclass('site') IS NOT NULL

-- name: create
-- Who makes the site is decided by its one row, not by an advisory lock, which not every engine has.
CREATE TABLE IF NOT EXISTS site (
  id      int PRIMARY KEY,
  version int NOT NULL,  -- of the format; 0: its tables are still to be made
  shards  int NOT NULL
)

-- name: insert
INSERT INTO site (id, version, shards) VALUES (1, 0, %s) ON CONFLICT (id) DO NOTHING

-- name: lock
SELECT version, shards FROM site WHERE id = 1 FOR UPDATE

-- name: set_version
UPDATE site SET version = %s WHERE id = 1

-- name: prepare
-- For a connection: settings that the engine knows. Each statement has one good plan, along an index,
-- and statistics of a queue, which might tell otherwise, are out of date as soon as they are made. A statement that is cut off while it waits for
-- a standby counts as committed, so the server must cut none off.
SELECT set_config(wanted.name, wanted.value, false)
FROM (VALUES
  ('enable_seqscan', 'off'), ('enable_bitmapscan', 'off'), ('enable_sort', 'off'),
  ('enable_hashjoin', 'off'), ('enable_mergejoin', 'off'),
  ('plan_cache_mode', 'force_generic_plan'), ('jit', 'off'),
  ('statement_timeout', '0'), ('transaction_timeout', '0')
) AS wanted (name, value)
JOIN pg_settings ON pg_settings.name = wanted.name

-- name: durability
SELECT version(), current_setting('fsync', true), current_setting('synchronous_commit', true),
  current_setting('synchronous_standby_names', true)

-- name: users
-- Which processes are connected, as far as this user may see; a process has several connections.
SELECT DISTINCT coalesce(host(client_addr), 'this machine') FROM pg_stat_activity
WHERE datname = current_database() AND application_name = %(application)s AND pid <> pg_backend_pid()
ORDER BY 1
