-- name: add
-- Add an address; the first reason stays.
INSERT INTO oncebox_suppressions (tenant, mark, address, reason, send_id, created_at)
VALUES (:tenant, :mark, :address, :reason, :send_id, :now)
ON CONFLICT DO NOTHING;

-- name: remove
-- Remove an address.
DELETE FROM oncebox_suppressions WHERE tenant = :tenant AND mark = :mark;

-- name: page
-- Addresses in the order of their fingerprints, after one of them.
SELECT mark, address, reason, send_id, created_at FROM oncebox_suppressions
WHERE tenant = :tenant AND mark > :mark ORDER BY mark LIMIT :most;

-- name: one
-- One address on the list.
SELECT mark, address, reason, send_id, created_at FROM oncebox_suppressions
WHERE tenant = :tenant AND mark = :mark;
