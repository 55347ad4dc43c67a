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
-- Let active inboxes drain whose time is over; those with nothing matched are missed.
UPDATE oncebox_inboxes
SET state = 'draining', next_state = 'expired', due_at = active_until + :draining,
    missed_at = CASE WHEN matched = 0 THEN :now END
/* from rows */
WHERE id = :id AND state = 'active' AND due_at <= :now
RETURNING id, tenant, attempt_id, missed_at, active_until, cursor;

-- name: finish
-- bulk: id text
-- Close or expire inboxes that have drained.
UPDATE oncebox_inboxes
SET state = COALESCE(next_state, 'expired'), next_state = NULL, due_at = NULL, ended_at = :now
/* from rows */
WHERE id = :id AND state = 'draining' AND due_at <= :now
RETURNING id, tenant, attempt_id, state, cursor, matched;
