-- name: add
-- Insert a new domain, unless it exists.
INSERT INTO oncebox_domains (name, tenant, created_at) VALUES (:name, :tenant, :now)
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
