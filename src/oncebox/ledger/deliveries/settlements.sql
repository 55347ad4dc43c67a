-- name: complete
-- bulk: id text, fence bigint, outcome text
-- spans: yes
-- Complete deliveries; only the current holder of the lease may.
UPDATE oncebox_deliveries
SET state = 'done', due_at = NULL, outcome = :outcome, ended_at = :now
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence;

-- name: fulfil
-- bulk: id text, fence bigint, outcome text
-- spans: yes
-- The same for deliveries with commit hooks; return those completed now, whose hooks must run.
UPDATE oncebox_deliveries
SET state = 'done', outcome = :outcome, ended_at = :now, due_at = NULL
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence
RETURNING id, fence;

-- name: settle
-- bulk: id text, fence bigint, state text, outcome text, error text, due_at bigint, not_before bigint, hold_reason text, uncounted bigint, heavy bigint
-- End tries in another way: retried, given up, held, returned to the queue, or done with a reason.
UPDATE oncebox_deliveries
SET state = :state, outcome = :outcome, last_error = COALESCE(:error, last_error),
    due_at = :due_at, not_before = :not_before, hold_reason = :hold_reason,
    held_at = CASE WHEN :state = 'held' THEN CAST(:now AS BIGINT) END,
    ended_at = CASE WHEN :state IN ('dead', 'done') THEN CAST(:now AS BIGINT) END,
    tries = tries - :uncounted, heavy = CASE WHEN :heavy = 1 THEN 1 ELSE heavy END
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence
RETURNING id;

-- name: record_try
-- bulk: id text, fence bigint, outcome text, error text, traceback text
-- Record a try that did not complete its delivery.
INSERT INTO oncebox_tries (
    delivery_id, fence, tenant, worker, claimed_at, ended_at, outcome, error, traceback
)
SELECT id, fence, tenant, worker, claimed_at, :now, :outcome, :error, :traceback
FROM oncebox_deliveries /* and rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence
ON CONFLICT DO NOTHING;

-- name: record_proof
-- bulk: id text, fence bigint, tenant text
-- Record the late success of a worker that lost its lease; as evidence, without a change of state.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, ended_at, outcome)
VALUES (:id, :fence, :tenant, :now, 'proof')
/* from rows */
ON CONFLICT DO NOTHING;

-- name: standing
-- bulk: id text
-- spans: yes
-- The states of deliveries, to distinguish a repeated settlement from a lost lease.
SELECT id, state, fence FROM oncebox_deliveries /* and rows */ WHERE id = :id;

-- name: allow
-- bulk: id text, fence bigint
-- Record that the policy accepted a delivery, so that later tries do not ask it again.
UPDATE oncebox_deliveries SET policy = 'allowed'
/* from rows */ WHERE id = :id AND state || '' = 'processing' AND fence = :fence;

-- name: begin
-- bulk: id text, fence bigint
-- Record that work on deliveries begins, so that the loss of its worker counts against them.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, worker, claimed_at, ended_at, outcome)
SELECT id, fence, tenant, worker, claimed_at, :now, 'begun'
FROM oncebox_deliveries /* and rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence
ON CONFLICT DO NOTHING;

-- name: begun_before
-- bulk: id text, fence bigint, tries bigint
-- How many of the last tries failed, or began and lost their worker.
SELECT :id, (
    SELECT COUNT(DISTINCT fence) FROM oncebox_tries AS past
    WHERE delivery_id = :id AND fence < :fence AND fence > :fence - :tries
        AND outcome IN ('begun', 'failed')
        AND NOT EXISTS (
            SELECT 1 FROM oncebox_tries AS ended
            WHERE ended.delivery_id = past.delivery_id AND ended.fence = past.fence
                AND ended.outcome = 'given_back'
        )
) /* from rows */;
