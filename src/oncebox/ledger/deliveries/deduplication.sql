-- name: count
-- bulk: delivery_id text, class text, tenant text, count bigint, road text
-- Count repeats; one row per delivery and class, however many there are.
INSERT INTO oncebox_sightings (delivery_id, class, tenant, count, first_at, last_at, road)
VALUES (:delivery_id, :class, :tenant, :count, :now, :now, :road)
/* from rows */
ON CONFLICT (delivery_id, class) DO UPDATE
SET count = oncebox_sightings.count + excluded.count, last_at = excluded.last_at,
    road = excluded.road
RETURNING delivery_id, class, count;

-- name: keep
-- bulk: delivery_id text, class text, number bigint, tenant text, road text, verdict text, secret_id text, headers bytea
-- Store one of the first repeats as received.
INSERT INTO oncebox_examples (
    delivery_id, class, number, tenant, at, road, verdict, secret_id, headers
)
VALUES (:delivery_id, :class, :number, :tenant, :now, :road, :verdict, :secret_id, :headers)
/* from rows */
ON CONFLICT DO NOTHING;

-- name: insert
-- bulk: id text, tenant text, source text, key text, variant text, key_digest bytea, body_digest bytea, type text, road text, fingerprint bytea, payload_id text, slice_start bigint, size bigint, lane text, state text, due_at bigint, received_at bigint, hold_reason text, held_at bigint, verdict text, secret_id text, heavy bigint
-- Insert new deliveries; one with a known key, or with a known body under an unsigned key, is
-- skipped and not counted.
INSERT INTO oncebox_deliveries (
    id, tenant, source, key, variant, key_digest, body_digest, type, road, fingerprint, payload_id,
    slice_start, size, lane, state, due_at, received_at, accepted_at, hold_reason, held_at, verdict,
    secret_id, heavy, late
)
VALUES (:id, :tenant, :source, :key, :variant, :key_digest, :body_digest, :type, :road, :fingerprint,
    :payload_id, :slice_start, :size, :lane, :state, :due_at, :received_at, :now, :hold_reason,
    :held_at, :verdict, :secret_id, :heavy, CASE WHEN :verdict = 'late' THEN 1 ELSE 0 END)
/* from rows */
ON CONFLICT DO NOTHING;

-- name: insert_payload
-- bulk: id text, headers bytea, body bytea
-- Store headers and body, byte for byte.
INSERT INTO oncebox_payloads (id, headers, body)
VALUES (:id, :headers, :body)
/* from rows */
ON CONFLICT (id) DO NOTHING;

-- name: insert_whole
-- only: postgres
-- bulk: id text, tenant text, source text, key text, key_digest bytea, body_digest bytea, type text, road text, fingerprint bytea, size bigint, received_at bigint, headers bytea, body bytea, verdict text, secret_id text
-- Insert deliveries without a lane, and their payloads, in one statement.
WITH arrived AS (SELECT * FROM /* rows */),
new AS (
    INSERT INTO oncebox_deliveries (
        id, tenant, source, key, variant, key_digest, body_digest, type, road, fingerprint,
        payload_id, size, state, due_at, received_at, accepted_at, verdict, secret_id, late
    )
    SELECT :id, :tenant, :source, :key, '', :key_digest, :body_digest, :type, :road, :fingerprint,
        :id, :size, 'received', CAST(:now AS BIGINT), :received_at, CAST(:now AS BIGINT),
        :verdict, :secret_id, CASE WHEN :verdict = 'late' THEN 1 ELSE 0 END
    FROM arrived
    ON CONFLICT DO NOTHING
    RETURNING id
)
INSERT INTO oncebox_payloads (id, headers, body)
SELECT :id, :headers, :body FROM arrived JOIN new ON id = :id;

-- name: insert_arrival
-- only: sqlite
-- bulk: id text, tenant text, source text, key text, key_digest bytea, body_digest bytea, type text, road text, fingerprint bytea, size bigint, received_at bigint, headers bytea, body bytea, verdict text, secret_id text
-- The same through a view; none is inserted if one is known.
INSERT INTO oncebox_arrivals (
    id, tenant, source, key, key_digest, body_digest, type, road, fingerprint, size, received_at,
    headers, body, verdict, secret_id, accepted_at
)
VALUES (:id, :tenant, :source, :key, :key_digest, :body_digest, :type, :road, :fingerprint, :size,
    :received_at, :headers, :body, :verdict, :secret_id, :now)
/* from rows */;

-- name: order
-- bulk: id text, sequence bigint, skip_stale bigint, gap_until bigint, after_type text, after_until bigint
-- Store the ordering rules of a delivery in its lane.
UPDATE oncebox_deliveries
SET sequence = :sequence, skip_stale = :skip_stale, gap_until = :gap_until,
    after_type = :after_type, after_until = :after_until
/* from rows */ WHERE id = :id;

-- name: known
-- bulk: key_digest bytea, tenant text, source text, key text, variant text
-- spans: yes
-- Known deliveries with these keys. The digest finds them; no other index fits the rest.
SELECT tenant, source, key, variant, id, state, road, fingerprint, received_at, accepted_at,
    replay_of
FROM oncebox_deliveries /* and rows */
WHERE key_digest = :key_digest AND variant = :variant
    AND tenant || '' = :tenant AND source || '' = :source AND key || '' = :key;

-- name: owners
-- bulk: body_digest bytea, tenant text, source text, fingerprint bytea
-- Known deliveries with these bodies under unsigned keys.
SELECT tenant, source, fingerprint, id, state, road, fingerprint, received_at, accepted_at, replay_of
FROM oncebox_deliveries /* and rows */
WHERE body_digest = :body_digest AND body_digest IS NOT NULL
    AND tenant || '' = :tenant AND source || '' = :source AND fingerprint = :fingerprint;

-- name: mark_replay
-- bulk: id text, replay_of text, outcome text, ended_at bigint
-- Record the delivery that a replay repeats, and the outcome if it must not run.
UPDATE oncebox_deliveries
SET replay_of = :replay_of, outcome = :outcome, ended_at = :ended_at
/* from rows */ WHERE id = :id;

-- name: ours
-- bulk: id text, tenant text
-- Our own deliveries that were sent back to us.
SELECT id, state, road, fingerprint, received_at, accepted_at, replay_of
FROM oncebox_deliveries /* and rows */ WHERE id = :id AND tenant = :tenant;

-- name: hasten
-- bulk: id text
-- Make a failed delivery due after a redelivery, at most once a minute and never before the
-- time that its failure asked for.
UPDATE oncebox_deliveries SET due_at = :now, hastened_at = :now
/* from rows */
WHERE id = :id AND state = 'failed' AND due_at > :now AND replay_of IS NULL
    AND COALESCE(hastened_at, 0) <= :now - 60000 AND COALESCE(not_before, 0) <= :now;

-- name: rearm
-- bulk: id text
-- Rearm a dead delivery after a redelivery: at most three times, only with its body, never a
-- conflict or a replay, and never if one of its effects needs an operator.
UPDATE oncebox_deliveries
SET state = 'received', due_at = CASE WHEN lane IS NULL THEN :now END, tries = 0,
    give_up_at = NULL, rearms = rearms + 1, ended_at = NULL, outcome = NULL, late = 1,
    seen_at = NULL
/* from rows */
WHERE id = :id AND state = 'dead' AND rearms < 3 AND variant = '' AND replay_of IS NULL
    AND purged_at IS NULL
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_effects
        WHERE delivery_id = oncebox_deliveries.id AND oncebox_effects.state = 'unknown'
    )
RETURNING id, tenant, source, lane;
