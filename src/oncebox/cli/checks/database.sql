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

-- name: full_page_writes
-- Whether PostgreSQL survives a torn page.
SHOW full_page_writes;
