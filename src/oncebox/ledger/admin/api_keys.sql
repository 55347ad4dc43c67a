-- name: add
-- Store a new key.
INSERT INTO oncebox_keys (id, tenant, name, hint, digest, scopes, created_at, expires_at)
VALUES (:id, :tenant, :name, :hint, :digest, :scopes, :created_at, :expires_at);

-- name: by_digest
-- The key with this hash, of any tenant.
SELECT id, tenant, name, hint, scopes, created_at, expires_at, revoked_at, last_used_at, digest
FROM oncebox_keys WHERE digest = :digest;

-- name: of_tenant
-- The keys of a tenant, oldest first.
SELECT id, tenant, name, hint, scopes, created_at, expires_at, revoked_at, last_used_at
FROM oncebox_keys WHERE tenant = :tenant ORDER BY id;

-- name: one
-- One key of a tenant.
SELECT id, tenant, name, hint, scopes, created_at, expires_at, revoked_at, last_used_at
FROM oncebox_keys WHERE tenant = :tenant AND id = :id;

-- name: revoke
-- Revoke a key; the first revocation counts.
UPDATE oncebox_keys SET revoked_at = :now
WHERE tenant = :tenant AND id = :id AND revoked_at IS NULL;

-- name: discard
-- Delete a key that was never shown to anybody.
DELETE FROM oncebox_keys WHERE tenant = :tenant AND id = :id AND last_used_at IS NULL;

-- name: used
-- Record the last use of a key; an older time never replaces a newer one.
UPDATE oncebox_keys SET last_used_at = :now
WHERE tenant = :tenant AND id = :id AND (last_used_at IS NULL OR last_used_at < :now);

-- name: any
-- Whether this installation has any key yet.
SELECT id FROM oncebox_keys LIMIT 1;
