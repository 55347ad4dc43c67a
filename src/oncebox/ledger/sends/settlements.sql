-- name: accept
-- bulk: tenant text, id text, fence bigint, provider_id text
-- Record that the other side took it. That is proof: it is taken from every fence there ever was,
-- and from outside (0), whatever was thought before; what is sent stays as it is. How it stands
-- then is returned.
UPDATE oncebox_sends
SET state = 'sent', due_at = NULL, ended_at = :now, keep_until = :now + kept_for,
    in_doubt_at = NULL, again = NULL, code = NULL, phase = 'answered', reply = 0,
    provider_id = CASE WHEN :provider_id = '' THEN oncebox_sends.provider_id
        ELSE :provider_id END
/* from rows */
WHERE tenant = :tenant AND id = :id AND state <> 'sent' AND :fence <= fence
RETURNING :fence, id, tenant, key, protected, content, state, transport, message_id, event_type,
    entity_id, owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at,
    valid_until, due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, oncebox_sends.provider_id, retention, ended_at, purged_at,
    body_id, size, delivery, delivery_at;

-- name: log
-- bulk: tenant text, id text, fence bigint
-- spans: yes
-- Record that it was stored by a transport that sends nothing; return how it stands then. Nothing
-- leaves, so marker and result are one: what the marker asks is asked here.
UPDATE oncebox_sends
SET state = 'logged', marked_at = COALESCE(marked_at, :now), due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for, code = NULL, phase = 'answered', reply = 0
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
    AND in_doubt_at IS NULL
    AND (state = 'sending' OR valid_until IS NULL OR valid_until > :now)
    AND (state = 'sending' OR NOT EXISTS (
        SELECT 1 FROM oncebox_send_recipients AS goes_to
        JOIN oncebox_suppressions AS listed
            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark
        WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = oncebox_sends.tenant
    ))
RETURNING fence, id, tenant, key, protected, content, state, transport, message_id, event_type,
    entity_id, owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at,
    valid_until, due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, oncebox_sends.provider_id, retention, ended_at, purged_at,
    body_id, size, delivery, delivery_at;

-- name: put_back
-- bulk: tenant text, id text, fence bigint, code text, phase text, reply bigint, due_at bigint, move_to text, free bigint
-- Record that a try was certainly not taken; only its holder may. Where it repeated one that is
-- in doubt, the doubt stays, and the way with it. The next hand-over has another provider key.
UPDATE oncebox_sends
SET state = CASE WHEN in_doubt_at IS NOT NULL THEN 'unknown'
        WHEN CAST(:due_at AS BIGINT) IS NULL THEN 'failed' ELSE 'pending' END,
    due_at = CASE WHEN in_doubt_at IS NULL OR again IS NOT NULL THEN :due_at END,
    again = CASE WHEN CAST(:due_at AS BIGINT) IS NULL THEN NULL ELSE again END,
    tries = tries - CAST(:free AS BIGINT),
    transport = CASE WHEN in_doubt_at IS NULL AND EXISTS (
            SELECT 1 FROM oncebox_transports AS way
            WHERE way.tenant = oncebox_sends.tenant AND way.name = :move_to
        ) THEN :move_to ELSE transport END,
    epoch = epoch + CASE WHEN in_doubt_at IS NULL AND state = 'sending' THEN 1 ELSE 0 END,
    replay_until = CASE WHEN in_doubt_at IS NULL THEN NULL ELSE replay_until END,
    ended_at = CASE WHEN in_doubt_at IS NULL AND CAST(:due_at AS BIGINT) IS NULL
        THEN CAST(:now AS BIGINT) END,
    keep_until = CASE WHEN in_doubt_at IS NULL AND CAST(:due_at AS BIGINT) IS NULL
        THEN :now + kept_for END,
    code = :code, phase = :phase, reply = :reply
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
RETURNING :fence, id;

-- name: reject
-- bulk: tenant text, id text, fence bigint, code text, phase text, reply bigint
-- Record that it was not taken and never will be; only its holder may. A repeat that was rejected
-- says nothing of the hand-over that it repeated.
UPDATE oncebox_sends
SET state = CASE WHEN in_doubt_at IS NOT NULL THEN 'unknown' ELSE 'failed' END,
    due_at = NULL, again = NULL,
    epoch = epoch + CASE WHEN in_doubt_at IS NULL AND state = 'sending' THEN 1 ELSE 0 END,
    ended_at = CASE WHEN in_doubt_at IS NULL THEN CAST(:now AS BIGINT) END,
    keep_until = CASE WHEN in_doubt_at IS NULL THEN :now + kept_for END,
    code = :code, phase = :phase, reply = :reply
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
RETURNING :fence, id;

-- name: doubt
-- bulk: tenant text, id text, fence bigint, code text, phase text, reply bigint, due_at bigint
-- Record that nobody can know; it is repeated only where that was chosen, and in time.
UPDATE oncebox_sends
SET state = 'unknown', in_doubt_at = COALESCE(in_doubt_at, marked_at, :now),
    again = CASE WHEN on_unknown = 'hold' OR CAST(:due_at AS BIGINT) IS NULL
            OR (on_unknown = 'replay' AND COALESCE(replay_until, 0) <= :due_at) THEN NULL
        ELSE on_unknown END,
    due_at = CASE WHEN on_unknown = 'hold'
            OR (on_unknown = 'replay' AND COALESCE(replay_until, 0) <= :due_at) THEN NULL
        ELSE :due_at END,
    code = :code, phase = :phase, reply = :reply
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
RETURNING :fence, id;

-- name: record_try
-- bulk: tenant text, id text, fence bigint, outcome text, code text, phase text, reply bigint, provider_id text, transport text
-- spans: yes
-- Write down how a try ended, before the send changes; what a lost one says late replaces that it
-- was lost.
INSERT INTO oncebox_send_tries (send_id, fence, tenant, transport, worker, claimed_at, marked_at,
    ended_at, outcome, code, phase, reply, provider_id)
SELECT oncebox_sends.id, :fence, oncebox_sends.tenant,
    CASE WHEN :transport = '' THEN oncebox_sends.transport ELSE :transport END,
    CASE WHEN fence = :fence THEN worker END,
    CASE WHEN fence = :fence THEN claimed_at END,
    CASE WHEN fence = :fence THEN marked_at END,
    CAST(:now AS BIGINT), :outcome, :code, :phase, :reply, :provider_id
FROM oncebox_sends /* and rows */
WHERE oncebox_sends.tenant = :tenant AND oncebox_sends.id = :id AND :fence <= fence AND :fence > 0
ON CONFLICT (send_id, fence) DO UPDATE
SET outcome = excluded.outcome, ended_at = excluded.ended_at, code = excluded.code,
    phase = excluded.phase, reply = excluded.reply, provider_id = excluded.provider_id
WHERE oncebox_send_tries.outcome = 'lost';
