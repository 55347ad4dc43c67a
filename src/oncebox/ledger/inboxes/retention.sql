-- name: next
-- Messages in the order of their ids, which is about the order in which they were filed.
SELECT id, received_at FROM oncebox_messages WHERE id > :after ORDER BY id LIMIT :most;

-- name: empty
-- bulk: id text
-- Let go of what was read of a message, unless its delivery still needs somebody.
UPDATE oncebox_messages SET document = :nothing, purged_at = :now
WHERE id IN (SELECT :id /* from rows */) AND purged_at IS NULL AND received_at <= :before
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries
        WHERE oncebox_deliveries.id = oncebox_messages.delivery_id
            AND (state NOT IN ('done', 'dead') OR (state = 'dead' AND seen_at IS NULL))
    );

-- name: old_artifacts
-- Artifacts whose time is over, the oldest first.
SELECT id, kind FROM oncebox_artifacts
WHERE purged_at IS NULL AND received_at <= :before ORDER BY received_at LIMIT :most;

-- name: overwrite
-- bulk: id text, mark bytea
-- Let go of what an artifact says, whoever has it; that it came, and who had it, stays. The mark
-- goes too: if the same value comes again, that is another artifact.
UPDATE oncebox_artifacts SET sealed = :nothing, mark = :mark, purged_at = :now
/* from rows */
WHERE oncebox_artifacts.id = :id AND purged_at IS NULL AND received_at <= :before;
