-- name: rotation
-- The rotation that has begun, if any.
SELECT old_key_id, new_key_id, generation, active_from, place, after FROM oncebox_rotation
WHERE number = 1;

-- name: begin
-- Begin a rotation, unless one has begun.
INSERT INTO oncebox_rotation (
    number, old_key_id, new_key_id, generation, active_from, place, after
)
VALUES (1, :old_key_id, :new_key_id, :generation, :active_from, :place, '[]')
ON CONFLICT DO NOTHING;

-- name: add_key
-- bulk: master_key_id text, generation bigint, wrapped bytea, active_from bigint
-- Store data keys, each wrapped under a master key.
INSERT INTO oncebox_data_keys (master_key_id, generation, wrapped, active_from)
VALUES (:master_key_id, :generation, :wrapped, :active_from)
/* from rows */
ON CONFLICT DO NOTHING;

-- name: advance
-- Record how far the values are encrypted again.
UPDATE oncebox_rotation SET place = :place, after = :after
WHERE number = 1 AND generation = :generation;

-- name: finish
-- End a rotation that has encrypted everything again.
DELETE FROM oncebox_rotation WHERE number = 1 AND new_key_id = :new_key_id AND place = '';

-- name: retire_key
-- Let a master key no longer open the database.
DELETE FROM oncebox_data_keys WHERE master_key_id = :master_key_id;

-- name: set_key_id
-- Record which master key the database belongs to.
UPDATE oncebox_meta SET value = :new_key_id
WHERE name = 'master_key_id' AND value = :old_key_id;

-- name: payloads
-- Bodies that may be mail, with their tenant.
SELECT payload.id, COALESCE(
    (
        SELECT tenant FROM oncebox_deliveries AS own
        WHERE own.id = payload.id AND own.source = '@mail'
    ),
    (
        SELECT tenant FROM oncebox_deliveries AS part
        WHERE part.payload_id = payload.id AND part.payload_id <> part.id
            AND part.source = '@mail'
        LIMIT 1
    )
), CASE WHEN substr(body, 1, 8) = :prefix THEN body END
FROM oncebox_payloads AS payload WHERE payload.id > :after_id ORDER BY payload.id LIMIT :most;

-- name: replace_payloads
-- Replace the body of a mail, unless it was changed meanwhile.
UPDATE oncebox_payloads SET body = :sealed WHERE id = :id AND body = :before;

-- name: documents
-- The next documents of messages, by their keys.
SELECT id, tenant, document FROM oncebox_messages WHERE id > :after_id ORDER BY id LIMIT :most;

-- name: replace_documents
-- Replace the document of a message, unless it was changed meanwhile.
UPDATE oncebox_messages SET document = :sealed WHERE id = :id AND document = :before;

-- name: artifacts
-- The next codes and links, by their keys.
SELECT id, tenant, sealed FROM oncebox_artifacts WHERE id > :after_id ORDER BY id LIMIT :most;

-- name: replace_artifacts
-- Replace the code or link, unless it was changed meanwhile.
UPDATE oncebox_artifacts SET sealed = :sealed WHERE id = :id AND sealed = :before;

-- name: quarantine
-- The next secrets of rejected requests, by their keys.
SELECT id, tenant, sealed FROM oncebox_quarantine WHERE id > :after_id ORDER BY id LIMIT :most;

-- name: replace_quarantine
-- Replace the secrets of a rejected request, unless it was changed meanwhile.
UPDATE oncebox_quarantine SET sealed = :sealed WHERE id = :id AND sealed = :before;

-- name: source_secrets
-- The next secrets of sources, by their keys.
SELECT id, tenant, sealed FROM oncebox_source_secrets
WHERE id > :after_id ORDER BY id LIMIT :most;

-- name: replace_source_secrets
-- Replace the secret of a source, unless it was changed meanwhile.
UPDATE oncebox_source_secrets SET sealed = :sealed WHERE id = :id AND sealed = :before;

