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
    event.attempt_id, event.subject_id, event.at, event.data, inbox.metadata, inbox.owner
FROM ends
LEFT JOIN oncebox_events AS event
    ON event.tenant = :tenant AND event.number > :after AND event.number <= :upto
        AND (CAST(:types AS TEXT) IS NULL
            OR replace(CAST(:types AS TEXT), ',' || event.type || ',', ',') <> :types)
        AND (CAST(:inbox_id AS TEXT) IS NULL OR event.inbox_id = :inbox_id)
        AND (CAST(:attempt_id AS TEXT) IS NULL OR event.attempt_id = :attempt_id)
        AND (CAST(:owner AS TEXT) IS NULL OR EXISTS (
            SELECT 1 FROM oncebox_inboxes AS own
            WHERE own.id = event.inbox_id AND own.tenant = event.tenant AND own.owner = :owner
        ))
LEFT JOIN oncebox_inboxes AS inbox
    ON inbox.id = event.inbox_id AND inbox.tenant = event.tenant
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
