-- name: create_table
-- The table of applied migrations; each is applied once.
CREATE TABLE IF NOT EXISTS oncebox_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL
);

-- name: applied
-- The applied migrations with their checksums.
SELECT number, checksum FROM oncebox_migrations ORDER BY number;

-- name: newest
-- The name of the last applied migration.
SELECT name FROM oncebox_migrations ORDER BY number DESC LIMIT 1;

-- name: record
-- Record a migration: applied, or begun.
INSERT INTO oncebox_migrations (number, name, checksum, applied_at)
VALUES (:number, :name, :checksum, :now)
ON CONFLICT (number) DO UPDATE SET checksum = excluded.checksum, applied_at = excluded.applied_at;

-- name: keep_fact
-- Record a fact about the installation, unless it is known.
INSERT INTO oncebox_meta (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING;

-- name: fact
-- Read a fact about the installation.
SELECT value FROM oncebox_meta WHERE name = :name;

-- name: put_fact
-- Record a fact about the installation, in place of an earlier one.
INSERT INTO oncebox_meta (name, value) VALUES (:name, :value)
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: remove_fact
-- Forget a fact about the installation.
DELETE FROM oncebox_meta WHERE name = :name;

-- name: touch_fact
-- Rewrite a fact unchanged, to test whether commits succeed.
UPDATE oncebox_meta SET value = value WHERE name = :name;
