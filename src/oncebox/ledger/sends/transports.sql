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

-- name: failover
-- The transports that a send may move to, the first one first: of the group of its own, working, and
-- signing if it must be signed. Resend signs by itself. The log transport does not count.
SELECT other.name FROM oncebox_sends AS moves
JOIN oncebox_transports AS own ON own.tenant = moves.tenant AND own.name = moves.transport
JOIN oncebox_transports AS other ON other.tenant = moves.tenant AND other.name <> own.name
    AND other.failover_group = own.failover_group
WHERE moves.tenant = :tenant AND moves.id = :id AND moves.pinned = 0 AND moves.in_doubt_at IS NULL
    AND own.failover_group <> '' AND other.kind <> 'log' AND other.paused = 0
    AND (other.rests_until IS NULL OR other.rests_until <= :now)
    AND (moves.must_sign = 0 OR other.kind = 'resend' OR EXISTS (
        SELECT 1 FROM oncebox_signing_domains AS signs
        WHERE signs.tenant = other.tenant AND signs.transport = other.name
            AND replace(replace(moves.message_id, '@', '.'), '.' || signs.domain || '>', '')
                <> replace(moves.message_id, '@', '.')))
ORDER BY other.position, other.name LIMIT 1;

-- name: stranded
-- Sends of all tenants that wait for a resting transport, and the transports they may move to, with
-- the conditions of `failover`.
SELECT waits.tenant, waits.id, other.position, other.name FROM oncebox_sends AS waits
JOIN oncebox_transports AS way ON way.tenant = waits.tenant AND way.name = waits.transport
JOIN oncebox_transports AS other ON other.tenant = waits.tenant AND other.name <> way.name
    AND other.failover_group = way.failover_group
-- The first condition selects the index of claimable sends.
WHERE waits.state IN ('pending', 'unknown') AND waits.state = 'pending'
    AND waits.in_doubt_at IS NULL AND waits.due_at IS NOT NULL AND waits.due_at <= :now
    AND waits.pinned = 0 AND way.failover_group <> '' AND way.rests_until > :now AND way.paused = 0
    AND other.kind <> 'log' AND other.paused = 0 AND other.rests_until IS NULL
    AND (waits.must_sign = 0 OR other.kind = 'resend' OR EXISTS (
        SELECT 1 FROM oncebox_signing_domains AS signs
        WHERE signs.tenant = other.tenant AND signs.transport = other.name
            AND replace(replace(waits.message_id, '@', '.'), '.' || signs.domain || '>', '')
                <> replace(waits.message_id, '@', '.')))
LIMIT :most /* postgres: FOR UPDATE OF waits SKIP LOCKED */;

-- name: divert
-- bulk: tenant text, id text, name text
-- Move sends to another transport of their group; only sends that were never accepted may move, no
-- pinned one, and one that must be signed only to a transport that signs it.
UPDATE oncebox_sends SET transport = :name
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'pending' AND in_doubt_at IS NULL AND pinned = 0
    AND (SELECT other.position FROM oncebox_transports AS own
        JOIN oncebox_transports AS other ON other.tenant = own.tenant
            AND other.failover_group = own.failover_group
        WHERE own.tenant = oncebox_sends.tenant AND own.name = oncebox_sends.transport
            AND own.failover_group <> '' AND other.name = :name
            AND (oncebox_sends.must_sign = 0 OR other.kind = 'resend' OR EXISTS (
                SELECT 1 FROM oncebox_signing_domains AS signs
                WHERE signs.tenant = other.tenant AND signs.transport = other.name
                    AND replace(replace(oncebox_sends.message_id, '@', '.'),
                        '.' || signs.domain || '>', '')
                        <> replace(oncebox_sends.message_id, '@', '.')))
    ) IS NOT NULL;

-- name: forget_signing
-- Remove the domains that a transport signed for.
DELETE FROM oncebox_signing_domains WHERE tenant = :tenant AND transport = :name;

-- name: add_signing
-- bulk: domain text
-- Store the domains that a transport signs for.
INSERT INTO oncebox_signing_domains (tenant, transport, domain)
SELECT CAST(:tenant AS TEXT), CAST(:name AS TEXT), :domain /* from rows */
WHERE CAST(:tenant AS TEXT) IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: require_signature
-- Mail that waits for a transport must be signed if that signs for its sender now.
UPDATE oncebox_sends SET must_sign = 1
WHERE tenant = :tenant AND transport = :name AND state IN ('pending', 'unknown')
    AND due_at IS NOT NULL AND due_at > 0 AND must_sign = 0
    AND EXISTS (SELECT 1 FROM oncebox_signing_domains AS signs
        WHERE signs.tenant = oncebox_sends.tenant AND signs.transport = oncebox_sends.transport
            AND replace(replace(message_id, '@', '.'), '.' || signs.domain || '>', '')
                <> replace(message_id, '@', '.'));

