-- name: add
-- Keep a new batch, unless its key is taken.
INSERT INTO oncebox_batches (id, tenant, key, members, owner, size, created_at)
VALUES (:id, :tenant, :key, :members, :owner, :size, :now)
ON CONFLICT DO NOTHING;

-- name: of_key
-- The batch of a key.
SELECT id, tenant, members, owner, size, created_at FROM oncebox_batches
WHERE tenant = :tenant AND key = :key;

-- name: one
-- One batch of a tenant, and where an owner is named, of that owner.
SELECT id, tenant, members, owner, size, created_at FROM oncebox_batches
WHERE id = :id AND tenant = :tenant AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner);

-- name: join
-- bulk: place bigint, send_id text
-- Remember which sends belong to a batch.
INSERT INTO oncebox_batch_sends (batch_id, place, tenant, send_id)
SELECT CAST(:batch_id AS TEXT), :place, CAST(:tenant AS TEXT), :send_id /* from rows */
WHERE CAST(:tenant AS TEXT) IS NOT NULL
ON CONFLICT DO NOTHING;

-- name: sends
-- The sends of a batch, in their order.
SELECT send.id, send.tenant, send.key, send.protected, send.content, send.state, send.transport,
    send.message_id, send.event_type, send.entity_id, send.owner, send.attempt_id,
    send.delivery_id, send.effect, send.on_unknown, send.again, send.created_at, send.send_at,
    send.valid_until, send.due_at, send.fence, send.tries, send.epoch, send.rearms, send.worker,
    send.claimed_at, send.marked_at, send.in_doubt_at, send.replay_until, send.code, send.phase,
    send.reply, send.provider_id, send.retention, send.ended_at, send.purged_at, send.body_id,
    send.size, send.delivery, send.delivery_at
FROM oncebox_batch_sends AS member
JOIN oncebox_sends AS send ON send.id = member.send_id AND send.tenant = member.tenant
WHERE member.batch_id = :id AND member.tenant = :tenant ORDER BY member.place;

-- name: totals
-- How many sends of a batch are in which state.
SELECT send.state, COUNT(*) FROM oncebox_batch_sends AS member
JOIN oncebox_sends AS send ON send.id = member.send_id AND send.tenant = member.tenant
WHERE member.batch_id = :id AND member.tenant = :tenant GROUP BY send.state ORDER BY send.state;
