-- name: begin
-- bulk: delivery_id text, name text, tenant text, safe text, fence bigint, now bigint, surely_over_at bigint
-- Journal an effect before it is called, unless it is journalled already; only the current
-- holder of the lease may.
INSERT INTO oncebox_effects (
    delivery_id, name, tenant, state, safe, fence, first_started_at, started_at, surely_over_at
)
SELECT :delivery_id, :name, :tenant, 'started', :safe, :fence, :now, :now, :surely_over_at
/* from rows */
WHERE EXISTS (
    SELECT 1 FROM oncebox_deliveries
    WHERE id = :delivery_id AND fence = :fence AND state = 'processing'
)
ON CONFLICT DO NOTHING;

-- name: begin_again
-- bulk: delivery_id text, name text, safe text, fence bigint, now bigint, surely_over_at bigint, seen bigint
-- Start an effect anew: proven not done, or safe to repeat with the same key; not if somebody
-- has begun it anew since it was looked at. No two starts have the same time. What was proven
-- not done leaves no doubt behind, so the first start is this one then.
UPDATE oncebox_effects
SET state = 'started', safe = :safe, fence = :fence,
    first_started_at = CASE
        WHEN state = 'started' THEN first_started_at
        WHEN started_at < :now THEN :now ELSE started_at + 1 END,
    started_at = CASE WHEN started_at < :now THEN :now ELSE started_at + 1 END,
    surely_over_at = :surely_over_at, ended_at = NULL, error = NULL
/* from rows */
WHERE delivery_id = :delivery_id AND name = :name AND state IN ('started', 'not_done')
    AND fence = :seen
    AND EXISTS (
        SELECT 1 FROM oncebox_deliveries AS current
        WHERE current.id = :delivery_id AND current.fence = :fence
            AND current.state = 'processing'
    );

-- name: journalled
-- bulk: delivery_id text, name text
-- What the journal says of effects.
SELECT delivery_id, name, state, safe, fence, first_started_at, started_at, surely_over_at,
    ended_at, result, error
FROM oncebox_effects /* and rows */
WHERE delivery_id = :delivery_id AND name = :name;

-- name: finish
-- bulk: delivery_id text, name text, fence bigint, state text, now bigint, result bytea, error text, since bigint, started_at bigint
-- Record how a started effect ended. Success is proof and is taken even from a stale worker,
-- whatever was thought before; any other word only while nobody has begun the effect anew, and
-- only of the start it is meant for. What is done stays done. Where a repeat did not happen, the
-- call it repeats may still have: that stays in doubt.
UPDATE oncebox_effects
SET state = :state, ended_at = :now, result = :result, error = :error
/* from rows */
WHERE delivery_id = :delivery_id AND name = :name
    AND ((:state = 'done' AND state <> 'done') OR (
        state = 'started' AND fence BETWEEN :since AND :fence
        AND started_at = COALESCE(:started_at, started_at)
        AND (:state <> 'not_done' OR safe <> 'idempotent' OR first_started_at = started_at)
    ));

-- name: of_delivery
-- The journal of one delivery, in the order it was written.
SELECT name, state, safe, fence, first_started_at, started_at, surely_over_at, ended_at, result,
    error
FROM oncebox_effects WHERE tenant = :tenant AND delivery_id = :delivery_id
ORDER BY first_started_at, name;

-- name: current
-- bulk: delivery_id text
-- The fences of the leases that are held now.
SELECT id, fence FROM oncebox_deliveries /* and rows */
WHERE id = :delivery_id AND state = 'processing';

-- name: resolve
-- A person says how an effect in doubt ended.
UPDATE oncebox_effects SET state = :state, ended_at = :now
WHERE tenant = :tenant AND delivery_id = :delivery_id AND name = :name
    AND state IN ('started', 'unknown');

-- name: hold_fence
-- Make sure, until the commit, that a fence is still the current one: an update that changes
-- nothing, on both databases.
UPDATE oncebox_deliveries SET fence = fence
WHERE id = :delivery_id AND fence = :fence AND state = 'processing';
