-- name: begin
-- bulk: tenant text, attempt_id text, name text, owner text, key text, safe text, mark bytea, until bigint, now bigint
-- Begin an action that was never begun, for an attempt of the requester.
INSERT INTO oncebox_actions (tenant, attempt_id, name, state, safe, holder, request_mark, fence,
    lease_until, first_started_at, started_at)
SELECT :tenant, :attempt_id, :name, 'started', :safe, :key, :mark, 1, :until, :now, :now
/* from rows */
WHERE EXISTS (
    SELECT 1 FROM oncebox_attempts AS whose
    WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
        AND (:owner IS NULL OR whose.owner = :owner)
)
ON CONFLICT DO NOTHING;

-- name: keep
-- bulk: tenant text, attempt_id text, name text, owner text, mark bytea, until bigint
-- Extend the lease for a repeat of the request that began it, whose response was lost.
UPDATE oncebox_actions
SET lease_until = CASE WHEN lease_until < :until THEN :until ELSE lease_until END
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state IN ('started', 'verifying') AND request_mark = :mark
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: again
-- bulk: tenant text, attempt_id text, name text, owner text, key text, safe text, mark bytea, until bigint, now bigint, since bigint
-- Begin again what is proven not done; take over an expired action if its holder and the requester
-- chose the same: repeat it with the same key within the window, or verify first. After a proof
-- that it was not done, its first start is this one.
UPDATE oncebox_actions
SET state = CASE WHEN state = 'not_done' OR safe = 'idempotent' THEN 'started' ELSE 'verifying' END,
    started_at = CASE
        WHEN state = 'not_done' OR safe = 'idempotent' THEN :now ELSE started_at END,
    first_started_at = CASE WHEN state = 'not_done' THEN :now ELSE first_started_at END,
    safe = :safe, holder = :key, request_mark = :mark, fence = fence + 1, lease_until = :until,
    ended_at = NULL
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND (state = 'not_done' OR (
        state IN ('started', 'verifying') AND lease_until <= :now AND safe = :safe
        AND (safe = 'verify' OR (safe = 'idempotent' AND first_started_at >= :since))
    ))
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: hold
-- bulk: tenant text, attempt_id text, name text, owner text, safe text, now bigint, since bigint
-- Hold expired actions that must not be repeated, for an operator.
UPDATE oncebox_actions SET state = 'unknown', ended_at = :now
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state IN ('started', 'verifying') AND lease_until <= :now
    AND NOT (safe = :safe
        AND (safe = 'verify' OR (safe = 'idempotent' AND first_started_at >= :since)))
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    )
RETURNING tenant, attempt_id, name;

-- name: known
-- bulk: tenant text, attempt_id text, name text
-- Actions, their owners, and the requests that hold them.
SELECT action.tenant, action.attempt_id, action.name, action.state, action.safe, action.holder,
    action.fence, action.lease_until, action.first_started_at, action.started_at,
    action.ended_at, action.result, whose.owner, action.request_mark
FROM oncebox_actions AS action
JOIN oncebox_attempts AS whose
    ON whose.tenant = action.tenant AND whose.attempt_id = action.attempt_id
/* and rows */
WHERE action.tenant = :tenant AND action.attempt_id = :attempt_id AND action.name = :name;

-- name: prove
-- bulk: tenant text, attempt_id text, name text, owner text, fence bigint, now bigint, result bytea
-- Record success. It is proof and is accepted from every holder, past or present; a done action
-- keeps its first result.
UPDATE oncebox_actions SET state = 'done', ended_at = :now, result = :result
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state <> 'done' AND :fence <= fence
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: deny
-- bulk: tenant text, attempt_id text, name text, owner text, fence bigint, now bigint
-- Record that an action did not happen; only its holder may. If a repeat did not happen, the start
-- that it repeats may have: then it is released instead.
UPDATE oncebox_actions SET state = 'not_done', ended_at = :now, lease_until = :now
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state IN ('started', 'verifying') AND fence = :fence
    AND NOT (state = 'started' AND safe = 'idempotent' AND first_started_at < started_at)
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: give_back
-- bulk: tenant text, attempt_id text, name text, owner text, fence bigint, now bigint
-- Let the next caller repeat at once what the holder did not repeat.
UPDATE oncebox_actions SET lease_until = :now, request_mark = :nothing
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state = 'started' AND safe = 'idempotent' AND first_started_at < started_at
    AND fence = :fence
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: renew
-- bulk: tenant text, attempt_id text, name text, owner text, fence bigint, until bigint
-- Extend leases that were not taken over.
UPDATE oncebox_actions
SET lease_until = CASE WHEN lease_until < :until THEN :until ELSE lease_until END
/* from rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND state IN ('started', 'verifying') AND fence = :fence
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS whose
        WHERE whose.tenant = :tenant AND whose.attempt_id = :attempt_id
            AND (:owner IS NULL OR whose.owner = :owner)
    );

-- name: newest
-- Actions of a tenant, the last begun first; most are done.
SELECT tenant, attempt_id, name, state, safe, holder, fence, lease_until, first_started_at,
    started_at, ended_at, result
FROM oncebox_actions
WHERE tenant = :tenant AND (CAST(:state AS TEXT) IS NULL OR state = :state)
ORDER BY tenant DESC, started_at DESC LIMIT :most;

-- name: newest_open
-- The same for those that are not done, which are few.
SELECT tenant, attempt_id, name, state, safe, holder, fence, lease_until, first_started_at,
    started_at, ended_at, result
FROM oncebox_actions
WHERE tenant = :tenant AND state <> 'done' AND state = :state
ORDER BY tenant DESC, started_at DESC LIMIT :most;

-- name: of_attempt
-- All actions of an attempt.
SELECT tenant, attempt_id, name, state, safe, holder, fence, lease_until, first_started_at,
    started_at, ended_at, result
FROM oncebox_actions
WHERE tenant = :tenant AND attempt_id = :attempt_id;

-- name: doubtful
-- Actions with an unknown outcome, and those that a begin would find unknown now; oldest first.
SELECT tenant, attempt_id, name, state, safe, holder, fence, lease_until, first_started_at,
    started_at, ended_at, result
FROM oncebox_actions
WHERE tenant = :tenant AND state <> 'done'
    AND (state = 'unknown' OR (state IN ('started', 'verifying') AND lease_until <= :now))
ORDER BY tenant, started_at LIMIT :most;

-- name: resolve
-- Record an operator's decision on an action with an unknown outcome; a late holder may only prove
-- the contrary.
UPDATE oncebox_actions
SET state = :state, ended_at = :now, result = :result, fence = fence + 1
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name
    AND (state = 'unknown' OR (state IN ('started', 'verifying') AND lease_until <= :now))
RETURNING tenant, attempt_id, name, state, safe, holder, fence, lease_until, first_started_at,
    started_at, ended_at, result;
