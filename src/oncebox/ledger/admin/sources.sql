-- name: take_turn
-- Let one change of sources follow another, and let every reader see that something changed.
INSERT INTO oncebox_meta (name, value) VALUES ('sources_revision', '1')
ON CONFLICT (name) DO UPDATE
SET value = CAST(CAST(oncebox_meta.value AS BIGINT) + 1 AS TEXT);

-- name: revision
-- A number that rises with every change of a source.
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
-- Whose source an address leads to; addresses are unique in the installation.
SELECT tenant, name FROM oncebox_sources WHERE public_id = :public_id;

-- name: add
-- Keep a new source, unless its name or its address is taken.
INSERT INTO oncebox_sources (tenant, name, public_id, settings, paused, created_at, changed_at)
VALUES (:tenant, :name, :public_id, :settings, :paused, :now, :now)
ON CONFLICT DO NOTHING;

-- name: change
-- Write a source anew.
UPDATE oncebox_sources SET settings = :settings, paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: remove
-- Forget a source; what it delivered stays.
DELETE FROM oncebox_sources WHERE tenant = :tenant AND name = :name;

-- name: remove_secrets
-- Forget the secrets of a source.
DELETE FROM oncebox_source_secrets WHERE tenant = :tenant AND source = :name;

-- name: add_secret
-- Keep a secret of a source that is there.
INSERT INTO oncebox_source_secrets (id, tenant, source, sealed, reference, created_at)
SELECT :id, :tenant, :name, :sealed, :reference, CAST(:now AS BIGINT)
WHERE EXISTS (SELECT 1 FROM oncebox_sources WHERE tenant = :tenant AND name = :name);

-- name: retire_secret
-- Let a secret count until a moment and no longer; an earlier end is never put off.
UPDATE oncebox_source_secrets SET retired_at = :at
WHERE tenant = :tenant AND source = :name AND id = :id
    AND (retired_at IS NULL OR retired_at > :at);

-- name: erase_retired
-- Erase the values of secrets whose time has passed.
UPDATE oncebox_source_secrets SET sealed = NULL
WHERE retired_at IS NOT NULL AND sealed IS NOT NULL AND retired_at <= :now;
