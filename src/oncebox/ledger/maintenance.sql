-- name: kept
-- Requests whose bodies are still stored, by id.
SELECT id FROM oncebox_payloads WHERE id > :after AND id < :upto ORDER BY id LIMIT :most;

-- name: own
-- bulk: request_id text
-- The deliveries of requests that are no batches.
SELECT :request_id, id, tenant, source, state, ended_at, seen_at
FROM oncebox_deliveries /* and rows */ WHERE id = :request_id;

-- name: elements
-- bulk: request_id text
-- The deliveries of batches beside the first.
SELECT :request_id, id, tenant, source, state, ended_at, seen_at
FROM oncebox_deliveries /* sqlite: INDEXED BY oncebox_deliveries_element */ /* and rows */
WHERE payload_id = :request_id AND payload_id <> id;

-- name: purge
-- bulk: id text, before bigint
-- Mark a delivery whose body may be deleted: ended before a given time, acknowledged if it is
-- dead, and without an effect of unknown outcome. From now on it cannot run again.
UPDATE oncebox_deliveries SET purged_at = :now
/* from rows */
WHERE id = :id AND purged_at IS NULL AND ended_at <= :before
    AND (state = 'done' OR (state = 'dead' AND seen_at IS NOT NULL))
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects
        WHERE delivery_id = oncebox_deliveries.id
            AND oncebox_effects.state IN ('started', 'unknown')
    )
RETURNING tenant, source, key, size, outcome;

-- name: delete_payloads
-- bulk: payload_id text
-- Delete a request that no delivery needs any more.
DELETE FROM oncebox_payloads
WHERE id IN (SELECT :payload_id /* from rows */)
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries AS own
        WHERE own.id = oncebox_payloads.id AND own.purged_at IS NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries AS part
        WHERE part.payload_id = oncebox_payloads.id AND part.payload_id <> part.id
            AND part.purged_at IS NULL
    );

-- name: journalled
-- Deliveries with recorded tries or effects, by id.
SELECT delivery_id FROM (
    SELECT DISTINCT delivery_id FROM oncebox_effects
    WHERE delivery_id > :after ORDER BY delivery_id LIMIT :most
) AS done
UNION
SELECT delivery_id FROM (
    SELECT DISTINCT delivery_id FROM oncebox_tries
    WHERE delivery_id > :after ORDER BY delivery_id LIMIT :most
) AS tried
ORDER BY 1 LIMIT :most;

-- name: forget_effects
-- bulk: delivery_id text
-- Delete the effects of deliveries that cannot run again, unless an outcome is unknown.
DELETE FROM oncebox_effects
WHERE delivery_id IN (SELECT :delivery_id /* from rows */)
    AND EXISTS (
        SELECT 1 FROM oncebox_deliveries
        WHERE oncebox_deliveries.id = oncebox_effects.delivery_id AND purged_at IS NOT NULL
            AND ended_at <= :before AND oncebox_deliveries.state IN ('done', 'dead')
    )
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects AS other
        WHERE other.delivery_id = oncebox_effects.delivery_id
            AND other.state IN ('started', 'unknown')
    );

-- name: forget_tries
-- bulk: delivery_id text
-- Delete the tries of deliveries that cannot run again and have no recorded effects any more.
DELETE FROM oncebox_tries
WHERE delivery_id IN (SELECT :delivery_id /* from rows */)
    AND EXISTS (
        SELECT 1 FROM oncebox_deliveries
        WHERE oncebox_deliveries.id = oncebox_tries.delivery_id AND purged_at IS NOT NULL
            AND ended_at <= :before AND state IN ('done', 'dead')
    )
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects
        WHERE oncebox_effects.delivery_id = oncebox_tries.delivery_id
    );

-- name: next
-- Messages by id, which is approximately the order in which they were stored.
SELECT id, received_at FROM oncebox_messages WHERE id > :after ORDER BY id LIMIT :most;

-- name: empty_messages
-- bulk: id text
-- Delete the content of a message, unless its delivery still needs an operator.
UPDATE oncebox_messages SET document = :nothing, purged_at = :now
WHERE id IN (SELECT :id /* from rows */) AND purged_at IS NULL AND received_at <= :before
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries
        WHERE oncebox_deliveries.id = oncebox_messages.delivery_id
            AND (state NOT IN ('done', 'dead') OR (state = 'dead' AND seen_at IS NULL))
    );

-- name: old_artifacts
-- Artifacts past their retention period, oldest first.
SELECT id, kind FROM oncebox_artifacts
WHERE purged_at IS NULL AND received_at <= :before ORDER BY received_at LIMIT :most;

-- name: overwrite
-- bulk: id text, mark bytea
-- Delete the value of an artifact, claimed or not; the record of the artifact and its claim stays.
-- The mark is deleted too: if the same value arrives again, that is another artifact. That of a
-- message is no secret and stays, so that a message is never granted anew. That of the attempt
-- stays while another of its inboxes keeps the value, which is claimed here.
UPDATE oncebox_artifacts
SET sealed = :nothing, mark = CASE WHEN kind = 'message' THEN oncebox_artifacts.mark ELSE :mark END,
    purged_at = :now,
    attempt_mark = CASE WHEN kind = 'message' OR EXISTS (
        SELECT 1 FROM oncebox_artifacts AS same
        WHERE same.same_as = oncebox_artifacts.id AND same.purged_at IS NULL
    ) THEN attempt_mark END
