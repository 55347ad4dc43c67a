-- name: look
-- Whether an event waits for its number, and who has the duty until when.
SELECT EXISTS (SELECT 1 FROM oncebox_events WHERE number IS NULL),
    COALESCE((SELECT holder FROM oncebox_duties WHERE name = :name), ''),
    COALESCE((SELECT fence FROM oncebox_duties WHERE name = :name), 0),
    COALESCE((SELECT until FROM oncebox_duties WHERE name = :name), 0);

-- name: take
-- Take the duty if nobody has it or its time is over; the fence keeps out whoever had it.
INSERT INTO oncebox_duties (name, holder, fence, until) VALUES (:name, :holder, 1, :until)
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, fence = oncebox_duties.fence + 1, until = excluded.until
WHERE oncebox_duties.until <= :now
RETURNING fence;

-- name: keep
-- Prolong the duty, and lock it until the commit; only who has it may.
UPDATE oncebox_duties SET until = :until
WHERE name = :name AND holder = :holder AND fence = :fence;

-- name: fresh
-- Events without a number, in the order in which they were recorded, as far as that is known;
-- those of messages with their inbox and their place in it.
SELECT event.id, event.tenant, event.inbox_id, message.sequence
FROM oncebox_events AS event
LEFT JOIN oncebox_messages AS message ON message.id = event.subject_id
WHERE event.number IS NULL ORDER BY event.id LIMIT :most;

-- name: advance
-- bulk: tenant text, length bigint
-- Take so many numbers of each tenant; the last of them is returned.
INSERT INTO oncebox_streams (tenant, last)
VALUES (:tenant, :length)
/* from rows */
ON CONFLICT (tenant) DO UPDATE SET last = oncebox_streams.last + excluded.last
RETURNING tenant, last;

-- name: number
-- bulk: id text, number bigint
-- Give events their numbers, once and for all.
UPDATE oncebox_events SET number = :number
/* from rows */
WHERE id = :id AND oncebox_events.number IS NULL;
