-- name: lock
-- bulk: id text
-- Inboxes in a fixed locking order. On PostgreSQL the lock keeps others from reading in between;
-- the counter's update and the unique indexes decide.
SELECT id FROM oncebox_inboxes /* and rows */ WHERE id = :id
ORDER BY id || '' /* postgres: FOR NO KEY UPDATE OF oncebox_inboxes */;

-- name: brought
-- bulk: delivery_id text
-- Messages that deliveries stored before: an operator replayed one, or its worker was lost.
SELECT delivery_id, message_id FROM oncebox_copies /* and rows */
WHERE delivery_id = :delivery_id;

-- name: known
-- bulk: inbox_id text, identity bytea
-- Messages that inboxes have already.
SELECT inbox_id, identity, id, tenant, warnings, document FROM oncebox_messages /* and rows */
WHERE inbox_id = :inbox_id AND identity = :identity;

-- name: marked
-- bulk: inbox_id text, mark bytea
-- Message-IDs that inboxes received before.
SELECT DISTINCT inbox_id, message_mark FROM oncebox_messages /* and rows */
WHERE inbox_id = :inbox_id AND message_mark = :mark;

-- name: advance
-- bulk: id text, tenant text, new bigint, copies bigint, matching bigint, first_at bigint, last_at bigint, bytes bigint
-- Count the mail of an inbox and assign numbers. The row's lock is held until the commit, so the
-- order of numbers is the order of commits.
UPDATE oncebox_inboxes
SET cursor = cursor + :new, duplicates = duplicates + :copies, matched = matched + :matching,
    stored_bytes = stored_bytes + :bytes,
    first_message_at = COALESCE(first_message_at, :first_at),
    last_message_at = CASE
        WHEN last_message_at IS NULL OR last_message_at < :last_at THEN :last_at
        ELSE last_message_at
    END
/* from rows */
WHERE id = :id AND tenant = :tenant
RETURNING id, cursor, attempt_id, created_at;

-- name: insert
-- bulk: id text, tenant text, inbox_id text, sequence bigint, identity bytea, mark bytea, delivery_id text, status text, received_at bigint, size bigint, recipient text, sender text, sender_domain text, sender_org text, sender_verdict text, matching bigint, duplicates bigint, warnings bytea, document bytea
-- Insert a message, once per inbox and identity.
INSERT INTO oncebox_messages (
    id, tenant, inbox_id, sequence, identity, message_mark, delivery_id, payload_id, status,
    received_at, size, recipient, sender, sender_domain, sender_org, sender_verdict, matched,
    duplicates, warnings, document
)
SELECT :id, :tenant, :inbox_id, :sequence, :identity, :mark, :delivery_id,
    (SELECT payload_id FROM oncebox_deliveries WHERE oncebox_deliveries.id = :delivery_id),
    :status, :received_at, :size, :recipient, :sender, :sender_domain, :sender_org,
    :sender_verdict, :matching, :duplicates, :warnings, :document
/* from rows */
WHERE true
ON CONFLICT DO NOTHING;

-- name: copy
-- bulk: delivery_id text, tenant text, message_id text, differs bytea
-- Record which delivery contained which message, the first included.
INSERT INTO oncebox_copies (delivery_id, tenant, message_id, at, road, differs)
SELECT :delivery_id, :tenant, :message_id, :now,
    (SELECT road FROM oncebox_deliveries WHERE oncebox_deliveries.id = :delivery_id), :differs
/* from rows */
WHERE true
ON CONFLICT DO NOTHING;

-- name: count_copies
-- bulk: id text, copies bigint, warnings bytea
-- Count further deliveries of a message.
UPDATE oncebox_messages SET duplicates = duplicates + :copies, warnings = :warnings
/* from rows */
WHERE id = :id;

-- name: rules
-- bulk: id text, tenant text
-- The policies of inboxes, and when they were made.
SELECT oncebox_inboxes.id, policy, created_at FROM oncebox_inboxes /* and rows */
WHERE oncebox_inboxes.id = :id AND oncebox_inboxes.tenant = :tenant;

-- name: waiting
-- Tenants with unprocessed mail, found without reading each mail: the index leads from one tenant
-- to the next. Expired leases are included.
WITH RECURSIVE found (tenant) AS (
    SELECT MIN(tenant) FROM oncebox_deliveries
    WHERE source = '@mail' AND heavy = :heavy AND due_at IS NOT NULL
        AND (state = 'received' OR state = 'failed' OR state = 'processing')
    UNION ALL
    SELECT (
        SELECT MIN(oncebox_deliveries.tenant) FROM oncebox_deliveries
        WHERE source = '@mail' AND heavy = :heavy AND due_at IS NOT NULL
            AND (state = 'received' OR state = 'failed' OR state = 'processing')
            AND oncebox_deliveries.tenant > found.tenant
    )
    FROM found WHERE found.tenant IS NOT NULL
)
SELECT found.tenant FROM found
WHERE found.tenant IS NOT NULL AND (
    SELECT MIN(due_at) FROM oncebox_deliveries
    WHERE source = '@mail' AND heavy = :heavy AND due_at IS NOT NULL
        AND (state = 'received' OR state = 'failed' OR state = 'processing')
        AND oncebox_deliveries.tenant = found.tenant
) <= :now;

-- name: inbox
-- Whether the requester may see an inbox: an agent sees only those that its own key made.
SELECT id FROM oncebox_inboxes
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR owner = CAST(:owner AS TEXT));

