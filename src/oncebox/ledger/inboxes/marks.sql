-- name: read
-- bulk: id text, tenant text
-- How far inboxes are: the last message, what was taken back, and the state.
SELECT oncebox_inboxes.id, oncebox_inboxes.tenant, cursor, COALESCE((
    SELECT SUM(releases) FROM oncebox_artifacts
    WHERE oncebox_artifacts.inbox_id = oncebox_inboxes.id AND releases > 0
), 0), state
FROM oncebox_inboxes /* and rows */
WHERE oncebox_inboxes.id = :id AND oncebox_inboxes.tenant = :tenant;
