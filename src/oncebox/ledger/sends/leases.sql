-- name: due
-- What may be claimed by one way, oldest first, unless that way is paused or rests.
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
-- Claim: count the try and raise the fence; return the sends as they stand then.
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
    delivery, delivery_at;

-- name: renew
-- bulk: tenant text, id text, fence bigint, until bigint
-- Prolong leases that are still ours.
UPDATE oncebox_sends SET due_at = CASE WHEN due_at < :until THEN :until ELSE due_at END
/* from rows */
WHERE tenant = :tenant AND id = :id AND fence = :fence AND state IN ('claimed', 'sending')
RETURNING id, :fence;

-- name: mark
-- bulk: tenant text, id text, fence bigint, until bigint, replay_until bigint
-- spans: yes
-- The marker: from here on the send may be taken. Only who holds a lease that has not run out may
-- set it, on what was not called off, goes to nobody on the suppression list, is in time, and if
-- it is in doubt may be repeated.
UPDATE oncebox_sends
SET state = 'sending', marked_at = :now, due_at = :until,
    replay_until = CASE WHEN in_doubt_at IS NULL THEN :replay_until ELSE replay_until END
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'claimed' AND fence = :fence AND due_at > :now
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
-- End what was claimed and goes to an address on the suppression list.
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

-- name: expire
-- bulk: tenant text, id text, fence bigint
-- End what was claimed and comes too late.
UPDATE oncebox_sends
SET state = 'expired', code = 'expired', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'claimed' AND fence = :fence
    AND in_doubt_at IS NULL AND valid_until <= :now
RETURNING id;

-- name: withdraw
-- bulk: tenant text, id text, fence bigint
-- Let be what is in doubt and may not be repeated; it waits for evidence or a person. A lease that
-- ran out is no reason: it may have been renewed since, and who claims next may repeat.
UPDATE oncebox_sends SET state = 'unknown', again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'claimed' AND fence = :fence AND due_at > :now
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
-- Let be what is in doubt and came to a transport that sends nothing: it can end no doubt.
UPDATE oncebox_sends SET state = 'unknown', again = NULL, due_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state IN ('claimed', 'sending') AND fence = :fence
    AND in_doubt_at IS NOT NULL
RETURNING id;
