-- name: begin
-- Reserve a new idempotency key.
INSERT INTO oncebox_idempotency (tenant, route, key, body_hash, holder, started_at)
VALUES (:tenant, :route, :key, :body_hash, :holder, :now)
ON CONFLICT DO NOTHING;

-- name: known
-- The stored request of a key.
SELECT body_hash, holder, started_at, answer FROM oncebox_idempotency
WHERE tenant = :tenant AND route = :route AND key = :key;

-- name: take_over
-- Take over a request whose holder is lost, or that is old enough to be forgotten, unless
-- another process did so since it was read.
UPDATE oncebox_idempotency
SET body_hash = :body_hash, holder = :holder, started_at = :now, finished_at = NULL, answer = NULL
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :seen
    AND (started_at <= :forgotten OR (answer IS NULL AND started_at <= :lost));

-- name: finish
-- Store the first response; only the holder of the request may.
UPDATE oncebox_idempotency SET answer = :answer, finished_at = :now
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :holder
    AND answer IS NULL;

-- name: abandon
-- Delete a request that created nothing, so that it may be repeated.
DELETE FROM oncebox_idempotency
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :holder
    AND answer IS NULL;

-- name: forget
-- Delete old requests, some at a time.
WITH past AS MATERIALIZED (
    SELECT tenant, route, key FROM oncebox_idempotency WHERE started_at <= :before
    ORDER BY started_at LIMIT :most
)
DELETE FROM oncebox_idempotency
WHERE started_at <= :before AND (tenant, route, key) IN (SELECT tenant, route, key FROM past);
