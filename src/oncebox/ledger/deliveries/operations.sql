-- name: record_end
-- Record the last try of a delivery that is restarted.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, worker, claimed_at, ended_at, outcome, error)
SELECT id, fence, tenant, worker, claimed_at, COALESCE(ended_at, :now), COALESCE(outcome, 'held'),
    last_error
FROM oncebox_deliveries WHERE id = :id AND tenant = :tenant AND fence > 0
ON CONFLICT DO NOTHING;

-- name: replay
-- Restart a delivery with fresh tries and time, unless its body was purged. A policy that dropped
-- it is not asked again, and it runs even if it is stale.
UPDATE oncebox_deliveries
SET state = 'received', due_at = CASE WHEN lane IS NULL THEN CAST(:now AS BIGINT) END, tries = 0,
    give_up_at = NULL, not_before = NULL, ended_at = NULL, late = 1, skip_stale = 0, seen_at = NULL,
    policy = CASE WHEN outcome = 'dropped' THEN 'released' ELSE policy END, outcome = NULL
WHERE id = :id AND tenant = :tenant AND state IN ('done', 'dead') AND purged_at IS NULL
RETURNING id, tenant, source, lane;

-- name: hold
-- Hold a waiting delivery until an operator releases it. Time in the queue does not count, as
-- with a claim.
UPDATE oncebox_deliveries
SET state = 'held', hold_reason = :reason, held_at = :now, due_at = NULL,
    give_up_at = CASE WHEN due_at < :now THEN give_up_at + (:now - due_at) ELSE give_up_at END
WHERE id = :id AND tenant = :tenant AND state IN ('received', 'failed')
RETURNING id;

-- name: release
-- Release a held delivery; the time it was held does not count, and the policy that held it is
-- not asked again. It runs even if it is stale.
UPDATE oncebox_deliveries
SET state = 'received', outcome = NULL, skip_stale = 0,
    policy = CASE WHEN hold_reason LIKE 'policy:%' THEN 'released' ELSE policy END,
    hold_reason = NULL,
    due_at = CASE WHEN lane IS NULL THEN CAST(:now AS BIGINT) END,
    give_up_at = give_up_at + (:now - held_at), held_at = NULL
WHERE id = :id AND tenant = :tenant AND state || '' = 'held'
RETURNING id, tenant, source, lane, lane_position;

-- name: drop
-- End a held delivery without running it; only a replay runs it then.
UPDATE oncebox_deliveries
SET state = 'done', outcome = 'dropped', ended_at = :now, hold_reason = NULL, held_at = NULL
WHERE id = :id AND tenant = :tenant AND state || '' = 'held'
RETURNING tenant, source, lane, lane_position, type, sequence;

-- name: see
-- Record that an operator acknowledged a dead delivery.
UPDATE oncebox_deliveries SET seen_at = COALESCE(seen_at, :now)
WHERE id = :id AND tenant = :tenant AND state || '' = 'dead'
RETURNING id;
