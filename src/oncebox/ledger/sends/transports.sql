-- name: look
-- Rate limit and circuit breaker of a transport.
SELECT rate, rests_until FROM oncebox_transports WHERE tenant = :tenant AND name = :name;

-- name: open
-- Refill the allowance, up to the rate. The row is locked for other claims of this transport until
-- the commit, so that two never use the same allowance. A clock that steps back a little adds
-- nothing; one that was far ahead is not waited for.
UPDATE oncebox_transports
SET allowance = CASE
        WHEN rate IS NULL OR :now <= refilled_at THEN allowance
        WHEN allowance + (:now - refilled_at) * rate < rate * rate_within
            THEN allowance + (:now - refilled_at) * rate
        ELSE rate * rate_within
    END,
    refilled_at = CASE
        WHEN :now > refilled_at OR :now < refilled_at - rate_within THEN CAST(:now AS BIGINT)
        ELSE refilled_at
    END
WHERE tenant = :tenant AND name = :name
RETURNING rate, rate_within, allowance, paused, rests_until;

-- name: take
-- Take from the allowance, never more than there is.
UPDATE oncebox_transports SET allowance = allowance - :taken * rate_within
WHERE tenant = :tenant AND name = :name AND allowance >= :taken * rate_within;

-- name: probe
-- After a rest one send tests the transport; the others wait for its outcome.
UPDATE oncebox_transports SET rests_until = :until, probing = 1
WHERE tenant = :tenant AND name = :name AND rests_until <= :now;

-- name: succeed
-- bulk: tenant text, name text
-- Reset the circuit breaker of a working transport.
UPDATE oncebox_transports SET failures = 0, rests = 0, rests_until = NULL, probing = 0
/* from rows */
WHERE tenant = :tenant AND name = :name AND (failures > 0 OR rests_until IS NOT NULL);

-- name: fail
-- bulk: tenant text, name text, count bigint
-- Count failures.
UPDATE oncebox_transports SET failures = failures + :count
/* from rows */
WHERE tenant = :tenant AND name = :name;

-- name: rest
-- bulk: tenant text, name text, at_once bigint
-- Open the circuit breaker: after too many failures, after a failed probe, or at once for a failure
-- that lasts until somebody fixes it; twice as long as the last time. Failures during a rest are of
-- earlier tries.
UPDATE oncebox_transports
SET probing = 0, rests = rests + 1,
    rests_until = CASE
        WHEN rests > 20 OR :first * (CAST(1 AS BIGINT) << CAST(rests AS INTEGER)) > :longest
            THEN CAST(:now AS BIGINT) + :longest
        ELSE CAST(:now AS BIGINT) + :first * (CAST(1 AS BIGINT) << CAST(rests AS INTEGER))
    END
/* from rows */
WHERE tenant = :tenant AND name = :name AND (rests_until IS NULL OR probing = 1)
    AND (:at_once = 1 OR probing = 1 OR failures >= :threshold);

-- name: stranded
-- Sends of all tenants that wait for a resting transport while another one works; the log transport
-- does not count.
SELECT waits.tenant, waits.id, (SELECT other.name FROM oncebox_transports AS other
    WHERE other.tenant = waits.tenant AND other.name <> waits.transport AND other.kind <> 'log'
        AND other.paused = 0 AND other.rests_until IS NULL
    ORDER BY other.position, other.name LIMIT 1)
FROM oncebox_sends AS waits
JOIN oncebox_transports AS way ON way.tenant = waits.tenant AND way.name = waits.transport
-- The first condition selects the index of claimable sends.
WHERE waits.state IN ('pending', 'unknown') AND waits.state = 'pending'
    AND waits.in_doubt_at IS NULL AND waits.due_at IS NOT NULL AND waits.due_at <= :now
    AND way.rests_until > :now AND way.paused = 0
    AND EXISTS (SELECT 1 FROM oncebox_transports AS other
        WHERE other.tenant = waits.tenant AND other.name <> waits.transport
            AND other.kind <> 'log' AND other.paused = 0 AND other.rests_until IS NULL)
LIMIT :most /* postgres: FOR UPDATE OF waits SKIP LOCKED */;

-- name: divert
-- bulk: tenant text, id text, name text
-- Move sends to another transport; only sends that were never accepted may move.
UPDATE oncebox_sends SET transport = :name
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'pending' AND in_doubt_at IS NULL
    AND (SELECT way.position FROM oncebox_transports AS way
        WHERE way.tenant = oncebox_sends.tenant AND way.name = :name) IS NOT NULL;

-- name: add
-- Store a new transport, unless its name is known.
INSERT INTO oncebox_transports (tenant, name, kind, config, position, rate, rate_within, allowance,
    refilled_at, created_at, changed_at)
VALUES (:tenant, :name, :kind, :config, :position, :rate, :rate_within, :allowance, :now, :now,
    :now)
ON CONFLICT DO NOTHING;

-- name: change
-- Replace a transport and close its circuit breaker, so that it is tried at once.
UPDATE oncebox_transports
SET kind = :kind, config = :config, position = :position, rate = :rate,
    rate_within = :rate_within, allowance = :allowance, refilled_at = :now, failures = 0,
    rests = 0, rests_until = NULL, probing = 0,
    changed_at = CASE WHEN changed_at < :now THEN :now ELSE changed_at + 1 END
WHERE tenant = :tenant AND name = :name
    AND (CAST(:seen AS BIGINT) IS NULL OR changed_at = :seen);

-- name: pause
-- Pause or resume claims for a transport.
UPDATE oncebox_transports SET paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: one
-- One transport.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports WHERE tenant = :tenant AND name = :name;

-- name: in_order
-- The transports of a tenant, in order of preference.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports WHERE tenant = :tenant ORDER BY position, name;

-- name: waited_for
-- The transports of all tenants with claimable sends.
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
-- The transports of all tenants, in order of preference.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at
FROM oncebox_transports ORDER BY tenant, position, name;