-- name: answers
-- The next stored responses, by their keys.
SELECT tenant, route, key, answer FROM oncebox_idempotency
WHERE (tenant, route, key) > (:after_tenant, :after_route, :after_key)
ORDER BY tenant, route, key LIMIT :most;

-- name: replace_answers
-- Replace the stored response, unless it was changed meanwhile.
UPDATE oncebox_idempotency SET answer = :sealed
WHERE tenant = :tenant AND route = :route AND key = :key AND answer = :before;

-- name: results
-- The next results of actions, by their keys.
SELECT tenant, attempt_id, name, result FROM oncebox_actions
WHERE (tenant, attempt_id, name) > (:after_tenant, :after_attempt_id, :after_name)
ORDER BY tenant, attempt_id, name LIMIT :most;

-- name: replace_results
-- Replace the result of an action, unless it was changed meanwhile.
UPDATE oncebox_actions SET result = :sealed
WHERE tenant = :tenant AND attempt_id = :attempt_id AND name = :name AND result = :before;

-- name: transports
-- The next configurations of transports, by their keys.
SELECT tenant, name, config FROM oncebox_transports
WHERE (tenant, name) > (:after_tenant, :after_name) ORDER BY tenant, name LIMIT :most;

-- name: replace_transports
-- Replace the configuration of a transport, unless it was changed meanwhile.
UPDATE oncebox_transports SET config = :sealed
WHERE tenant = :tenant AND name = :name AND config = :before;

-- name: mailboxes
-- The next configurations of mailboxes, by their keys.
SELECT tenant, name, config FROM oncebox_mailboxes
WHERE (tenant, name) > (:after_tenant, :after_name) ORDER BY tenant, name LIMIT :most;

-- name: replace_mailboxes
-- Replace the configuration of a mailbox, unless it was changed meanwhile.
UPDATE oncebox_mailboxes SET config = :sealed
WHERE tenant = :tenant AND name = :name AND config = :before;

-- name: endpoints
-- The next secrets of endpoints, by their keys.
SELECT tenant, name, secrets FROM oncebox_endpoints
WHERE (tenant, name) > (:after_tenant, :after_name) ORDER BY tenant, name LIMIT :most;

-- name: replace_endpoints
-- Replace the secrets of an endpoint, unless they were changed meanwhile.
UPDATE oncebox_endpoints SET secrets = :sealed
WHERE tenant = :tenant AND name = :name AND secrets = :before;

-- name: send_messages
-- The next outgoing mails, by their keys.
SELECT send_id, id, tenant, message FROM oncebox_send_bodies
WHERE (send_id, id) > (:after_send_id, :after_id) ORDER BY send_id, id LIMIT :most;

-- name: replace_send_messages
-- Replace the outgoing mail, unless it was changed meanwhile.
UPDATE oncebox_send_bodies SET message = :sealed
WHERE send_id = :send_id AND id = :id AND message = :before;

-- name: send_envelopes
-- The next envelopes of outgoing mails, by their keys.
SELECT send_id, id, tenant, envelope FROM oncebox_send_bodies
WHERE (send_id, id) > (:after_send_id, :after_id) ORDER BY send_id, id LIMIT :most;

-- name: replace_send_envelopes
-- Replace the envelope of an outgoing mail, unless it was changed meanwhile.
UPDATE oncebox_send_bodies SET envelope = :sealed
WHERE send_id = :send_id AND id = :id AND envelope = :before;

-- name: suppressions
-- The next suppressed addresses, by their keys.
SELECT tenant, mark, address FROM oncebox_suppressions
WHERE (tenant, mark) > (:after_tenant, :after_mark) ORDER BY tenant, mark LIMIT :most;

-- name: replace_suppressions
-- Replace the suppressed address, unless it was changed meanwhile.
UPDATE oncebox_suppressions SET address = :sealed
WHERE tenant = :tenant AND mark = :mark AND address = :before;
