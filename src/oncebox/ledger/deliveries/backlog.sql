-- name: next_tenant
-- The next tenant that has deliveries; a loop over it is a loose index scan.
SELECT MIN(tenant) FROM oncebox_deliveries WHERE tenant > :tenant;

-- name: due
-- Deliveries of a source that wait for a worker or for their next try, by state.
SELECT state, COUNT(*), MIN(due_at) FROM (
    SELECT state, due_at FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state IN ('received', 'failed')
        AND due_at IS NOT NULL
    ORDER BY due_at LIMIT :most
) AS due GROUP BY state;

-- name: processing
-- Deliveries of a source that are being worked on.
SELECT COUNT(*) FROM (
    SELECT 1 AS one FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state = 'processing'
    ORDER BY due_at LIMIT :most
) AS processing;

-- name: in_lanes
-- Deliveries of a source that wait for others of their lane.
SELECT COUNT(*) FROM (
    SELECT state, due_at FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND lane_position IS NOT NULL
        AND state IN ('received', 'processing', 'failed', 'held')
    ORDER BY lane, lane_position LIMIT :most
) AS ordered WHERE state = 'received' AND due_at IS NULL;

-- name: held
-- The oldest held deliveries of a tenant, by source.
SELECT source, COUNT(*), MIN(held_at) FROM (
    SELECT source, held_at FROM oncebox_deliveries
    WHERE tenant = :tenant AND state = 'held'
        AND (state = 'dead' OR state = 'held' OR state = 'failed')
    ORDER BY tenant, state, id LIMIT :most
) AS held GROUP BY source;

-- name: dead
-- Those among the newest dead deliveries of a tenant that nobody acknowledged, by source.
SELECT source, COUNT(*) FROM (
    SELECT source, seen_at FROM oncebox_deliveries
    WHERE tenant = :tenant AND state = 'dead'
        AND (state = 'dead' OR state = 'held' OR state = 'failed')
    ORDER BY tenant DESC, state DESC, id DESC LIMIT :most
) AS dead WHERE seen_at IS NULL GROUP BY source;
