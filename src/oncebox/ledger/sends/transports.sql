-- name: look
-- What limits a way, if anything does.
SELECT rate, rests_until FROM oncebox_transports WHERE tenant = :tenant AND name = :name;

-- name: open
-- Refill what may begin, up to all that the rate allows at once. The row is the lock of all who
-- claim by this way until the commit, so that two never take the same room. A clock that steps back
-- a little brings none; one that was far ahead is not waited for.
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
-- Take from what may begin; never more than is there.
UPDATE oncebox_transports SET allowance = allowance - :taken * rate_within
WHERE tenant = :tenant AND name = :name AND allowance >= :taken * rate_within;

-- name: probe
-- After a rest one send tries whether the way works again; the others wait until it is known.
UPDATE oncebox_transports SET rests_until = :until, probing = 1
WHERE tenant = :tenant AND name = :name AND rests_until <= :now;

-- name: succeed
-- bulk: tenant text, name text
-- The way works.
UPDATE oncebox_transports SET failures = 0, rests = 0, rests_until = NULL, probing = 0
/* from rows */
WHERE tenant = :tenant AND name = :name AND (failures > 0 OR rests_until IS NOT NULL);

-- name: fail
-- bulk: tenant text, name text, count bigint
-- Count failures of a way that goes on.
UPDATE oncebox_transports SET failures = failures + :count
/* from rows */
WHERE tenant = :tenant AND name = :name;

-- name: rest
-- bulk: tenant text, name text, at_once bigint
-- Let a way rest: after too many failures, after a probe that failed, or at once where nothing
-- will work until somebody mends it; twice as long as the last time. What fails while it rests
-- was begun before.
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
-- Sends of all tenants that wait for a way which rests, while another one works. What sends nothing
-- is no other way.
SELECT waits.tenant, waits.id, (SELECT other.name FROM oncebox_transports AS other
    WHERE other.tenant = waits.tenant AND other.name <> waits.transport AND other.kind <> 'log'
        AND other.paused = 0 AND other.rests_until IS NULL
    ORDER BY other.position, other.name LIMIT 1)
FROM oncebox_sends AS waits
JOIN oncebox_transports AS way ON way.tenant = waits.tenant AND way.name = waits.transport
-- The first words name the index of what may be claimed.
WHERE waits.state IN ('pending', 'unknown') AND waits.state = 'pending'
    AND waits.in_doubt_at IS NULL AND waits.due_at IS NOT NULL AND waits.due_at <= :now
    AND way.rests_until > :now AND way.paused = 0
    AND EXISTS (SELECT 1 FROM oncebox_transports AS other
        WHERE other.tenant = waits.tenant AND other.name <> waits.transport
            AND other.kind <> 'log' AND other.paused = 0 AND other.rests_until IS NULL)
LIMIT :most /* postgres: FOR UPDATE OF waits SKIP LOCKED */;

-- name: divert
-- bulk: tenant text, id text, name text
-- Let sends go another way. Nothing of them was ever taken by anybody: that is the guard.
UPDATE oncebox_sends SET transport = :name
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'pending' AND in_doubt_at IS NULL
    AND EXISTS (SELECT 1 FROM oncebox_transports AS way
        WHERE way.tenant = oncebox_sends.tenant AND way.name = :name);

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
