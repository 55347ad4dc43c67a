-- name: add
-- Create a tenant, unless it exists.
INSERT INTO oncebox_tenants (name, created_at) VALUES (:name, :now) ON CONFLICT DO NOTHING;

-- name: one
-- Whether a tenant exists.
SELECT name FROM oncebox_tenants WHERE name = :name;

-- name: made
-- All tenants that were created.
SELECT name, created_at FROM oncebox_tenants ORDER BY name;
