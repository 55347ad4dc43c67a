-- name: add
-- Make a tenant, unless it is there.
INSERT INTO oncebox_tenants (name, created_at) VALUES (:name, :now) ON CONFLICT DO NOTHING;

-- name: one
-- Whether there is such a tenant.
SELECT name FROM oncebox_tenants WHERE name = :name;

-- name: made
-- Every tenant that was made.
SELECT name, created_at FROM oncebox_tenants ORDER BY name;
