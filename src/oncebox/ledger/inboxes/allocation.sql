-- name: lock
-- Add domains one after the other, so that none overlaps with one that is being added.
INSERT INTO oncebox_meta (name, value) VALUES ('domains_lock', '')
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- name: add
-- Insert a new domain, unless it exists, or another tenant has one above or below it.
INSERT INTO oncebox_domains (name, tenant, created_at)
SELECT :name, :tenant, :now
WHERE NOT EXISTS (
    SELECT 1 FROM oncebox_domains AS other
    WHERE other.tenant <> :tenant AND (
        other.name LIKE '%.' || CAST(:name AS TEXT) OR CAST(:name AS TEXT) LIKE '%.' || other.name
    )
)
ON CONFLICT DO NOTHING;

-- name: one
-- One domain, if it is the tenant's.
SELECT name, tenant, catch_all, created_at FROM oncebox_domains
WHERE name = :name AND tenant = :tenant;

-- name: of_tenant
-- The domains of a tenant, by name.
SELECT name, tenant, catch_all, created_at FROM oncebox_domains
WHERE tenant = :tenant ORDER BY name;

-- name: set_catch_all
-- Set the catch-all inbox of a domain, unless it has one.
UPDATE oncebox_domains SET catch_all = :catch_all
WHERE name = :name AND tenant = :tenant AND catch_all IS NULL;

-- name: remove
-- Delete a domain; its inboxes remain readable.
DELETE FROM oncebox_domains WHERE name = :name AND tenant = :tenant;
