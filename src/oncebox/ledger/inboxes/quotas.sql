-- name: add
-- bulk: tenant text, bytes bigint
-- Count raw mail of tenants.
INSERT INTO oncebox_quotas (tenant, stored_bytes) SELECT :tenant, :bytes
/* from rows */
WHERE true
ON CONFLICT (tenant) DO UPDATE SET stored_bytes = oncebox_quotas.stored_bytes + excluded.stored_bytes;

-- name: remove
-- bulk: tenant text, bytes bigint
-- Count raw mail that was deleted.
UPDATE oncebox_quotas
SET stored_bytes = CASE WHEN stored_bytes > :bytes THEN stored_bytes - :bytes ELSE 0 END
/* from rows */
WHERE oncebox_quotas.tenant = :tenant;

-- name: remove_from_inboxes
-- bulk: id text, bytes bigint
-- The same of inboxes.
UPDATE oncebox_inboxes
SET stored_bytes = CASE WHEN stored_bytes > :bytes THEN stored_bytes - :bytes ELSE 0 END
/* from rows */
WHERE oncebox_inboxes.id = :id;

-- name: one
-- How much raw mail a tenant has, and its own limit, if it has one.
SELECT stored_bytes, quota_bytes FROM oncebox_quotas WHERE tenant = :tenant;

-- name: every
-- The same of all tenants.
SELECT tenant, stored_bytes, quota_bytes FROM oncebox_quotas ORDER BY tenant;

-- name: set
-- Give a tenant a limit of its own, or none.
INSERT INTO oncebox_quotas (tenant, quota_bytes) VALUES (:tenant, :bytes)
ON CONFLICT (tenant) DO UPDATE SET quota_bytes = excluded.quota_bytes;
