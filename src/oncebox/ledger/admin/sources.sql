-- name: take_turn
-- Serialize changes of sources, and raise the version that readers compare.
INSERT INTO oncebox_meta (name, value) VALUES ('sources_revision', '1')
ON CONFLICT (name) DO UPDATE
SET value = CAST(CAST(oncebox_meta.value AS BIGINT) + 1 AS TEXT);

-- name: revision
-- The version, which rises with every change of a source.
SELECT value FROM oncebox_meta WHERE name = 'sources_revision';

-- name: everything
-- Every source of the installation with its secrets, newest secret first.
SELECT source.tenant, source.name, source.public_id, source.settings, source.paused,
    source.created_at, source.changed_at,
    secret.id, secret.sealed, secret.reference, secret.created_at, secret.retired_at
FROM oncebox_sources AS source
LEFT JOIN oncebox_source_secrets AS secret
    ON secret.tenant = source.tenant AND secret.source = source.name
ORDER BY source.tenant, source.name, secret.id DESC;

-- name: by_name
-- One source with its secrets, newest secret first.
SELECT source.tenant, source.name, source.public_id, source.settings, source.paused,
    source.created_at, source.changed_at,
    secret.id, secret.sealed, secret.reference, secret.created_at, secret.retired_at
FROM oncebox_sources AS source
LEFT JOIN oncebox_source_secrets AS secret
    ON secret.tenant = source.tenant AND secret.source = source.name
WHERE source.tenant = :tenant AND source.name = :name
ORDER BY secret.id DESC;

-- name: by_public_id
-- The owner of a public id; public ids are unique in the installation.
SELECT tenant, name FROM oncebox_sources WHERE public_id = :public_id;

-- name: add
-- Insert a new source, unless its name or public id is taken.
INSERT INTO oncebox_sources (tenant, name, public_id, settings, paused, created_at, changed_at)
VALUES (:tenant, :name, :public_id, :settings, :paused, :now, :now)
ON CONFLICT DO NOTHING;

-- name: change
-- Update a source.
UPDATE oncebox_sources SET settings = :settings, paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: remove
-- Delete a source; its deliveries stay.
DELETE FROM oncebox_sources WHERE tenant = :tenant AND name = :name;

-- name: remove_secrets
-- Delete the secrets of a source.
DELETE FROM oncebox_source_secrets WHERE tenant = :tenant AND source = :name;

-- name: add_secret
-- Insert a secret of an existing source.
INSERT INTO oncebox_source_secrets (id, tenant, source, sealed, reference, created_at)
SELECT :id, :tenant, :name, :sealed, :reference, CAST(:now AS BIGINT)
WHERE EXISTS (SELECT 1 FROM oncebox_sources WHERE tenant = :tenant AND name = :name);

-- name: retire_secret
-- Retire a secret at a given time; an earlier end is never postponed.
UPDATE oncebox_source_secrets SET retired_at = :at
WHERE tenant = :tenant AND source = :name AND id = :id
    AND (retired_at IS NULL OR retired_at > :at);

-- name: erase_retired
-- Erase the values of retired secrets.
UPDATE oncebox_source_secrets SET sealed = NULL
WHERE retired_at IS NOT NULL AND sealed IS NOT NULL AND retired_at <= :now;
