-- name: add
-- bulk: id text, email text, address text, domain text, attempt_id text, label text, active_until bigint, metadata bytea, policy bytea, rotated_from text
-- Insert new inboxes of the tenant's domains, except where the address was ever assigned or the
-- attempt has one with that label.
INSERT INTO oncebox_inboxes (id, tenant, email, address, attempt_id, label, owner, state,
    created_at, active_until, due_at, metadata, policy, rotated_from)
SELECT :id, CAST(:tenant AS TEXT), :email, :address, :attempt_id, :label, CAST(:owner AS TEXT),
    'active', CAST(:now AS BIGINT), :active_until, :active_until, :metadata, :policy,
    :rotated_from
/* from rows */
WHERE EXISTS (SELECT 1 FROM oncebox_domains WHERE name = :domain AND tenant = :tenant)
ON CONFLICT DO NOTHING
RETURNING id;

-- name: of_attempts
-- bulk: tenant text, attempt_id text, label text
-- The current inboxes of attempts, by label.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes /* and rows */
WHERE tenant = :tenant AND attempt_id = :attempt_id AND label = :label AND rotated_to IS NULL;

-- name: one
-- One inbox of a tenant, and of an owner if one is given.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner);

-- name: newest
-- Inboxes of a tenant, newest first, below an id.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes
WHERE (tenant, id) < (:tenant, :before) AND tenant >= :tenant
ORDER BY tenant DESC, id DESC LIMIT :most;

-- name: newest_in_state
-- Inboxes of a tenant in a state, newest first.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes
WHERE (tenant, state, id) < (:tenant, :state, :before) AND (tenant, state) >= (:tenant, :state)
ORDER BY tenant DESC, state DESC, id DESC LIMIT :most;

-- name: newest_of_owner
-- Inboxes that one key made, newest first.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes
WHERE (tenant, owner, id) < (:tenant, :owner, :before) AND (tenant, owner) >= (:tenant, :owner)
    AND owner IS NOT NULL AND (CAST(:state AS TEXT) IS NULL OR state = :state)
ORDER BY tenant DESC, owner DESC, id DESC LIMIT :most;

-- name: newest_of_attempt
-- Inboxes of one attempt, including rotated ones, newest first.
SELECT id, tenant, email, attempt_id, label, owner, state, created_at, active_until, due_at,
    ended_at, metadata, policy, cursor, duplicates, matched, first_message_at, last_message_at,
    missed_at, rotated_from, rotated_to
FROM oncebox_inboxes
WHERE tenant = :tenant AND attempt_id = :attempt_id AND id || '' < :before
    AND (CAST(:owner AS TEXT) IS NULL OR COALESCE(owner, '') = :owner)
    AND (CAST(:state AS TEXT) IS NULL OR state || '' = :state)
ORDER BY id DESC LIMIT :most;

-- name: inboxes_drain
-- Drain an open inbox, then close it; an earlier end stays.
UPDATE oncebox_inboxes
SET state = 'draining', next_state = 'closed',
    due_at = CASE WHEN state = 'draining' AND due_at < :until THEN due_at ELSE :until END
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND state IN ('active', 'draining');

-- name: close
-- Close an open inbox at once.
UPDATE oncebox_inboxes
SET state = 'closed', next_state = NULL, due_at = NULL, ended_at = :now
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND state IN ('active', 'draining');

-- name: succeed
-- Set the successor of an inbox that has none; a second rotation changes nothing.
UPDATE oncebox_inboxes SET rotated_to = :successor
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND rotated_to IS NULL;

-- name: policy
-- The policy of an inbox, as it is stored.
SELECT policy FROM oncebox_inboxes
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner);

-- name: set_policy
-- Replace the policy of an open inbox, if it is still the one that was read. The one with which
-- the inbox was created is kept.
UPDATE oncebox_inboxes
SET policy = :policy, original_policy = COALESCE(original_policy, policy)
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND state IN ('active', 'draining') AND policy = :stored;

-- name: keep_original
-- Copy the policy with which an inbox was created to the inbox that replaces it.
UPDATE oncebox_inboxes
SET original_policy = (
    SELECT old.original_policy FROM oncebox_inboxes AS old WHERE old.id = :rotated_from
)
WHERE id = :id AND tenant = :tenant;

-- name: originals
-- bulk: id text, tenant text
-- The policies with which inboxes were created, where they were changed.
SELECT oncebox_inboxes.id, original_policy FROM oncebox_inboxes /* and rows */
WHERE oncebox_inboxes.id = :id AND oncebox_inboxes.tenant = :tenant
    AND original_policy IS NOT NULL;

-- name: totals
-- Statistics of the inboxes of an attempt or a batch, by their states.
SELECT state || '', COUNT(*), SUM(cursor), SUM(duplicates), SUM(matched), MIN(created_at),
    MIN(first_message_at), MAX(last_message_at), COUNT(missed_at), COUNT(first_message_at),
    SUM(first_message_at - created_at), MAX(first_message_at - created_at)
FROM oncebox_inboxes
WHERE tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
    AND (CAST(:owner AS TEXT) IS NULL OR COALESCE(owner, '') = :owner)
GROUP BY state || '' ORDER BY state || '';

-- name: first_due
-- Whether there is an inbox whose next change is due.
SELECT id FROM oncebox_inboxes WHERE due_at IS NOT NULL AND due_at <= :now ORDER BY due_at LIMIT 1;

-- name: due
-- Inboxes whose next change is due; those locked by others are skipped.
SELECT id FROM oncebox_inboxes
WHERE due_at IS NOT NULL AND due_at <= :now
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: expiry_drain
-- bulk: id text
-- Drain active inboxes whose lifetime is over; those without a match are missed, unless mail for
-- them is not parsed yet: its deliveries have keys that begin with the inbox.
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
-- Inboxes that drained without a match and were not reported as missed, because mail for them was
-- not parsed then.
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
