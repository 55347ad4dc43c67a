-- name: begin
-- Take a request that was never seen.
INSERT INTO oncebox_idempotency (tenant, route, key, body_hash, holder, started_at)
VALUES (:tenant, :route, :key, :body_hash, :holder, :now)
ON CONFLICT DO NOTHING;

-- name: known
-- What is known of a request.
SELECT body_hash, holder, started_at, answer FROM oncebox_idempotency
WHERE tenant = :tenant AND route = :route AND key = :key;

-- name: take_over
-- Take a request whose holder is lost, or that is so old that it counts as forgotten; not if
-- somebody else did since it was looked at.
UPDATE oncebox_idempotency
SET body_hash = :body_hash, holder = :holder, started_at = :now, finished_at = NULL, answer = NULL
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :seen
    AND (started_at <= :forgotten OR (answer IS NULL AND started_at <= :lost));

-- name: finish
-- Keep the first answer; only who holds the request may give it.
UPDATE oncebox_idempotency SET answer = :answer, finished_at = :now
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :holder
    AND answer IS NULL;

-- name: abandon
-- Forget a request that created nothing, so that it may be sent again.
DELETE FROM oncebox_idempotency
WHERE tenant = :tenant AND route = :route AND key = :key AND holder = :holder
    AND answer IS NULL;

-- name: forget
-- Forget old requests, some at a time.
DELETE FROM oncebox_idempotency
WHERE (tenant, route, key) IN (
    SELECT tenant, route, key FROM oncebox_idempotency WHERE started_at <= :before LIMIT :most
);
