-- name: known
-- bulk: place bigint, tenant text, transport text, provider_id text
-- Sends by the provider's id, if its transport sent them.
SELECT :place, known.id
FROM oncebox_sends AS known /* sqlite: INDEXED BY oncebox_sends_provider */ /* and rows */
WHERE known.tenant = :tenant AND known.provider_id = :provider_id AND known.provider_id <> ''
    AND (known.transport = :transport OR EXISTS (
        SELECT 1 FROM oncebox_send_tries AS tried
        WHERE tried.send_id = known.id AND tried.tenant = known.tenant
            AND tried.transport = :transport
    ));

-- name: tagged
-- bulk: place bigint, tenant text, transport text, provider_id text, send_id text
-- Sends by our tag, if they have no provider id yet and that transport may have sent them: a send
-- that was never transmitted was not accepted, whatever is reported.
-- One lookup per row: without statistics a join might read all sends instead.
SELECT place, id FROM (
    SELECT :place AS place, (
        SELECT tagged.id FROM oncebox_sends AS tagged
        WHERE tagged.tenant = :tenant AND tagged.id = :send_id AND :provider_id <> ''
            AND tagged.provider_id = ''
            AND ((tagged.transport = :transport AND tagged.marked_at IS NOT NULL) OR EXISTS (
                SELECT 1 FROM oncebox_send_tries AS tried
                WHERE tried.send_id = tagged.id AND tried.tenant = tagged.tenant
                    AND tried.transport = :transport AND tried.marked_at IS NOT NULL
            ))
    ) AS id /* from rows */
) AS found
WHERE id IS NOT NULL;

-- name: adopt
-- bulk: tenant text, id text, provider_id text
-- Store the provider's id of a sent mail, if it has none.
UPDATE oncebox_sends SET provider_id = :provider_id
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'sent' AND oncebox_sends.provider_id = '';

-- name: tell
-- bulk: tenant text, id text, provider_id text, delivery text, strength bigint, at bigint
-- Record the delivery status; a weaker one never replaces a stronger one.
UPDATE oncebox_sends SET delivery = :delivery, delivery_strength = :strength, delivery_at = :at
/* from rows */
WHERE tenant = :tenant AND id = :id AND state = 'sent'
    AND oncebox_sends.provider_id = :provider_id AND delivery_strength < :strength
RETURNING id;

-- name: note
-- bulk: tenant text, id text, mark bytea, strength bigint
-- Record that a recipient of a send is suppressed; addresses that are no recipients are skipped.
UPDATE oncebox_send_recipients SET listed = :strength
/* from rows */
WHERE tenant = :tenant AND send_id = :id AND mark = :mark AND listed < :strength
RETURNING tenant, send_id, mark;

-- name: suppress
-- bulk: tenant text, send_id text, mark bytea, address bytea, reason text
-- Add an address to the suppression list; the first reason stays.
INSERT INTO oncebox_suppressions (tenant, mark, address, reason, send_id, created_at)
SELECT :tenant, :mark, :address, :reason, :send_id, CAST(:now AS BIGINT) /* from rows */
WHERE 1 = 1
ON CONFLICT DO NOTHING
RETURNING send_id, mark;
