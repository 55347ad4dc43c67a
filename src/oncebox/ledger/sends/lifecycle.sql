-- name: due
-- Sends of one transport that may be claimed, oldest first, unless it is paused or rests.
SELECT due.id, due.fence, due.size FROM oncebox_sends AS due
WHERE due.tenant = :tenant AND due.transport = :transport AND due.state IN ('pending', 'unknown')
    AND due.due_at IS NOT NULL AND due.due_at <= :now
    AND (due.valid_until IS NULL OR due.valid_until > :now)
    AND (due.state = 'pending' OR due.again = 'resend'
        OR (due.again = 'replay' AND due.replay_until > :now))
    AND EXISTS (SELECT 1 FROM oncebox_transports AS way
        WHERE way.tenant = due.tenant AND way.name = due.transport AND way.paused = 0
            AND (way.rests_until IS NULL OR way.rests_until <= :now))
ORDER BY due.due_at LIMIT :most /* postgres: FOR UPDATE OF due SKIP LOCKED */;

-- name: lease
-- bulk: tenant text, id text, fence bigint
-- spans: yes
-- Claim: count the try and raise the fence; return the changed sends.
UPDATE oncebox_sends
SET state = 'claimed', fence = fence + 1, tries = tries + 1, worker = :worker,
    claimed_at = :now, marked_at = NULL, due_at = :until
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('pending', 'unknown')
    AND due_at IS NOT NULL AND due_at <= :now
    AND (state = 'pending' OR again IS NOT NULL)
RETURNING id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign;

-- name: renew
-- bulk: tenant text, id text, fence bigint, until bigint
-- Extend leases that are still held.
UPDATE oncebox_sends SET due_at = CASE WHEN due_at < :until THEN :until ELSE due_at END
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
RETURNING id, :fence;

-- name: mark
-- bulk: tenant text, id text, fence bigint, until bigint, replay_until bigint
-- spans: yes
-- The marker: the send may be accepted from now on. Only the holder of a current lease may set it, on
-- a send that is not cancelled, has no suppressed recipient, is in time, and if its outcome is
-- unknown may be repeated.
UPDATE oncebox_sends
SET state = 'sending', marked_at = :now, due_at = :until,
    replay_until = CASE WHEN in_doubt_at IS NULL THEN :replay_until ELSE replay_until END
/* from rows */
WHERE tenant = :tenant AND id = :id AND state || '' = 'claimed' AND fence = :fence AND due_at > :now
    AND (valid_until IS NULL OR valid_until > :now)
    AND (in_doubt_at IS NULL OR again = 'resend'
        OR (again = 'replay' AND oncebox_sends.replay_until > :now))
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_send_recipients AS goes_to
        JOIN oncebox_suppressions AS listed
            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark
        WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = oncebox_sends.tenant
    )
RETURNING id, fence;

-- name: suppress
-- bulk: tenant text, id text, fence bigint
-- End claimed sends with a suppressed recipient.
UPDATE oncebox_sends
SET state = 'suppressed', code = 'suppressed', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'claimed' AND fence = :fence
    AND in_doubt_at IS NULL
    AND EXISTS (
        SELECT 1 FROM oncebox_send_recipients AS goes_to
        JOIN oncebox_suppressions AS listed
            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark
        WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = oncebox_sends.tenant
    )
RETURNING id;

-- name: leases_expire
-- bulk: tenant text, id text, fence bigint
-- End claimed sends that are too late.
UPDATE oncebox_sends
SET state = 'expired', code = 'expired', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'claimed' AND fence = :fence
    AND in_doubt_at IS NULL AND valid_until <= :now
RETURNING id;

