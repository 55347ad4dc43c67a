-- name: sqlite_version
-- The version of the SQLite library.
SELECT sqlite_version();

-- name: journal_mode
-- How SQLite keeps a commit safe; wal is meant.
PRAGMA journal_mode;

-- name: synchronous
-- How SQLite waits for the disk, as a number; 2 is FULL.
PRAGMA synchronous;

-- name: synchronous_commit
-- Whether PostgreSQL waits for the disk before it acknowledges.
SHOW synchronous_commit;

-- name: fsync
-- Whether PostgreSQL makes the disk write at all.
SHOW fsync;

-- name: full_page_writes
-- Whether PostgreSQL survives a page that was written by half.
SHOW full_page_writes;
