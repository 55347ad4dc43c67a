-- name: inbox
-- Whether an inbox is there for who asks: an agent sees only those that its own key made.
SELECT id FROM oncebox_inboxes
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR owner = CAST(:owner AS TEXT));

-- name: page
-- Messages of an inbox after a number, in the order of their commits, with what was read of them
-- where it is not too much.
SELECT id, tenant, inbox_id, sequence, status, received_at, size, recipient, sender,
    sender_domain, sender_verdict, matched, duplicates, warnings, delivery_id, payload_id,
    LENGTH(document), CASE WHEN LENGTH(document) <= :longest THEN document END
FROM oncebox_messages
WHERE inbox_id = :inbox_id AND tenant = :tenant AND sequence > :after
ORDER BY sequence LIMIT :most;

-- name: one
-- One message, for who asks.
SELECT id, tenant, inbox_id, sequence, status, received_at, size, recipient, sender,
    sender_domain, sender_verdict, matched, duplicates, warnings, delivery_id, payload_id,
    LENGTH(document)
FROM oncebox_messages
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM oncebox_inboxes
        WHERE oncebox_inboxes.id = inbox_id AND owner = CAST(:owner AS TEXT)
    ));

-- name: documents
-- bulk: id text
-- What was read of messages.
SELECT oncebox_messages.id, document FROM oncebox_messages /* and rows */
WHERE oncebox_messages.id = :id AND tenant = :tenant;

-- name: copies
-- The deliveries that brought a message, the first ones first.
SELECT delivery_id, at, road, differs FROM oncebox_copies
WHERE message_id = :message_id AND tenant = :tenant
ORDER BY delivery_id LIMIT :most;

-- name: raw
-- A message exactly as it was received first.
SELECT oncebox_messages.payload_id, body, slice_start, oncebox_deliveries.size
FROM oncebox_messages
JOIN oncebox_deliveries ON oncebox_deliveries.id = oncebox_messages.delivery_id
JOIN oncebox_payloads ON oncebox_payloads.id = oncebox_messages.payload_id
WHERE oncebox_messages.id = :id AND oncebox_messages.tenant = :tenant;