-- name: page
-- Messages of an inbox after a number, in the order of their commits, with their documents if
-- these are small.
SELECT id, tenant, inbox_id, sequence, status, received_at, size, recipient, sender,
    sender_domain, sender_verdict, matched, duplicates + CAST(COALESCE((
        SELECT SUM(count) FROM oncebox_copies
        JOIN oncebox_sightings ON oncebox_sightings.delivery_id = oncebox_copies.delivery_id
        WHERE oncebox_copies.message_id = oncebox_messages.id
    ), 0) AS BIGINT), warnings, delivery_id, payload_id,
    LENGTH(document), CASE WHEN LENGTH(document) <= :longest THEN document END
FROM oncebox_messages
WHERE (inbox_id, sequence) > (:inbox_id, :after) AND inbox_id <= :inbox_id
    AND tenant || '' = :tenant
ORDER BY inbox_id, sequence LIMIT :most;

-- name: newest
-- bulk: inbox_id text, sender_org text, proven bigint
-- The newest messages that match, of any sender or of one, among which a wait for messages
-- chooses; proven and unproven ones apart, so that unproven ones cannot displace the proven.
SELECT :sender_org, found.id, found.tenant, found.inbox_id, found.sequence, found.status,
    found.received_at, found.size, found.recipient, found.sender, found.sender_domain,
    found.sender_verdict, found.matched, found.duplicates, found.warnings, found.delivery_id,
    found.payload_id, LENGTH(found.document), found.identity
FROM /* rows */ /* postgres: , LATERAL */ (
    SELECT * FROM (
        SELECT * FROM oncebox_messages AS every
        WHERE every.inbox_id = :inbox_id AND every.matched = 1 AND :sender_org = ''
            AND CASE WHEN every.sender_verdict = 'pass' THEN 1 ELSE 0 END = :proven
        ORDER BY every.sequence DESC LIMIT :most
    ) AS of_any
    UNION ALL
    SELECT * FROM (
        SELECT * FROM oncebox_messages AS own
        WHERE own.inbox_id = :inbox_id AND own.matched = 1 AND :sender_org <> ''
            AND own.sender_org = :sender_org
            AND CASE WHEN own.sender_verdict = 'pass' THEN 1 ELSE 0 END = :proven
        ORDER BY own.sequence DESC LIMIT :most
    ) AS of_sender
) AS found;

-- name: recent
-- Messages of all inboxes, newest first, below an id. Written so that no index fits the tenant:
-- ids are read in order, and most are of this tenant.
SELECT id FROM oncebox_messages
WHERE id < :before AND tenant || '' = :tenant
ORDER BY id DESC LIMIT :most;

-- name: recent_of_tenant
-- The same for a tenant that is not the default one, with an index of its own.
SELECT id FROM oncebox_messages
WHERE (tenant, id) < (:tenant, :before) AND tenant >= :tenant AND tenant <> 'default'
ORDER BY tenant DESC, id DESC LIMIT :most;

-- name: several
-- bulk: id text
-- Some messages, newest first.
SELECT oncebox_messages.id, tenant, inbox_id, sequence, status, received_at, size, recipient,
    sender, sender_domain, sender_verdict, matched, duplicates + CAST(COALESCE((
        SELECT SUM(count) FROM oncebox_copies
        JOIN oncebox_sightings ON oncebox_sightings.delivery_id = oncebox_copies.delivery_id
        WHERE oncebox_copies.message_id = oncebox_messages.id
    ), 0) AS BIGINT), warnings, delivery_id, payload_id, LENGTH(document)
FROM oncebox_messages /* and rows */
WHERE oncebox_messages.id = :id AND tenant = :tenant;

-- name: one
-- One message, if the requester may see it.
SELECT id, tenant, inbox_id, sequence, status, received_at, size, recipient, sender,
    sender_domain, sender_verdict, matched, duplicates + CAST(COALESCE((
        SELECT SUM(count) FROM oncebox_copies
        JOIN oncebox_sightings ON oncebox_sightings.delivery_id = oncebox_copies.delivery_id
        WHERE oncebox_copies.message_id = oncebox_messages.id
    ), 0) AS BIGINT), warnings, delivery_id, payload_id,
    LENGTH(document)
FROM oncebox_messages
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM oncebox_inboxes
        WHERE oncebox_inboxes.id = inbox_id AND owner = CAST(:owner AS TEXT)
    ));

-- name: documents
-- bulk: id text
-- The documents of messages.
SELECT oncebox_messages.id, document FROM oncebox_messages /* and rows */
WHERE oncebox_messages.id = :id AND tenant = :tenant;

-- name: copies
-- The deliveries of a message, oldest first.
SELECT delivery_id, at, road, differs FROM oncebox_copies
WHERE (message_id, delivery_id) > (:message_id, '') AND message_id <= :message_id
    AND tenant = :tenant
ORDER BY message_id, delivery_id LIMIT :most;

-- name: raw
-- The raw bytes of a message, as first received.
SELECT oncebox_messages.payload_id, body, slice_start, oncebox_deliveries.size
FROM oncebox_messages
JOIN oncebox_deliveries ON oncebox_deliveries.id = oncebox_messages.delivery_id
JOIN oncebox_payloads ON oncebox_payloads.id = oncebox_messages.payload_id
WHERE oncebox_messages.id = :id AND oncebox_messages.tenant = :tenant;
