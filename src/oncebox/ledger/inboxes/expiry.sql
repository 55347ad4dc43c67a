-- name: first_due
-- Whether there is an inbox whose next change is due.
SELECT id FROM oncebox_inboxes WHERE due_at IS NOT NULL AND due_at <= :now LIMIT 1;

-- name: due
-- Inboxes whose next change is due; what somebody else holds is left to them.
SELECT id FROM oncebox_inboxes
WHERE due_at IS NOT NULL AND due_at <= :now
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: drain
-- bulk: id text
-- Let active inboxes drain whose time is over; those with nothing matched are missed, unless mail
-- for them is not read yet: its deliveries have keys that begin with the inbox.
UPDATE oncebox_inboxes
SET state = 'draining', next_state = 'expired', due_at = active_until + :draining,
    missed_at = CASE WHEN matched = 0 AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries AS unread
        WHERE unread.tenant = oncebox_inboxes.tenant AND unread.source = '@mail'
            AND unread.key >= oncebox_inboxes.id || ':' AND unread.key < oncebox_inboxes.id || ';'
            AND unread.state IN ('received', 'processing', 'failed')
    ) THEN :now END
/* from rows */
WHERE id = :id AND state = 'active' AND due_at <= :now
RETURNING id, tenant, attempt_id, missed_at, active_until, cursor;

-- name: miss
-- bulk: id text
-- Inboxes that have drained after their time, with nothing matched, and were not told of yet: mail
-- for them was not read then.
UPDATE oncebox_inboxes SET missed_at = :now
/* from rows */
WHERE id = :id AND state = 'draining' AND due_at <= :now AND matched = 0
    AND missed_at IS NULL AND COALESCE(next_state, 'expired') = 'expired'
RETURNING id, tenant, attempt_id, missed_at, active_until, cursor;

-- name: finish
-- bulk: id text
-- Close or expire inboxes that have drained.
UPDATE oncebox_inboxes
SET state = COALESCE(next_state, 'expired'), next_state = NULL, due_at = NULL, ended_at = :now
/* from rows */
WHERE id = :id AND state = 'draining' AND due_at <= :now
RETURNING id, tenant, attempt_id, state, cursor, matched;