-- name: signing
-- The domains that the transports of a tenant sign for.
SELECT transport, domain FROM oncebox_signing_domains WHERE tenant = :tenant
ORDER BY transport, domain;

-- name: add
-- Store a new transport, unless its name is known.
INSERT INTO oncebox_transports (tenant, name, kind, config, position, rate, rate_within, allowance,
    refilled_at, created_at, changed_at, failover_group)
VALUES (:tenant, :name, :kind, :config, :position, :rate, :rate_within, :allowance, :now, :now,
    :now, :failover_group)
ON CONFLICT DO NOTHING;

-- name: change
-- Replace a transport and close its circuit breaker, so that it is tried at once.
UPDATE oncebox_transports
SET kind = :kind, config = :config, position = :position, rate = :rate,
    rate_within = :rate_within, allowance = :allowance, refilled_at = :now, failures = 0,
    rests = 0, rests_until = NULL, probing = 0, failover_group = :failover_group,
    changed_at = CASE WHEN changed_at < :now THEN :now ELSE changed_at + 1 END
WHERE tenant = :tenant AND name = :name
    AND (CAST(:seen AS BIGINT) IS NULL OR changed_at = :seen);

-- name: lock_sends
-- only: postgres
-- Wait for whoever stores or changes sends, and keep them from it until the commit; reads go on. A
-- statement that waits here sees the transports as they are afterwards.
LOCK TABLE oncebox_sends IN SHARE MODE;

-- name: remove
-- Remove a transport that no send needs: none waits, is on its way or has an unknown outcome. Here
-- and below the tenant is written so that leased sends are found by their own index.
DELETE FROM oncebox_transports
WHERE tenant = :tenant AND name = :name
    AND NOT EXISTS (SELECT 1 FROM oncebox_sends AS waits
        WHERE waits.tenant = :tenant AND waits.transport = :name
            AND waits.state IN ('pending', 'unknown') AND waits.due_at IS NOT NULL)
    AND NOT EXISTS (SELECT 1 FROM oncebox_sends AS leased
        WHERE leased.state IN ('claimed', 'sending') AND leased.due_at IS NOT NULL
            AND leased.tenant || '' = :tenant AND leased.transport = :name)
    AND NOT EXISTS (SELECT 1 FROM oncebox_sends AS doubtful
        WHERE doubtful.state = 'unknown' AND doubtful.tenant = :tenant
            AND doubtful.transport = :name);

-- name: count_needing
-- How many sends wait for a transport, are on their way by it, or have an unknown outcome.
SELECT
    (SELECT COUNT(*) FROM (SELECT 1 AS one FROM oncebox_sends
        WHERE tenant = :tenant AND transport = :name AND state IN ('pending', 'unknown')
            AND due_at IS NOT NULL AND state = 'pending' LIMIT :most) AS waiting),
    (SELECT COUNT(*) FROM (SELECT 1 AS one FROM oncebox_sends
        WHERE state IN ('claimed', 'sending') AND due_at IS NOT NULL
            AND tenant || '' = :tenant AND transport = :name LIMIT :most) AS leased),
    (SELECT COUNT(*) FROM (SELECT 1 AS one FROM oncebox_sends
        WHERE state = 'unknown' AND tenant = :tenant AND transport = :name
        LIMIT :most) AS doubtful);

-- name: pause
-- Pause or resume claims for a transport.
UPDATE oncebox_transports SET paused = :paused, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: one
-- One transport.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at, failover_group
FROM oncebox_transports WHERE tenant = :tenant AND name = :name;

-- name: in_order
-- The transports of a tenant, in order of preference.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at, failover_group
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
    rests_until, created_at, changed_at, failover_group
FROM oncebox_transports WHERE kind = :kind ORDER BY tenant, name;

-- name: every
-- The transports of all tenants, in order of preference.
SELECT tenant, name, kind, config, position, rate, rate_within, paused, failures, rests,
    rests_until, created_at, changed_at, failover_group
FROM oncebox_transports ORDER BY tenant, position, name;
