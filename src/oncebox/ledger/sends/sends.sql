-- name: by_ids
-- bulk: tenant text, id text
-- Sends by id.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends /* and rows */
WHERE tenant = :tenant AND id = :id;

-- name: moved_on
-- bulk: tenant text, id text
-- spans: yes
-- Sends that are neither pending nor in progress.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends /* and rows */
WHERE tenant = :tenant AND id = :id AND state NOT IN ('pending', 'claimed', 'sending');

-- name: named
-- The ids of sends by our id, a Message-ID or a provider's id.
SELECT id FROM oncebox_sends WHERE id = :name AND tenant = :tenant
UNION SELECT id FROM oncebox_sends WHERE tenant = :tenant AND message_id = :name
UNION SELECT id FROM oncebox_sends
WHERE tenant = :tenant AND provider_id = :name AND provider_id <> '';

-- name: newest
-- Sends of a tenant, newest first, below an id.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends
WHERE (tenant, id) < (:tenant, :before) AND tenant >= :tenant
    AND (CAST(:state AS TEXT) IS NULL OR state = :state)
    AND (CAST(:transport AS TEXT) IS NULL OR transport = :transport)
ORDER BY tenant DESC, id DESC LIMIT :most;

-- name: newest_of_owner
-- Sends that one key asked for, newest first.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends
WHERE (tenant, owner, id) < (:tenant, :owner, :before) AND (tenant, owner) >= (:tenant, :owner)
    AND owner IS NOT NULL
    AND (CAST(:state AS TEXT) IS NULL OR state = :state)
    AND (CAST(:transport AS TEXT) IS NULL OR transport = :transport)
ORDER BY tenant DESC, owner DESC, id DESC LIMIT :most;

-- name: newest_in_state
-- Sends in a state that few end in, newest first.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends
WHERE (tenant, state, id) < (:tenant, :state, :before) AND (tenant, state) >= (:tenant, :state)
    AND state IN ('unknown', 'failed', 'suppressed', 'cancelled', 'expired')
    AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND (CAST(:transport AS TEXT) IS NULL OR transport = :transport)
ORDER BY tenant DESC, state DESC, id DESC LIMIT :most;

-- name: open
-- Sends that are pending or in progress, in no order.
SELECT tenant, id FROM (
    SELECT tenant, id FROM oncebox_sends /* sqlite: INDEXED BY oncebox_sends_due */
    WHERE tenant = :tenant AND state IN ('pending', 'unknown') AND state = 'pending'
        AND due_at IS NOT NULL
    LIMIT :most
) AS waiting
UNION ALL
SELECT tenant, id FROM (
    SELECT tenant, id FROM oncebox_sends
    WHERE state IN ('claimed', 'sending') AND due_at > 0
    LIMIT :most
) AS leased;

-- name: doubtful
-- Sends of a tenant with unknown outcome that are not repeated, oldest first.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends
WHERE tenant = :tenant AND state = 'unknown' ORDER BY id LIMIT :most;

-- name: tries
-- The tries of one send.
SELECT fence, transport, worker, claimed_at, marked_at, ended_at, outcome, code, phase, reply,
    provider_id
FROM oncebox_send_tries WHERE send_id = :id AND tenant = :tenant ORDER BY fence;

-- name: bodies
-- bulk: send_id text, id text
-- spans: yes
-- Encrypted messages and envelopes.
SELECT send_id, message, envelope FROM oncebox_send_bodies /* and rows */
WHERE send_id = :send_id AND id = :id;

-- name: count_doubtful
-- How many sends of all tenants wait for evidence or an operator.
SELECT COUNT(*) FROM oncebox_sends WHERE state = 'unknown' AND again IS NULL;
