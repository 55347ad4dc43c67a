-- name: sources
-- All sources that have deliveries, found by a loose index scan.
WITH RECURSIVE found (source) AS (
    SELECT MIN(source) FROM oncebox_deliveries WHERE tenant = :tenant
    UNION ALL
    SELECT (
        SELECT MIN(next.source) FROM oncebox_deliveries AS next
        WHERE next.tenant = :tenant AND next.source > found.source
    )
    FROM found WHERE found.source IS NOT NULL
)
SELECT source FROM found WHERE source IS NOT NULL;

-- name: ids_by_key
-- Deliveries of a source with this key; more than one if bodies conflicted.
SELECT id FROM oncebox_deliveries
WHERE key_digest = :key_digest
    AND tenant || '' = :tenant AND source || '' = :source AND key || '' = :key
ORDER BY variant;

-- name: by_id
-- One delivery with all columns.
SELECT id, tenant, source, key, variant, type, road, state, lane, lane_position, late, due_at,
    received_at, accepted_at, tries, fence, worker, claimed_at, give_up_at, not_before, rearms,
    policy, hold_reason, held_at, outcome, last_error, ended_at, size, verdict, secret_id,
    payload_id, slice_start, sequence, waits_for, replay_of, purged_at, seen_at
FROM oncebox_deliveries WHERE tenant = :tenant AND id = :id;

-- name: newest
-- Deliveries, newest first, below an id. Written so that no index fits the tenant: ids are read
-- in order, and most are of this tenant.
SELECT id FROM oncebox_deliveries
WHERE id < :before AND tenant || '' = :tenant
    AND (CAST(:state AS TEXT) IS NULL OR state = :state)
    AND (CAST(:source AS TEXT) IS NULL OR source = :source)
ORDER BY id DESC LIMIT :most;

-- name: newest_of_tenant
-- The same for a tenant that is not the default one, with an index of its own. A pair is compared
-- and ordered, here and below, so that no other index fits.
SELECT id FROM oncebox_deliveries
WHERE (tenant, id) < (:tenant, :before) AND tenant >= :tenant AND tenant <> 'default'
    AND (CAST(:state AS TEXT) IS NULL OR state = :state)
    AND (CAST(:source AS TEXT) IS NULL OR source = :source)
ORDER BY tenant DESC, id DESC LIMIT :most;

-- name: of_source
-- Deliveries of a source, in no order.
SELECT id FROM oncebox_deliveries WHERE tenant = :tenant AND source = :source LIMIT :most;

-- name: in_state
-- Deliveries in a state that few are in, newest first, found without reading the others.
SELECT id FROM oncebox_deliveries
WHERE (tenant, state, id) < (:tenant, :state, :before) AND (tenant, state) >= (:tenant, :state)
    AND (state = 'dead' OR state = 'held' OR state = 'failed')
    AND (CAST(:source AS TEXT) IS NULL OR source = :source)
ORDER BY tenant DESC, state DESC, id DESC LIMIT :most;

-- name: since
-- Deliveries received after another one, oldest first.
SELECT id FROM oncebox_deliveries
WHERE id > :after AND tenant || '' = :tenant
ORDER BY id LIMIT :most;

-- name: since_of_tenant
-- The same for a tenant that is not the default one.
SELECT id FROM oncebox_deliveries
WHERE (tenant, id) > (:tenant, :after) AND tenant <= :tenant AND tenant <> 'default'
ORDER BY tenant, id LIMIT :most;

-- name: several
-- bulk: id text
-- Some deliveries with all columns.
SELECT id, tenant, source, key, variant, type, road, state, lane, lane_position, late, due_at,
    received_at, accepted_at, tries, fence, worker, claimed_at, give_up_at, not_before, rearms,
    policy, hold_reason, held_at, outcome, last_error, ended_at, size, verdict, secret_id,
    payload_id, slice_start, sequence, waits_for, replay_of, purged_at, seen_at
FROM oncebox_deliveries /* and rows */
WHERE id = :id AND tenant = :tenant;

-- name: in_work
-- Deliveries in progress, latest lease first.
SELECT id FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND state = 'processing'
ORDER BY due_at DESC LIMIT :most;

-- name: touched
-- The objects of audit records after a given one.
SELECT id, target FROM oncebox_audit WHERE tenant || '' = :tenant AND id > :after
ORDER BY id LIMIT :most;

-- name: last_audit_record
-- The newest audit record of all tenants; a tenant's records after it are its new ones.
SELECT id FROM oncebox_audit ORDER BY id DESC LIMIT 1;

-- name: overdue
-- The number of unclaimed deliveries that were due before a given time, and the oldest due time.
SELECT COUNT(*), MIN(due_at) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND heavy = 0
    AND state IN ('received', 'failed') AND due_at IS NOT NULL AND due_at <= :before
UNION ALL
SELECT COUNT(*), MIN(due_at) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND heavy = 1
    AND state IN ('received', 'failed') AND due_at IS NOT NULL AND due_at <= :before
UNION ALL
SELECT COUNT(*), MIN(due_at) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND state = 'processing' AND due_at <= :before;

-- name: attention
-- The number of deliveries that need an operator, by state.
SELECT state, COUNT(*) FROM oncebox_deliveries
WHERE tenant = :tenant AND state IN ('dead', 'held')
    AND (state = 'dead' OR state = 'held' OR state = 'failed')
GROUP BY state;

-- name: payload
-- Headers and body as received.
SELECT source, payload_id, headers, body, slice_start, size
FROM oncebox_deliveries AS delivery JOIN oncebox_payloads AS payload ON payload.id = payload_id
WHERE tenant = :tenant AND delivery.id = :id;

-- name: tries
-- The tries that did not complete a delivery.
SELECT fence, worker, claimed_at, ended_at, outcome, error, traceback
FROM oncebox_tries WHERE tenant = :tenant AND delivery_id = :id AND outcome <> 'begun'
ORDER BY fence, ended_at;

-- name: sightings
-- Duplicates of a delivery, by class.
SELECT class, count, first_at, last_at, road
FROM oncebox_sightings WHERE tenant = :tenant AND delivery_id = :id ORDER BY first_at, class;

-- name: examples
-- The first few duplicates of each class, as received.
SELECT class, at, road, verdict, secret_id, headers
FROM oncebox_examples WHERE tenant = :tenant AND delivery_id = :id ORDER BY class, number;
