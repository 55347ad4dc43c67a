-- name: create_table
-- The record of what was applied, so that nothing is applied twice.
CREATE TABLE IF NOT EXISTS oncebox_migrations (
    number BIGINT PRIMARY KEY,
    name TEXT NOT NULL,
    checksum TEXT NOT NULL,
    applied_at BIGINT NOT NULL
);

-- name: applied
-- What was applied, with its checksum.
SELECT number, checksum FROM oncebox_migrations ORDER BY number;

-- name: newest
-- The name of what was applied last.
SELECT name FROM oncebox_migrations ORDER BY number DESC LIMIT 1;

-- name: record
-- Remember that a migration was applied.
INSERT INTO oncebox_migrations (number, name, checksum, applied_at)
VALUES (:number, :name, :checksum, :now);

-- name: keep_fact
-- Write down a fact about the installation unless it is known already.
INSERT INTO oncebox_meta (name, value) VALUES (:name, :value) ON CONFLICT DO NOTHING;

-- name: fact
-- Read a fact about the installation.
SELECT value FROM oncebox_meta WHERE name = :name;

-- name: touch_fact
-- Write a fact as it is, to see whether commits go through.
UPDATE oncebox_meta SET value = value WHERE name = :name;
