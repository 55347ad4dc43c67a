-- name: lost
-- Sends of all tenants whose worker gave no sign of life until the lease ran out.
SELECT tenant, id, fence, state FROM oncebox_sends
WHERE state IN ('claimed', 'sending') AND due_at <= :now
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: record_lost
-- bulk: tenant text, id text, fence bigint
-- Write down the try that was lost.
INSERT INTO oncebox_send_tries (send_id, fence, tenant, transport, worker, claimed_at, marked_at,
    ended_at, outcome, code, phase, reply, provider_id)
SELECT oncebox_sends.id, fence, oncebox_sends.tenant, transport, worker, claimed_at, marked_at,
    CAST(:now AS BIGINT), 'lost', 'lease_lost', CASE WHEN state = 'sending' THEN 'marked' END, 0, ''
FROM oncebox_sends /* and rows */
WHERE oncebox_sends.tenant = :tenant AND oncebox_sends.id = :id AND fence = :fence
    AND state IN ('claimed', 'sending') AND due_at <= :now
ON CONFLICT DO NOTHING;

-- name: give_back
-- bulk: tenant text, id text, fence bigint
-- Nothing of these was on the wire: they may be claimed again, unless that was lost too often. A
-- repeat of what is in doubt leaves the doubt.
UPDATE oncebox_sends
SET state = CASE WHEN in_doubt_at IS NOT NULL THEN 'unknown' WHEN tries >= :tries THEN 'failed'
        ELSE 'pending' END,
    due_at = CASE WHEN tries >= :tries THEN NULL ELSE CAST(:now AS BIGINT) END,
    again = CASE WHEN tries >= :tries THEN NULL ELSE again END,
    code = 'lease_lost', phase = NULL, reply = 0,
    ended_at = CASE WHEN in_doubt_at IS NULL AND tries >= :tries THEN CAST(:now AS BIGINT) END,
    keep_until = CASE WHEN in_doubt_at IS NULL AND tries >= :tries THEN :now + kept_for END
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'claimed' AND due_at <= :now
RETURNING id;

-- name: doubt
-- bulk: tenant text, id text, fence bigint
-- These may have been taken. Nobody claims them again, unless that was chosen; whoever had them
-- may only bring proof.
UPDATE oncebox_sends
SET state = 'unknown', fence = fence + 1, in_doubt_at = COALESCE(in_doubt_at, marked_at, :now),
    again = CASE WHEN on_unknown = 'resend' AND tries < :tries THEN on_unknown
        WHEN on_unknown = 'replay' AND tries < :tries AND replay_until > :now THEN on_unknown END,
    due_at = CASE WHEN on_unknown = 'resend' AND tries < :tries THEN CAST(:now AS BIGINT)
        WHEN on_unknown = 'replay' AND tries < :tries AND replay_until > :now
            THEN CAST(:now AS BIGINT) END,
    code = 'lease_lost', phase = 'marked', reply = 0
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state = 'sending' AND due_at <= :now
RETURNING id;

-- name: late
-- Sends of all tenants whose time is over before anybody claimed them.
SELECT tenant, id FROM oncebox_sends
WHERE state = 'pending' AND valid_until IS NOT NULL AND valid_until <= :now
ORDER BY valid_until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: expire
-- bulk: tenant text, id text
-- End what comes too late.
UPDATE oncebox_sends
SET state = 'expired', code = 'expired', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'pending' AND valid_until <= :now
RETURNING id;

-- name: lapsed
-- Sends of all tenants that were to be repeated although in doubt, and no longer may be.
SELECT tenant, id FROM oncebox_sends
WHERE state = 'unknown' AND again IS NOT NULL AND due_at <= :now
    AND ((again = 'replay' AND COALESCE(replay_until, 0) <= :now) OR valid_until <= :now)
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: lapse
-- bulk: tenant text, id text
-- Let them wait for evidence or a person.
UPDATE oncebox_sends SET again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'unknown' AND again IS NOT NULL
    AND ((again = 'replay' AND COALESCE(replay_until, 0) <= :now) OR valid_until <= :now)
RETURNING id;
