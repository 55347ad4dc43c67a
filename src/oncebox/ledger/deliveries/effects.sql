-- name: begin
-- bulk: delivery_id text, name text, tenant text, safe text, fence bigint, now bigint, surely_over_at bigint
-- spans: yes
-- Journal an effect before it is called, unless it is journalled already; only the current
-- holder of the lease may.
INSERT INTO oncebox_effects (
    delivery_id, name, tenant, state, safe, fence, first_started_at, started_at, surely_over_at
)
SELECT :delivery_id, :name, :tenant, 'started', :safe, :fence, :now, :now, :surely_over_at
/* from rows */
WHERE EXISTS (
    SELECT 1 FROM oncebox_deliveries
    WHERE id = :delivery_id AND fence = :fence AND state || '' = 'processing'
)
ON CONFLICT DO NOTHING;

-- name: begin_again
-- bulk: delivery_id text, name text, safe text, fence bigint, now bigint, surely_over_at bigint, seen bigint
-- Start an effect again: proven not done, or safe to repeat with the same key; not if another
-- worker has started it again since it was read. No two starts have the same time. After a proof
-- that it was not done, its first start is this one.
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
            AND current.state || '' = 'processing'
    );

-- name: journalled
-- bulk: delivery_id text, name text
-- spans: yes
-- The journal entries of effects.
SELECT delivery_id, name, state, safe, fence, first_started_at, started_at, surely_over_at,
    ended_at, result, error
FROM oncebox_effects /* and rows */
WHERE delivery_id = :delivery_id AND name = :name;

-- name: finish
-- bulk: delivery_id text, name text, fence bigint, state text, now bigint, result bytea, error text, since bigint, started_at bigint
-- spans: yes
-- Record the outcome of a started effect. Success is proof and is accepted even from a stale
-- worker, in any state; any other outcome only if the effect was not started again, and only for
-- the start it belongs to. A done effect stays done. If a repeat did not happen, the call that it
-- repeats may have: its outcome stays unknown.
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
-- The fences of the current leases.
SELECT id, fence FROM oncebox_deliveries /* and rows */
WHERE id = :delivery_id AND state || '' = 'processing';

-- name: resolve
-- Record an operator's decision on an effect of unknown outcome, and its result if it is known.
UPDATE oncebox_effects SET state = :state, ended_at = :now, result = :result
WHERE tenant = :tenant AND delivery_id = :delivery_id AND name = :name
    AND state IN ('started', 'unknown');

-- name: hold_fence
-- Lock a delivery until the commit if the fence is current: an update that changes nothing, on
-- both databases.
UPDATE oncebox_deliveries SET fence = fence
WHERE id = :delivery_id AND fence = :fence AND state || '' = 'processing';
