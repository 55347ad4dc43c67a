-- name: add
-- bulk: inbox_id text, tenant text, polls bigint, timeouts bigint, artifact_duplicates bigint, cursor_replays bigint, lease_conflicts bigint
-- Add to the counts of inboxes.
INSERT INTO oncebox_inbox_counts (
    inbox_id, tenant, polls, timeouts, artifact_duplicates, cursor_replays, lease_conflicts
)
VALUES (
    :inbox_id, :tenant, :polls, :timeouts, :artifact_duplicates, :cursor_replays, :lease_conflicts
)
/* from rows */
ON CONFLICT (inbox_id) DO UPDATE
SET polls = oncebox_inbox_counts.polls + excluded.polls,
    timeouts = oncebox_inbox_counts.timeouts + excluded.timeouts,
    artifact_duplicates = oncebox_inbox_counts.artifact_duplicates + excluded.artifact_duplicates,
    cursor_replays = oncebox_inbox_counts.cursor_replays + excluded.cursor_replays,
    lease_conflicts = oncebox_inbox_counts.lease_conflicts + excluded.lease_conflicts;

-- name: of_inbox
-- The counts of an inbox.
SELECT polls, timeouts, artifact_duplicates, cursor_replays, lease_conflicts
FROM oncebox_inbox_counts WHERE inbox_id = :inbox_id AND tenant = :tenant;

-- name: of_attempt
-- The counts of the inboxes of an attempt or a batch.
SELECT polls, timeouts, artifact_duplicates, cursor_replays, lease_conflicts
FROM oncebox_inboxes
JOIN oncebox_inbox_counts ON oncebox_inbox_counts.inbox_id = oncebox_inboxes.id
    AND oncebox_inbox_counts.tenant = oncebox_inboxes.tenant
WHERE oncebox_inboxes.tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
    AND (CAST(:owner AS TEXT) IS NULL OR COALESCE(owner, '') = :owner);

-- name: smtp_copies
-- How often mail of an inbox arrived again, in another SMTP transaction; the keys of its
-- deliveries begin with its id.
SELECT COALESCE(SUM((
    SELECT SUM(count) FROM oncebox_sightings WHERE delivery_id = oncebox_deliveries.id
)), 0)
FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest;

-- name: smtp_copies_of_attempt
-- The same for all inboxes of an attempt or a batch.
SELECT COALESCE(SUM((
    SELECT SUM((
        SELECT SUM(count) FROM oncebox_sightings WHERE delivery_id = oncebox_deliveries.id
    ))
    FROM oncebox_deliveries
    WHERE oncebox_deliveries.tenant = oncebox_inboxes.tenant AND source = '@mail'
        AND key >= oncebox_inboxes.id || ':' AND key < oncebox_inboxes.id || ';'
)), 0)
FROM oncebox_inboxes
WHERE tenant = :tenant AND attempt_id >= :lowest AND attempt_id < :highest
    AND (CAST(:owner AS TEXT) IS NULL OR COALESCE(owner, '') = :owner);
