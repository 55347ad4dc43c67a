-- name: look
-- Whether an event waits for its number, the current holder of the duty, and since when the oldest
-- transaction writes that has not ended; 0 if none does.
SELECT EXISTS (SELECT 1 FROM oncebox_events WHERE number IS NULL AND id >= :floor),
    COALESCE((SELECT holder FROM oncebox_duties WHERE name = :name), ''),
    COALESCE((SELECT fence FROM oncebox_duties WHERE name = :name), 0),
    COALESCE((SELECT until FROM oncebox_duties WHERE name = :name), 0),
    0 /* postgres: + COALESCE((
        SELECT CAST(extract(epoch FROM min(xact_start)) * 1000 AS BIGINT) FROM pg_stat_activity
        WHERE backend_xid IS NOT NULL
    ), 0) */;

-- name: waiting
-- Whether an event waits for its number.
SELECT EXISTS (SELECT 1 FROM oncebox_events WHERE number IS NULL);

-- name: take
-- Take the duty if it is free or expired; the fence excludes its former holder.
INSERT INTO oncebox_duties (name, holder, fence, until) VALUES (:name, :holder, 1, :until)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, fence = oncebox_duties.fence + 1, until = excluded.until
WHERE oncebox_duties.until <= :now
RETURNING fence;

-- name: keep
-- Extend the duty, and lock it until the commit; only its holder may.
UPDATE oncebox_duties SET until = :until
WHERE name = :name AND holder = :holder AND fence = :fence;

-- name: fresh
-- Events without a number, in the order in which they were recorded, as far as that is known;
-- those of messages with their inbox and position.
SELECT event.id, event.tenant, event.inbox_id, message.sequence
FROM oncebox_events AS event
LEFT JOIN oncebox_messages AS message ON message.id = event.subject_id
WHERE event.number IS NULL AND event.id >= :floor ORDER BY event.id LIMIT :most;

-- name: advance
-- bulk: tenant text, length bigint
-- Reserve numbers for each tenant; return the last one.
INSERT INTO oncebox_streams (tenant, last)
VALUES (:tenant, :length)
/* from rows */
ON CONFLICT (tenant) DO UPDATE SET last = oncebox_streams.last + excluded.last
RETURNING tenant, last;

-- name: number
-- bulk: id text, number bigint
-- Number events; a number never changes.
UPDATE oncebox_events SET number = :number
/* from rows */
WHERE id = :id AND COALESCE(oncebox_events.number, -1) = -1;
