-- name: kept
-- Requests whose bodies are still there, in the order of their ids, with the deliveries they
-- belong to: one each, or the elements of a batch.
WITH kept AS (SELECT id FROM oncebox_payloads WHERE id > :after ORDER BY id LIMIT :most)
SELECT kept.id, own.id, own.tenant, own.source, own.state, own.ended_at, own.seen_at
FROM kept JOIN oncebox_deliveries AS own ON own.id = kept.id
UNION ALL
SELECT kept.id, part.id, part.tenant, part.source, part.state, part.ended_at, part.seen_at
FROM kept JOIN oncebox_deliveries AS part
    ON part.payload_id = kept.id AND part.payload_id <> part.id
ORDER BY 1, 2;

-- name: purge
-- bulk: id text, before bigint
-- Mark a delivery whose body may go: ended before a moment, seen by a person if it is dead, and
-- with no effect in doubt. From now on it cannot run again.
UPDATE oncebox_deliveries SET purged_at = :now
/* from rows */
WHERE id = :id AND purged_at IS NULL AND ended_at <= :before
    AND (state = 'done' OR (state = 'dead' AND seen_at IS NOT NULL))
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects
        WHERE delivery_id = oncebox_deliveries.id
            AND oncebox_effects.state IN ('started', 'unknown')
    );

-- name: empty
-- bulk: payload_id text
-- Let a request go that no delivery needs any more.
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
-- Deliveries that have tries or effects on record, in the order of their ids.
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
-- Let the effects go of deliveries that cannot run again, unless one is in doubt.
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
-- Let the tries go of deliveries that cannot run again and have no effects on record any more.
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