-- name: withdraw
-- bulk: tenant text, id text, fence bigint
-- Return sends of unknown outcome that may not be repeated; they wait for evidence or an operator. An
-- expired lease is no reason: it may have been renewed since, and the next claim may repeat.
UPDATE oncebox_sends SET state = 'unknown', again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state || '' = 'claimed' AND fence = :fence AND due_at > :now
    AND in_doubt_at IS NOT NULL
    AND (again IS NULL OR valid_until <= :now
        OR (again = 'replay' AND COALESCE(replay_until, 0) <= :now)
        OR EXISTS (
            SELECT 1 FROM oncebox_send_recipients AS goes_to
            JOIN oncebox_suppressions AS listed
                ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark
            WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = oncebox_sends.tenant
        ))
RETURNING id;

-- name: let_be
-- bulk: tenant text, id text, fence bigint
-- Return sends of unknown outcome that reached the log transport, which cannot settle them.
UPDATE oncebox_sends SET state = 'unknown', again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state IN ('claimed', 'sending') AND fence = :fence
    AND in_doubt_at IS NOT NULL
RETURNING id;

-- name: accept
-- bulk: tenant text, id text, fence bigint, provider_id text
-- Record acceptance. That is proof: it counts from every fence, and from outside (0), in any state; a
-- sent mail stays as it is. Returns the changed send.
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
    body_id, size, delivery, delivery_at, pinned, must_sign;

-- name: log
-- bulk: tenant text, id text, fence bigint
-- spans: yes
-- Record that the log transport stored it; return the changed send. Nothing is transmitted, so marker
-- and result are one statement with the conditions of the marker.
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
    body_id, size, delivery, delivery_at, pinned, must_sign;

