-- name: adopt
-- bulk: tenant text, attempt_id text, key text, may_make bigint, now bigint
-- Record the owner of an attempt, once: the key that made its first inbox, else the first
-- requester, if it may create one.
INSERT INTO oncebox_attempts (tenant, attempt_id, owner, created_at)
SELECT :tenant, :attempt_id,
    CASE WHEN EXISTS (
        SELECT 1 FROM oncebox_inboxes AS made
        WHERE made.tenant = :tenant AND made.attempt_id = :attempt_id
    ) THEN (
        SELECT first.owner FROM oncebox_inboxes AS first
        WHERE first.tenant = :tenant AND first.attempt_id = :attempt_id
        ORDER BY first.id LIMIT 1
    ) ELSE :key END,
    :now
/* from rows */
WHERE :may_make = 1 OR EXISTS (
    SELECT 1 FROM oncebox_inboxes AS known
    WHERE known.tenant = :tenant AND known.attempt_id = :attempt_id
)
ON CONFLICT DO NOTHING;

-- name: one
-- An attempt of the requester.
SELECT owner, created_at, resends FROM oncebox_attempts
WHERE tenant = :tenant AND attempt_id = :attempt_id
    AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner);

-- name: first_inbox
-- The first inbox of an attempt, its owner and its time.
SELECT id, owner, created_at FROM oncebox_inboxes
WHERE tenant = :tenant AND attempt_id = :attempt_id ORDER BY id LIMIT 1;

-- name: lock
-- Lock the resends of an attempt until the commit: an update that changes nothing, on both
-- databases. What is read after it does not change.
UPDATE oncebox_attempts SET resends = resends
WHERE tenant = :tenant AND attempt_id = :attempt_id
    AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
RETURNING owner;

-- name: granted
-- The resend that a request was granted before.
SELECT number, at FROM oncebox_resends
WHERE tenant = :tenant AND attempt_id = :attempt_id AND request_mark = :mark;

-- name: spend
-- Take one of the remaining resends.
UPDATE oncebox_attempts SET resends = resends + 1
WHERE tenant = :tenant AND attempt_id = :attempt_id AND resends < :allowed
RETURNING resends;

-- name: grant
-- Record a granted resend.
INSERT INTO oncebox_resends (tenant, attempt_id, number, request_mark, granted_to, at)
VALUES (:tenant, :attempt_id, :number, :mark, :key, :now);

-- name: policies
-- The policies of the inboxes that the owner of an attempt made; rotated ones have successors with
-- the same policy.
SELECT DISTINCT policy FROM oncebox_inboxes
WHERE tenant = :tenant AND attempt_id = :attempt_id AND rotated_to IS NULL
    AND COALESCE(owner, '') = :owner;

-- name: states
-- The number of actions of an attempt in each state.
SELECT state, COUNT(*) FROM oncebox_actions
WHERE tenant = :tenant AND attempt_id = :attempt_id GROUP BY state;

-- name: batch
-- How many attempts a batch has, since when, and their resends; an attempt is known by its inboxes
-- or by its row.
SELECT COUNT(*), MIN(since), COALESCE(SUM(again), 0) FROM (
    SELECT attempt_id, MIN(created_at) AS since, MAX(resends) AS again FROM (
        SELECT attempt_id, created_at, 0 AS resends FROM oncebox_inboxes
        WHERE tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
            AND (CAST(:owner AS TEXT) IS NULL OR COALESCE(owner, '') = :owner)
        UNION ALL
        SELECT attempt_id, created_at, resends FROM oncebox_attempts
        WHERE tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
            AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    ) AS known GROUP BY attempt_id
) AS of_batch;

-- name: batch_states
-- The number of actions of a batch in each state.
SELECT state, COUNT(*) FROM oncebox_actions
WHERE tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
    AND EXISTS (
        SELECT 1 FROM oncebox_attempts AS mine
        WHERE mine.tenant = oncebox_actions.tenant AND mine.attempt_id = oncebox_actions.attempt_id
            AND (CAST(:owner AS TEXT) IS NULL OR mine.owner = :owner)
    )
GROUP BY state;
