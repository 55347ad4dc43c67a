-- name: number
-- bulk: tenant text, source text, lane text, count bigint, ruled bigint
-- Give out the next positions of a lane. The row is the lane's lock until the commit.
INSERT INTO oncebox_lanes (tenant, source, lane, last_position, ruled)
VALUES (:tenant, :source, :lane, :count, :ruled)
/* from rows */
ON CONFLICT (tenant, source, lane) DO UPDATE
SET last_position = oncebox_lanes.last_position + excluded.last_position,
    ruled = CASE WHEN excluded.ruled = 1 THEN 1 ELSE oncebox_lanes.ruled END
RETURNING tenant, source, lane, last_position, ruled;

-- name: place
-- bulk: id text, position bigint
-- Put a delivery at its position; it is not due until it is the first.
UPDATE oncebox_deliveries SET lane_position = :position, due_at = NULL
/* from rows */ WHERE id = :id;

-- name: lock
-- bulk: tenant text, source text, lane text
-- Wait for whoever is changing this lane: an update that changes nothing, on both databases.
UPDATE oncebox_lanes SET last_position = last_position
/* from rows */ WHERE tenant = :tenant AND source = :source AND lane = :lane
RETURNING tenant, source, lane, ruled;

-- name: advance
-- bulk: tenant text, source text, lane text
-- Make the first of the lane due, if it only waits for its turn.
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
