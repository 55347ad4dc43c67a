-- name: ended
-- Inboxes that ended before a time, oldest first, after a place in that order.
SELECT ended_at, id FROM oncebox_inboxes
WHERE ended_at IS NOT NULL AND ended_at <= :before AND (ended_at, id) > (:after_at, :after_id)
ORDER BY ended_at, id LIMIT :most;

-- name: retire
-- bulk: id text
-- Delete inboxes that ended before a time and of which nothing is kept: no raw mail, which is also
-- kept while it waits for a person, no parsed message, no code or link, also not of another inbox
-- whose claim is recorded here.
DELETE FROM oncebox_inboxes
WHERE id IN (SELECT :id /* from rows */) AND ended_at + 0 <= :before
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_messages AS message
        WHERE message.inbox_id = oncebox_inboxes.id AND message.purged_at IS NULL
    )
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_artifacts AS own
        WHERE own.inbox_id = oncebox_inboxes.id AND (own.purged_at IS NULL OR EXISTS (
            SELECT 1 FROM oncebox_artifacts AS same
            WHERE same.same_as = own.id AND same.purged_at IS NULL
        ))
    )
    AND NOT EXISTS (
        SELECT 1 FROM oncebox_deliveries AS mail
        WHERE mail.tenant = oncebox_inboxes.tenant AND mail.source = '@mail'
            AND mail.key >= oncebox_inboxes.id || ':' AND mail.key < oncebox_inboxes.id || ';'
            AND mail.purged_at IS NULL
    )
RETURNING id, tenant, address;

-- name: remember
-- bulk: mark bytea, tenant text, inbox_id text
-- Remember the addresses of deleted inboxes, and that their rows are still to be deleted.
INSERT INTO oncebox_retired_inboxes (mark, tenant, inbox_id)
SELECT :mark, :tenant, :inbox_id /* from rows */
WHERE true
ON CONFLICT DO NOTHING;

-- name: refuse
-- bulk: id text, mark bytea
-- Delete inboxes that were inserted just now with the address of one that was deleted.
DELETE FROM oncebox_inboxes
WHERE id IN (
    SELECT :id /* from rows */
    WHERE EXISTS (SELECT 1 FROM oncebox_retired_inboxes AS retired WHERE retired.mark = :mark)
)
RETURNING id;

-- name: unfinished
-- An inbox that was deleted, and whose rows may still be there.
SELECT mark, tenant, inbox_id FROM oncebox_retired_inboxes
WHERE inbox_id IS NOT NULL ORDER BY inbox_id LIMIT 1;

-- name: artifacts
-- Artifacts of an inbox.
SELECT id FROM oncebox_artifacts WHERE inbox_id = :inbox_id ORDER BY id LIMIT :most;

-- name: messages
-- Messages of an inbox.
SELECT id FROM oncebox_messages WHERE inbox_id = :inbox_id ORDER BY sequence LIMIT :most;

-- name: mails
-- Deliveries of an inbox whose body was deleted; their keys begin with its id.
SELECT id FROM oncebox_deliveries
WHERE tenant = :tenant AND source = '@mail' AND key >= :lowest AND key < :highest
    AND purged_at IS NOT NULL
ORDER BY key LIMIT :most;

-- name: delete_artifacts
-- bulk: id text
-- Delete artifacts.
DELETE FROM oncebox_artifacts WHERE id IN (SELECT :id /* from rows */);

-- name: delete_messages
-- bulk: id text
-- Delete messages.
DELETE FROM oncebox_messages WHERE id IN (SELECT :id /* from rows */);

-- name: delete_copies
-- bulk: id text
-- Delete the records of which message deliveries brought.
DELETE FROM oncebox_copies WHERE delivery_id IN (SELECT :id /* from rows */);

-- name: delete_tries
-- bulk: id text
-- Delete the tries of deliveries.
DELETE FROM oncebox_tries WHERE delivery_id IN (SELECT :id /* from rows */);

-- name: delete_effects
-- bulk: id text
-- Delete the effects of deliveries.
DELETE FROM oncebox_effects WHERE delivery_id IN (SELECT :id /* from rows */);

-- name: delete_sightings
-- bulk: id text
-- Delete the counts of duplicates of deliveries.
DELETE FROM oncebox_sightings WHERE delivery_id IN (SELECT :id /* from rows */);

-- name: delete_examples
-- bulk: id text
-- Delete the examples of duplicates of deliveries.
DELETE FROM oncebox_examples WHERE delivery_id IN (SELECT :id /* from rows */);

-- name: delete_mails
-- bulk: id text
-- Delete deliveries.
DELETE FROM oncebox_deliveries WHERE id IN (SELECT :id /* from rows */) AND purged_at IS NOT NULL;

-- name: delete_counts
-- Delete the counts of an inbox.
DELETE FROM oncebox_inbox_counts WHERE inbox_id = :inbox_id;

-- name: finish
-- Keep nothing of an inbox but the mark of its address.
UPDATE oncebox_retired_inboxes SET tenant = NULL, inbox_id = NULL WHERE mark = :mark;
