-- name: standing
-- The delivery whose turn it is in a lane, and the highest completed number.
SELECT holder.id, holder.state, holder.due_at, lane.last_sequence, lane.turn
FROM oncebox_lanes AS lane LEFT JOIN oncebox_deliveries AS holder ON holder.id = lane.turn
WHERE lane.tenant = :tenant AND lane.source = :source AND lane.lane = :lane;

-- name: active
-- The delivery whose turn it is in a lane that was ordered by arrival only.
SELECT id, state, due_at FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND lane = :lane AND lane_position IS NOT NULL
    AND state IN ('received', 'processing', 'failed') AND due_at IS NOT NULL
ORDER BY lane_position LIMIT 1;

-- name: first
-- The earliest delivery of a lane.
SELECT id, state, type, sequence, gap_until, after_type, after_until FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND lane = :lane AND lane_position IS NOT NULL
    AND state IN ('received', 'processing', 'failed', 'held')
ORDER BY lane_position LIMIT 1;

-- name: lowest
-- The delivery with the lowest number.
SELECT id, state, type, sequence, gap_until, after_type, after_until FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND lane = :lane AND lane_position IS NOT NULL
    AND sequence IS NOT NULL AND state IN ('received', 'processing', 'failed', 'held')
ORDER BY sequence, lane_position LIMIT 1;

-- name: of_type
-- The first delivery of a type that can run.
SELECT id, state, type, sequence, gap_until, after_type, after_until FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND lane = :lane AND lane_position IS NOT NULL
    AND type = :type AND state = 'received'
    AND state IN ('received', 'processing', 'failed', 'held')
ORDER BY lane_position LIMIT 1;

-- name: is_done
-- Whether a delivery of a type was ever completed in a lane.
SELECT 1 FROM oncebox_lane_types
WHERE tenant = :tenant AND source = :source AND lane = :lane AND type = :type;

-- name: skip
-- End a delivery without running it, because a higher number of its lane was completed.
UPDATE oncebox_deliveries
SET state = 'done', outcome = 'stale', ended_at = :now, due_at = NULL
WHERE id = :id AND state = 'received' AND skip_stale = 1 AND sequence < (
    SELECT last_sequence FROM oncebox_lanes
    WHERE tenant = :tenant AND source = :source AND lane = :lane
);

-- name: take
-- Withdraw the turn of a delivery that has not started.
UPDATE oncebox_deliveries SET due_at = NULL, waits_for = NULL
WHERE id = :id AND state = 'received';

-- name: give
-- Give a delivery its turn, now or when it has waited long enough; never while another one of
-- its lane is in progress. A number below the highest completed one is marked late.
UPDATE oncebox_deliveries
SET due_at = :due_at, waits_for = :waits_for,
    late = CASE WHEN sequence < CAST(:last AS BIGINT) THEN 1 ELSE late END
WHERE id = :id AND state = 'received' AND (due_at IS NULL OR due_at > :due_at)
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries AS other
        WHERE other.tenant = :tenant AND other.source = :source AND other.lane = :lane
            AND other.state = 'processing'
    );

-- name: hand_over
-- Record whose turn it is.
UPDATE oncebox_lanes SET turn = :id
WHERE tenant = :tenant AND source = :source AND lane = :lane;

-- name: remember_number
-- Record the highest completed number.
UPDATE oncebox_lanes SET last_sequence = :sequence
WHERE tenant = :tenant AND source = :source AND lane = :lane
    AND (last_sequence IS NULL OR last_sequence < :sequence);

-- name: remember_type
-- Record that a type was completed.
INSERT INTO oncebox_lane_types (tenant, source, lane, type)
VALUES (:tenant, :source, :lane, :type)
ON CONFLICT DO NOTHING;

-- name: number
-- bulk: tenant text, source text, lane text, count bigint, ruled bigint
-- Assign the next positions of a lane. The row is the lane's lock until the commit.
INSERT INTO oncebox_lanes (tenant, source, lane, last_position, ruled)
VALUES (:tenant, :source, :lane, :count, :ruled)
/* from rows */
ON CONFLICT (tenant, source, lane) DO UPDATE
SET last_position = oncebox_lanes.last_position + excluded.last_position,
    ruled = CASE WHEN excluded.ruled = 1 THEN 1 ELSE oncebox_lanes.ruled END
RETURNING tenant, source, lane, last_position, ruled;

-- name: place
-- bulk: id text, position bigint
-- Assign a delivery its position; it is not due until it is the first.
UPDATE oncebox_deliveries SET lane_position = :position, due_at = NULL
/* from rows */ WHERE id = :id;

-- name: lock
-- bulk: tenant text, source text, lane text
-- Lock a lane until the commit: an update that changes nothing, on both databases.
UPDATE oncebox_lanes SET last_position = last_position
/* from rows */ WHERE tenant = :tenant AND source = :source AND lane = :lane
RETURNING tenant, source, lane, ruled;

-- name: advance
-- bulk: tenant text, source text, lane text
-- Make the first delivery of a lane due, if it only waits for its turn.
UPDATE oncebox_deliveries SET due_at = :now
/* from rows */
WHERE id = (
    SELECT first.id FROM oncebox_deliveries AS first
    WHERE first.tenant = :tenant AND first.source = :source AND first.lane = :lane
        AND first.lane_position IS NOT NULL
        AND first.state IN ('received', 'processing', 'failed', 'held')
    ORDER BY first.lane_position LIMIT 1
)
AND due_at IS NULL AND state IN ('received', 'failed');
