-- name: record
-- bulk: id text, tenant text, type text, inbox_id text, attempt_id text, subject_id text, at bigint, data bytea, number bigint
-- Record events. Where several commits run at once they have no number yet: a counter in every commit
-- would make all commits of a tenant wait for each other.
INSERT INTO oncebox_events (id, tenant, type, inbox_id, attempt_id, subject_id, at, data, number)
VALUES (:id, :tenant, :type, :inbox_id, :attempt_id, :subject_id, :at, :data, :number)
/* from rows */;

-- name: ends
-- The last number of a stream and the first one still stored; the next number if none is.
SELECT last, COALESCE(
    (SELECT MIN(number) FROM oncebox_events WHERE tenant = :tenant AND number IS NOT NULL),
    last + 1
)
FROM oncebox_streams WHERE tenant = :tenant;

-- name: read
-- Events between two numbers, in order, with data of their inboxes; each row starts with the
-- bounds of the stream as above. Without such events, one row with the bounds alone.
WITH ends AS (
    SELECT last, COALESCE(
        (SELECT MIN(number) FROM oncebox_events WHERE tenant = :tenant AND number IS NOT NULL),
        last + 1
    ) AS first
    FROM oncebox_streams WHERE tenant = :tenant
)
SELECT ends.last, ends.first, event.number, event.id, event.type, event.inbox_id,
    event.attempt_id, event.subject_id, event.at, event.data,
    (SELECT inbox.metadata FROM oncebox_inboxes AS inbox
        WHERE inbox.id = event.inbox_id AND inbox.tenant = event.tenant),
    (SELECT inbox.owner FROM oncebox_inboxes AS inbox
        WHERE inbox.id = event.inbox_id AND inbox.tenant = event.tenant)
FROM ends
LEFT JOIN oncebox_events AS event
    ON event.tenant = :tenant AND event.number > :after AND event.number <= :upto
        AND (CAST(:types AS TEXT) IS NULL
            OR replace(CAST(:types AS TEXT), ',' || event.type || ',', ',') <> :types)
        AND (CAST(:inbox_id AS TEXT) IS NULL OR event.inbox_id = :inbox_id)
        AND (CAST(:attempt_id AS TEXT) IS NULL OR event.attempt_id = :attempt_id)
        AND (CAST(:owner AS TEXT) IS NULL OR (
            SELECT own.owner FROM oncebox_inboxes AS own
            WHERE own.id = event.inbox_id AND own.tenant = event.tenant
        ) = :owner)
ORDER BY event.number LIMIT :most;

-- name: moved
-- bulk: tenant text, seen bigint
-- Streams with events after a number.
SELECT oncebox_streams.tenant, last FROM oncebox_streams /* and rows */
WHERE oncebox_streams.tenant = :tenant AND last > :seen;

-- name: tenants
-- The tenants that have a stream.
SELECT tenant FROM oncebox_streams ORDER BY tenant;

-- name: oldest
-- The first events still stored.
SELECT number, at FROM oncebox_events
WHERE tenant = :tenant AND number IS NOT NULL
ORDER BY number LIMIT :most;

-- name: forget
-- Delete all events up to a number.
DELETE FROM oncebox_events WHERE tenant = :tenant AND number <= :upto;

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
-- spans: yes
-- Number events; a number never changes.
UPDATE oncebox_events SET number = :number
/* from rows */
WHERE id = :id AND COALESCE(oncebox_events.number, -1) = -1;
