-- name: sqlite_version
-- The version of the SQLite library.
SELECT sqlite_version();

-- name: journal_mode
-- The journal mode of SQLite; it should be wal.
PRAGMA journal_mode;

-- name: synchronous
-- The synchronous mode of SQLite as a number; 2 is FULL.
PRAGMA synchronous;

-- name: synchronous_commit
-- Whether PostgreSQL waits for the disk before it acknowledges.
SHOW synchronous_commit;

-- name: fsync
-- Whether PostgreSQL forces writes to the disk at all.
SHOW fsync;

-- name: oldest_transaction
-- only: postgres
-- The oldest transaction from whose time on nothing is cleaned up, and when it began.
SELECT holder, CAST(extract(epoch FROM began) * 1000 AS BIGINT) FROM (
    SELECT 'session ' || pid || ' of ' || COALESCE(NULLIF(application_name, ''), 'a program')
        AS holder, xact_start AS began
    FROM pg_stat_activity
    WHERE (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL) AND pid <> pg_backend_pid()
        AND (datname = current_database() OR datname IS NULL) AND xact_start IS NOT NULL
    UNION ALL
    SELECT 'the prepared transaction ' || gid, prepared
    FROM pg_prepared_xacts WHERE database = current_database()
) AS open ORDER BY began LIMIT 1;

-- name: full_page_writes
-- Whether PostgreSQL survives a torn page.
SHOW full_page_writes;
