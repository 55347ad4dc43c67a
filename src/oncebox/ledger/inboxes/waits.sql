-- name: taken
-- Whether any mail was ever taken for an inbox; its deliveries have keys that begin with its id.
SELECT 1 FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest
LIMIT 1;

-- name: unread
-- How many mails were taken for an inbox and are not read yet.
SELECT COUNT(*) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest
    AND state IN ('received', 'processing', 'failed');