/* from rows */
WHERE oncebox_artifacts.id = :id AND purged_at IS NULL AND received_at <= :before;

-- name: firsts
-- bulk: id text
-- The artifacts whose values these have too.
SELECT DISTINCT same_as FROM oncebox_artifacts /* and rows */
WHERE oncebox_artifacts.id = :id AND COALESCE(same_as, '') <> '';

-- name: forget_marks
-- bulk: id text
-- Delete the mark of an attempt's value that was kept for its other inboxes, after the last.
UPDATE oncebox_artifacts SET attempt_mark = NULL
/* from rows */
WHERE oncebox_artifacts.id = :id AND COALESCE(purged_at, 0) > 0 AND NOT EXISTS (
    SELECT 1 FROM oncebox_artifacts AS same
    WHERE same.same_as = oncebox_artifacts.id AND same.purged_at IS NULL
);

-- name: over
-- Ended sends of all tenants whose content is past its retention period.
SELECT tenant, id FROM oncebox_sends WHERE keep_until IS NOT NULL AND keep_until <= :now
ORDER BY keep_until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: empty_sends
-- bulk: tenant text, id text
-- Reduce a send to a tombstone: key and outcome, without content.
UPDATE oncebox_sends SET keep_until = NULL, purged_at = :now
/* from rows */
WHERE tenant = :tenant AND id = :id AND keep_until IS NOT NULL AND keep_until <= :now
    AND state IN ('sent', 'failed', 'suppressed', 'cancelled', 'expired', 'logged')
RETURNING id;

-- name: drop_bodies
-- bulk: send_id text
-- Delete the content of sends.
DELETE FROM oncebox_send_bodies WHERE send_id IN (SELECT :send_id /* from rows */);

-- name: forgettable
-- Tombstones of all tenants that are old enough.
SELECT tenant, id FROM oncebox_sends WHERE purged_at IS NOT NULL AND ended_at <= :before
ORDER BY ended_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: forget
-- bulk: tenant text, id text
-- Delete a send and its key; the same intent would be a new one.
DELETE FROM oncebox_sends
WHERE (tenant, id) IN (SELECT :tenant, :id /* from rows */)
    AND purged_at IS NOT NULL AND ended_at <= :before
    AND state IN ('sent', 'failed', 'suppressed', 'cancelled', 'expired', 'logged')
RETURNING id;

-- name: forget_recipients
-- bulk: id text
-- Delete the recipients of sends.
DELETE FROM oncebox_send_recipients WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_send_tries
-- bulk: id text
-- Delete the tries of sends.
DELETE FROM oncebox_send_tries WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_places
-- bulk: id text
-- Delete the batch positions of sends.
DELETE FROM oncebox_batch_sends WHERE send_id IN (SELECT :id /* from rows */);

-- name: forget_batches
-- Delete empty batches.
DELETE FROM oncebox_batches WHERE created_at <= :before
    AND (SELECT member.place FROM oncebox_batch_sends AS member
        WHERE member.batch_id = oncebox_batches.id LIMIT 1) IS NULL;

-- name: void_deliveries
-- Raise the fences of deliveries that may still run above all fences issued since the backup.
UPDATE oncebox_deliveries SET fence = fence + :jump
WHERE state IN ('received', 'processing', 'failed', 'held', 'dead');

-- name: void_sends
-- The same for sends that have not ended as sent.
UPDATE oncebox_sends SET fence = fence + :jump WHERE state NOT IN ('sent', 'logged');

-- name: void_actions
-- The same for actions that are not done.
UPDATE oncebox_actions SET fence = fence + :jump WHERE state <> 'done';

-- name: void_duties
-- The same for duties.
UPDATE oncebox_duties SET fence = fence + :jump;

-- name: unanalysed
-- only: postgres
-- Our tables that the planner knows nothing of, or that are ten times as large as it knows, or a
-- tenth; small ones need no statistics.
SELECT class.relname
FROM pg_class AS class LEFT JOIN pg_stat_user_tables AS now ON now.relid = class.oid
WHERE class.relkind = 'r' AND class.relname LIKE 'oncebox\_%' AND pg_table_is_visible(class.oid)
    AND pg_relation_size(class.oid) > 10 * CAST(current_setting('block_size') AS BIGINT)
    AND (class.reltuples < 0 OR now.n_live_tup > 10 * class.reltuples
        OR (now.n_live_tup > 0 AND class.reltuples > 10 * now.n_live_tup)
        OR (class.reltuples > 0 AND NOT EXISTS (
            SELECT 1 FROM pg_stats AS known
            WHERE known.schemaname = CAST(class.relnamespace::regnamespace AS TEXT)
                AND known.tablename = class.relname
        )))
ORDER BY class.relname;