-- name: put_back
-- bulk: tenant text, id text, fence bigint, code text, phase text, reply bigint, due_at bigint, move_to text, free bigint
-- Record that a try was certainly not accepted; only its holder may. If it repeated a try of unknown
-- outcome, that stays unknown, and so does the transport. The next try has another provider key. The
-- conditions of another transport are those of `divert`.
UPDATE oncebox_sends
SET state = CASE WHEN in_doubt_at IS NOT NULL THEN 'unknown'
        WHEN CAST(:due_at AS BIGINT) IS NULL THEN 'failed' ELSE 'pending' END,
    due_at = CASE WHEN in_doubt_at IS NULL OR again IS NOT NULL THEN :due_at END,
    again = CASE WHEN CAST(:due_at AS BIGINT) IS NULL THEN NULL ELSE again END,
    tries = tries - CAST(:free AS BIGINT),
    transport = CASE WHEN in_doubt_at IS NULL AND pinned = 0 AND EXISTS (
            SELECT 1 FROM oncebox_transports AS own
            JOIN oncebox_transports AS other ON other.tenant = own.tenant
                AND other.failover_group = own.failover_group
            WHERE own.tenant = oncebox_sends.tenant AND own.name = oncebox_sends.transport
                AND own.failover_group <> '' AND other.name = :move_to
                AND (oncebox_sends.must_sign = 0 OR other.kind = 'resend' OR EXISTS (
                    SELECT 1 FROM oncebox_signing_domains AS signs
                    WHERE signs.tenant = other.tenant AND signs.transport = other.name
                        AND replace(replace(oncebox_sends.message_id, '@', '.'),
                            '.' || signs.domain || '>', '')
                            <> replace(oncebox_sends.message_id, '@', '.')))
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
-- Record a rejection; only its holder may. A rejected repeat says nothing about the try it repeated.
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

-- name: settlements_doubt
-- bulk: tenant text, id text, fence bigint, code text, phase text, reply bigint, due_at bigint
-- Record an unknown outcome; it is repeated only if configured, and in time.
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
-- Record how a try ended, before the send changes; a late report replaces `lost`.
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

-- name: lost
-- Sends of all tenants whose lease has expired.
SELECT tenant, id, fence, state FROM oncebox_sends
WHERE state IN ('claimed', 'sending') AND due_at <= :now
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: record_lost
-- bulk: tenant text, id text, fence bigint
-- Record a lost try.
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
-- Nothing of these was transmitted: they may be claimed again, unless too many tries were lost. After
-- a lost repeat the outcome stays unknown.
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

-- name: sweep_doubt
-- bulk: tenant text, id text, fence bigint
-- These may have been accepted. They are claimed again only if configured; their former holder may
-- only report proof.
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
-- Unclaimed sends of all tenants whose valid_until has passed.
SELECT tenant, id FROM oncebox_sends
WHERE state = 'pending' AND valid_until IS NOT NULL AND valid_until <= :now
ORDER BY valid_until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: sweep_expire
-- bulk: tenant text, id text
-- Expire sends that are too late.
UPDATE oncebox_sends
SET state = 'expired', code = 'expired', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'pending' AND valid_until <= :now
RETURNING id;

-- name: lapsed
-- Sends of all tenants of unknown outcome that may no longer be repeated.
SELECT tenant, id FROM oncebox_sends
WHERE state = 'unknown' AND again IS NOT NULL AND due_at <= :now
    AND ((again = 'replay' AND COALESCE(replay_until, 0) <= :now) OR valid_until <= :now)
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: lapse
-- bulk: tenant text, id text
-- End their repeats; they wait for evidence or an operator.
UPDATE oncebox_sends SET again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'unknown' AND again IS NOT NULL
    AND ((again = 'replay' AND COALESCE(replay_until, 0) <= :now) OR valid_until <= :now)
RETURNING id;

-- name: resolve_sent
-- An operator says that a send of unknown outcome was sent.
UPDATE oncebox_sends
SET state = 'sent', fence = fence + 1, due_at = NULL, again = NULL, in_doubt_at = NULL,
    ended_at = :now, keep_until = :now + kept_for, code = 'resolved',
    provider_id = CASE WHEN :provider_id = '' THEN provider_id ELSE :provider_id END
WHERE tenant = :tenant AND id = :id
    AND (state = 'unknown' OR (state = 'sending' AND due_at <= :now));

-- name: resolve_not_sent
-- An operator says that a send of unknown outcome was not sent; the same intent rearms it.
UPDATE oncebox_sends
SET state = 'failed', fence = fence + 1, epoch = epoch + 1, due_at = NULL, again = NULL,
    in_doubt_at = NULL, replay_until = NULL, ended_at = :now, keep_until = :now + kept_for,
    code = 'resolved'
WHERE tenant = :tenant AND id = :id
    AND (state = 'unknown' OR (state = 'sending' AND due_at <= :now));

-- name: cancel
-- Cancel a send that was never transmitted; its holder gets no marker.
UPDATE oncebox_sends
SET state = 'cancelled', fence = fence + 1, due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for, code = 'cancelled'
WHERE tenant = :tenant AND id = :id AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND state IN ('pending', 'claimed') AND in_doubt_at IS NULL;

-- name: rearm
-- Rearm a send that is proven not sent and whose content and transport are still stored.
UPDATE oncebox_sends
SET state = 'pending', fence = fence + 1, epoch = epoch + 1, rearms = rearms + 1, tries = 0,
    due_at = :now, send_at = NULL,
    valid_until = CASE WHEN valid_until <= :now THEN NULL ELSE valid_until END,
    ended_at = NULL, keep_until = NULL, code = NULL, phase = NULL, reply = 0,
    worker = NULL, claimed_at = NULL, marked_at = NULL, replay_until = NULL
WHERE tenant = :tenant AND id = :id AND purged_at IS NULL
    AND state IN ('failed', 'expired', 'cancelled', 'suppressed')
    AND EXISTS (SELECT 1 FROM oncebox_transports AS way
        WHERE way.tenant = oncebox_sends.tenant AND way.name = oncebox_sends.transport);

-- name: repeat
-- Repeat a send of unknown outcome once, because an operator says so. A send without the ledger may
-- be unknown although its content is no longer stored.
UPDATE oncebox_sends
SET again = 'resend', due_at = :now, tries = 0,
    valid_until = CASE WHEN valid_until <= :now THEN NULL ELSE valid_until END
WHERE tenant = :tenant AND id = :id AND state = 'unknown' AND purged_at IS NULL;
