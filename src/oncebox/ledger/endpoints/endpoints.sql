-- name: add
-- Store a new endpoint, unless its name is known.
INSERT INTO oncebox_endpoints (tenant, name, url, types, inbox_id, attempt_id, source, ordering,
    concurrency, secrets, since, created_at, changed_at)
VALUES (:tenant, :name, :url, :types, :inbox_id, :attempt_id, :source, :ordering, :concurrency,
    :secrets, :since, :now, :now)
ON CONFLICT DO NOTHING;

-- name: begin_cursor
-- Begin to read the events of a tenant, unless they are read already.
INSERT INTO oncebox_endpoint_cursors (tenant, cursor) VALUES (:tenant, :cursor)
ON CONFLICT DO NOTHING;

-- name: one
-- One endpoint.
SELECT name, url, types, inbox_id, attempt_id, source, ordering, concurrency, tenant, secrets,
    since, paused, failures, failed_at, succeeded_at, rests_until, created_at, changed_at
FROM oncebox_endpoints WHERE tenant = :tenant AND name = :name;

-- name: of_tenant
-- The endpoints of a tenant, by name.
SELECT name, url, types, inbox_id, attempt_id, source, ordering, concurrency, tenant, secrets,
    since, paused, failures, failed_at, succeeded_at, rests_until, created_at, changed_at
FROM oncebox_endpoints WHERE tenant = :tenant AND name > :after ORDER BY name LIMIT :most;

-- name: pause
-- Deliver nothing more.
UPDATE oncebox_endpoints SET paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name AND paused IS NULL;

-- name: resume
-- Deliver again, at once.
UPDATE oncebox_endpoints SET paused = NULL, failures = 0, rests_until = NULL, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: replace_secrets
-- Replace the secrets, unless they were changed meanwhile.
UPDATE oncebox_endpoints SET secrets = :secrets, changed_at = :now
WHERE tenant = :tenant AND name = :name AND secrets = :before;

-- name: remove
-- Forget an endpoint.
DELETE FROM oncebox_endpoints WHERE tenant = :tenant AND name = :name;

-- name: drop_waiting
-- End deliveries that wait for an endpoint, some at a time; those in progress end by themselves. In
-- no order: nobody else changes what waits for an endpoint that is gone.
UPDATE oncebox_deliveries
SET state = 'done', outcome = 'dropped', due_at = NULL, ended_at = :now, hold_reason = NULL,
    held_at = NULL, waits_for = NULL
WHERE id IN (
    SELECT id FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state || '' IN ('received', 'failed', 'held')
    LIMIT :most
);

-- name: busy
-- Endpoints that have something to do: deliveries that are due, if they may get them, or deliveries
-- whose worker was lost.
SELECT name, url, types, inbox_id, attempt_id, source, ordering, concurrency, tenant, secrets,
    since, paused, failures, failed_at, succeeded_at, rests_until, created_at, changed_at
FROM oncebox_endpoints AS place
WHERE (paused IS NULL AND (rests_until IS NULL OR rests_until <= :now) AND EXISTS (
        SELECT 1 FROM oncebox_deliveries AS due
        WHERE due.tenant = place.tenant AND due.source = :prefix || place.name AND due.heavy = 0
            AND due.state IN ('received', 'failed') AND due.due_at IS NOT NULL
            AND due.due_at <= :now
    )) OR EXISTS (
        SELECT 1 FROM oncebox_deliveries AS lost
        WHERE lost.tenant = place.tenant AND lost.source = :prefix || place.name
            AND lost.heavy = 0 AND lost.state = 'processing' AND lost.due_at <= :now
    );

-- name: succeed
-- bulk: tenant text, name text
-- An endpoint accepted a delivery: its breaker closes.
UPDATE oncebox_endpoints SET failures = 0, rests_until = NULL, succeeded_at = :now
/* from rows */
WHERE oncebox_endpoints.tenant = :tenant AND oncebox_endpoints.name = :name;

-- name: fail
-- bulk: tenant text, name text, count bigint
-- An endpoint refused deliveries, or did not answer.
UPDATE oncebox_endpoints SET failures = failures + :count, failed_at = :now
/* from rows */
WHERE oncebox_endpoints.tenant = :tenant AND oncebox_endpoints.name = :name
RETURNING oncebox_endpoints.tenant, oncebox_endpoints.name, failures, rests_until;

-- name: rest
-- bulk: tenant text, name text, until bigint
-- Open the breaker of an endpoint, unless it is open already.
UPDATE oncebox_endpoints SET rests_until = :until
/* from rows */
WHERE oncebox_endpoints.tenant = :tenant AND oncebox_endpoints.name = :name
    AND (rests_until IS NULL OR rests_until <= :now);

-- name: behind
-- Tenants with endpoints and events that are not delivered to them yet.
SELECT place.tenant FROM oncebox_endpoint_cursors AS place
JOIN oncebox_streams AS stream ON stream.tenant = place.tenant
WHERE stream.last > place.cursor ORDER BY place.tenant;

-- name: cursor
-- Up to which event the deliveries of a tenant are stored.
SELECT cursor FROM oncebox_endpoint_cursors WHERE tenant = :tenant;

-- name: advance
-- Advance the cursor of a tenant, unless another process has done so.
UPDATE oncebox_endpoint_cursors SET cursor = :upto WHERE tenant = :tenant AND cursor = :before;
