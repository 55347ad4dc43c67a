-- name: read
-- bulk: id text, tenant text
-- The positions of inboxes: the last message, the releases, the state, and of ended ones whether
-- mail for them is not parsed yet.
SELECT oncebox_inboxes.id, oncebox_inboxes.tenant, cursor, COALESCE((
    SELECT SUM(releases) FROM oncebox_artifacts
    WHERE oncebox_artifacts.inbox_id = oncebox_inboxes.id AND releases > 0
), 0), state, CASE WHEN state IN ('closed', 'expired') AND EXISTS (
    SELECT 1 FROM oncebox_deliveries AS unread
    WHERE unread.tenant = oncebox_inboxes.tenant AND unread.source = '@mail'
        AND unread.key >= oncebox_inboxes.id || ':' AND unread.key < oncebox_inboxes.id || ';'
        AND unread.state IN ('received', 'processing', 'failed')
) THEN 1 ELSE 0 END
FROM oncebox_inboxes /* and rows */
WHERE oncebox_inboxes.id = :id AND oncebox_inboxes.tenant = :tenant;

-- name: taken
-- Whether an inbox ever received mail; its deliveries have keys that begin with its id.
SELECT 1 FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest
LIMIT 1;

-- name: unread
-- The number of mails of an inbox that are not parsed yet.
SELECT COUNT(*) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest
    AND state IN ('received', 'processing', 'failed');
