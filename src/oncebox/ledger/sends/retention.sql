-- name: over
-- Sends of all tenants that have ended and whose words need not be kept any longer.
SELECT tenant, id FROM oncebox_sends WHERE keep_until IS NOT NULL AND keep_until <= :now
ORDER BY keep_until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: empty
-- bulk: tenant text, id text
-- Leave a tombstone: the key, how it ended, and no words.
UPDATE oncebox_sends SET keep_until = NULL, purged_at = :now
/* from rows */
WHERE tenant = :tenant AND id = :id AND keep_until IS NOT NULL AND keep_until <= :now
    AND state IN ('sent', 'failed', 'suppressed', 'cancelled', 'expired', 'logged')
RETURNING id;

-- name: drop_bodies
-- bulk: send_id text
-- Let go of what sends say.
DELETE FROM oncebox_send_bodies WHERE send_id IN (SELECT :send_id /* from rows */);

-- name: forgettable
-- Tombstones of all tenants that are old enough.
SELECT tenant, id FROM oncebox_sends WHERE purged_at IS NOT NULL AND ended_at <= :before
ORDER BY ended_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: forget
-- bulk: tenant text, id text
-- Forget a key; the same intent would be a new one.
DELETE FROM oncebox_sends
WHERE (tenant, id) IN (SELECT :tenant, :id /* from rows */)
    AND purged_at IS NOT NULL AND ended_at <= :before
    AND state IN ('sent', 'failed', 'suppressed', 'cancelled', 'expired', 'logged')
RETURNING id;

-- name: forget_recipients
-- bulk: id text
-- Forget who it went to.
DELETE FROM oncebox_send_recipients WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_tries
-- bulk: id text
-- Forget its tries.
DELETE FROM oncebox_send_tries WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_places
-- bulk: id text
-- Forget its places in batches.
DELETE FROM oncebox_batch_sends WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_batches
-- Forget batches of which nothing is left.
DELETE FROM oncebox_batches WHERE created_at <= :before
    AND NOT EXISTS (SELECT 1 FROM oncebox_batch_sends AS member
        WHERE member.batch_id = oncebox_batches.id);
