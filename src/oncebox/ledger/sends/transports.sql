-- name: add
-- Keep a new transport, unless its name is taken.
INSERT INTO oncebox_transports (tenant, name, kind, config, position, rate, rate_within, allowance,
    refilled_at, created_at, changed_at)
VALUES (:tenant, :name, :kind, :config, :position, :rate, :rate_within, :allowance, :now, :now,
    :now)
ON CONFLICT DO NOTHING;

-- name: change
-- Write a transport anew; one that rested because it was configured wrongly is tried at once.
UPDATE oncebox_transports
SET kind = :kind, config = :config, position = :position, rate = :rate,
    rate_within = :rate_within, allowance = :allowance, refilled_at = :now, failures = 0,
    rests = 0, rests_until = NULL, probing = 0,
    changed_at = CASE WHEN changed_at < :now THEN :now ELSE changed_at + 1 END
WHERE tenant = :tenant AND name = :name
    AND (CAST(:seen AS BIGINT) IS NULL OR changed_at = :seen);

-- name: pause
-- Let nothing more be claimed by this way, or let it again.
UPDATE oncebox_transports SET paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: one
-- One transport.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports WHERE tenant = :tenant AND name = :name;

-- name: in_order
-- The transports of a tenant, those that are taken first first.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports WHERE tenant = :tenant ORDER BY position, name;

-- name: waited_for
-- The ways of all tenants by which something could be claimed now.
SELECT way.tenant, way.name FROM oncebox_transports AS way
WHERE way.paused = 0 AND (way.rests_until IS NULL OR way.rests_until <= :now)
    AND EXISTS (SELECT 1 FROM oncebox_sends AS due
        WHERE due.tenant = way.tenant AND due.transport = way.name
            AND due.state IN ('pending', 'unknown') AND due.due_at IS NOT NULL
            AND due.due_at <= :now)
ORDER BY way.tenant, way.name;

-- name: of_kind
-- The transports of one kind, of all tenants.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports WHERE kind = :kind ORDER BY tenant, name;

-- name: every
-- The transports of all tenants, those that are taken first first.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports ORDER BY tenant, position, name;
