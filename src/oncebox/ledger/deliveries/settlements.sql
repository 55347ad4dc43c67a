-- name: complete
-- bulk: id text, fence bigint, outcome text
-- End deliveries well; only the current holder of the lease may.
UPDATE oncebox_deliveries
SET state = 'done', due_at = NULL, outcome = :outcome, ended_at = :now
/* from rows */
WHERE id = :id AND state = 'processing' AND fence = :fence;

-- name: fulfil
-- bulk: id text, fence bigint, outcome text
-- The same for those with deeds; say which ended just now, because only their deeds are due.
UPDATE oncebox_deliveries
SET state = 'done', outcome = :outcome, ended_at = :now, due_at = NULL
/* from rows */
WHERE id = :id AND state = 'processing' AND fence = :fence
RETURNING id, fence;

-- name: settle
-- bulk: id text, fence bigint, state text, outcome text, error text, due_at bigint, not_before bigint, hold_reason text, uncounted bigint
-- End tries otherwise: to be repeated, given up, held or given back, or done with a word why.
UPDATE oncebox_deliveries
SET state = :state, outcome = :outcome, last_error = COALESCE(:error, last_error),
    due_at = :due_at, not_before = :not_before, hold_reason = :hold_reason,
    held_at = CASE WHEN :state = 'held' THEN CAST(:now AS BIGINT) END,
    ended_at = CASE WHEN :state IN ('dead', 'done') THEN CAST(:now AS BIGINT) END,
    tries = tries - :uncounted
/* from rows */
WHERE id = :id AND state = 'processing' AND fence = :fence
RETURNING id;

-- name: record_try
-- bulk: id text, fence bigint, outcome text, error text
-- Remember a try that did not end its delivery well.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, worker, claimed_at, ended_at, outcome, error)
SELECT id, fence, tenant, worker, claimed_at, :now, :outcome, :error
FROM oncebox_deliveries /* and rows */
WHERE id = :id AND state = 'processing' AND fence = :fence
ON CONFLICT DO NOTHING;

-- name: record_proof
-- bulk: id text, fence bigint, tenant text
-- A worker that lost its lease reports success: kept as proof, changing no state.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, ended_at, outcome)
VALUES (:id, :fence, :tenant, :now, 'proof')
/* from rows */
ON CONFLICT DO NOTHING;

-- name: standing
-- bulk: id text
-- Where deliveries stand, to tell a repeated settlement from a lost lease.
SELECT id, state, fence FROM oncebox_deliveries /* and rows */ WHERE id = :id;

-- name: allow
-- bulk: id text, fence bigint
-- Remember that the policy let a delivery run, so that a later try is not asked again.
UPDATE oncebox_deliveries SET policy = 'allowed'
/* from rows */ WHERE id = :id AND state = 'processing' AND fence = :fence;
