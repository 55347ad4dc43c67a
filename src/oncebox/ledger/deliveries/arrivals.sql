-- name: insert
-- bulk: id text, tenant text, source text, key text, variant text, type text, road text, fingerprint bytea, size bigint, lane text, state text, due_at bigint, received_at bigint, hold_reason text, held_at bigint
-- Write new deliveries; a known key is left alone and not counted.
INSERT INTO oncebox_deliveries (
    id, tenant, source, key, variant, type, road, fingerprint, payload_id, size, lane, state,
    due_at, received_at, accepted_at, hold_reason, held_at
)
VALUES (:id, :tenant, :source, :key, :variant, :type, :road, :fingerprint, :id, :size, :lane, :state,
    :due_at, :received_at, :now, :hold_reason, :held_at)
/* from rows */
ON CONFLICT (tenant, source, key, variant) DO NOTHING;

-- name: insert_payload
-- bulk: id text, headers bytea, body bytea
-- Keep what arrived, byte for byte.
INSERT INTO oncebox_payloads (id, headers, body)
VALUES (:id, :headers, :body)
/* from rows */
ON CONFLICT (id) DO NOTHING;

-- name: insert_whole
-- only: postgres
-- bulk: id text, tenant text, source text, key text, type text, road text, fingerprint bytea, size bigint, received_at bigint, headers bytea, body bytea
-- Write deliveries without a lane, and what arrived, in one statement.
WITH arrived AS (SELECT * FROM /* rows */),
new AS (
    INSERT INTO oncebox_deliveries (
        id, tenant, source, key, variant, type, road, fingerprint, payload_id, size, state,
        due_at, received_at, accepted_at
    )
    SELECT :id, :tenant, :source, :key, '', :type, :road, :fingerprint, :id, :size, 'received',
        CAST(:now AS BIGINT), :received_at, CAST(:now AS BIGINT)
    FROM arrived
    ON CONFLICT (tenant, source, key, variant) DO NOTHING
    RETURNING id
)
INSERT INTO oncebox_payloads (id, headers, body)
SELECT :id, :headers, :body FROM arrived JOIN new ON id = :id;

-- name: known
-- bulk: tenant text, source text, key text, variant text
-- What is already known under these keys.
SELECT tenant, source, key, variant, id, state, road, fingerprint, received_at, accepted_at, lane
FROM oncebox_deliveries /* and rows */
WHERE tenant = :tenant AND source = :source AND key = :key AND variant = :variant;

-- name: count_sighting
-- bulk: delivery_id text, class text, tenant text, count bigint, road text
-- Count repeats; one row per delivery and class, however many there are.
INSERT INTO oncebox_sightings (delivery_id, class, tenant, count, first_at, last_at, road)
VALUES (:delivery_id, :class, :tenant, :count, :now, :now, :road)
/* from rows */
ON CONFLICT (delivery_id, class) DO UPDATE
SET count = oncebox_sightings.count + excluded.count, last_at = excluded.last_at,
    road = excluded.road;

-- name: hasten
-- bulk: id text
-- A redelivery brings a failed delivery forward, at most once a minute and never before
-- the time its failure asked for.
UPDATE oncebox_deliveries SET due_at = :now, hastened_at = :now
/* from rows */
WHERE id = :id AND state = 'failed' AND due_at > :now
    AND COALESCE(hastened_at, 0) <= :now - 60000 AND COALESCE(not_before, 0) <= :now;

-- name: rearm
-- bulk: id text
-- A redelivery brings a dead delivery back, at most three times, never a conflict and never
-- past an effect that needs a person.
UPDATE oncebox_deliveries
SET state = 'received', due_at = CASE WHEN lane IS NULL THEN :now END, tries = 0,
    give_up_at = NULL, rearms = rearms + 1, ended_at = NULL, outcome = NULL, late = 1
/* from rows */
WHERE id = :id AND state = 'dead' AND rearms < 3 AND variant = ''
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects
        WHERE delivery_id = oncebox_deliveries.id AND oncebox_effects.state = 'unknown'
    )
RETURNING id, tenant, source, lane;
