-- name: ways
-- bulk: tenant text, name text, failover_group text
-- Which of these transports and groups exist; one of both is empty.
SELECT :tenant, :name, :failover_group /* from rows */
WHERE EXISTS (SELECT 1 FROM oncebox_transports AS way
    WHERE way.tenant = :tenant AND (:name = '' OR way.name = :name)
        AND (:failover_group = '' OR way.failover_group = :failover_group));

-- name: hold
-- bulk: tenant text, kind text, name bytea
-- Read guards, and create missing ones. Each row is locked for others until the commit.
INSERT INTO oncebox_send_guards (tenant, kind, name, until, used)
VALUES (:tenant, :kind, :name, 0, 0) /* from rows */
ON CONFLICT (tenant, kind, name) DO UPDATE SET used = oncebox_send_guards.used
RETURNING tenant, kind, name, until, used, holder;

-- name: live
-- bulk: tenant text, id text
-- Which of these sends may have reached somebody, or still may: those that are not proven unsent.
SELECT oncebox_sends.tenant, oncebox_sends.id FROM oncebox_sends /* and rows */
WHERE oncebox_sends.tenant = :tenant AND oncebox_sends.id = :id
    AND state NOT IN ('failed', 'expired', 'cancelled', 'suppressed');

-- name: cool
-- bulk: tenant text, name bytea, until bigint, holder text
-- Start a cool-down, unless a send that may have reached somebody has started one.
UPDATE oncebox_send_guards SET until = :until, holder = :holder
/* from rows */
WHERE tenant = :tenant AND kind = 'cool_down' AND name = :name
    AND (oncebox_send_guards.until <= :now OR oncebox_send_guards.holder IS NULL
        OR oncebox_send_guards.holder = :holder
        OR NOT EXISTS (SELECT 1 FROM oncebox_sends AS earlier
            WHERE earlier.tenant = oncebox_send_guards.tenant
                AND earlier.id = oncebox_send_guards.holder
                AND earlier.state NOT IN ('failed', 'expired', 'cancelled', 'suppressed')));

-- name: spend
-- bulk: tenant text, kind text, name bytea, count bigint
-- Take from a budget; its hour starts with the first send.
UPDATE oncebox_send_guards
SET used = CASE WHEN until <= :now THEN :count ELSE used + :count END,
    until = CASE WHEN until <= :now THEN CAST(:now AS BIGINT) + :span ELSE until END
/* from rows */
WHERE tenant = :tenant AND kind = :kind AND name = :name;

-- name: forget
-- Delete expired guards of all tenants.
-- Materialized: a plain subquery may be evaluated again for each row in PostgreSQL and skip its own
-- locked rows, so that too many are deleted.
WITH past AS MATERIALIZED (
    SELECT tenant, kind, name FROM oncebox_send_guards WHERE until <= :now
    ORDER BY until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */
)
DELETE FROM oncebox_send_guards
WHERE until <= :now AND (tenant, kind, name) IN (SELECT tenant, kind, name FROM past);

-- name: by_keys
-- bulk: tenant text, key bytea
-- spans: yes
-- Sends by idempotency key.
SELECT id, tenant, key, protected, content, state, transport, message_id, event_type, entity_id,
    owner, attempt_id, delivery_id, effect, on_unknown, again, created_at, send_at, valid_until,
    due_at, fence, tries, epoch, rearms, worker, claimed_at, marked_at, in_doubt_at,
    replay_until, code, phase, reply, provider_id, retention, ended_at, purged_at, body_id, size,
    delivery, delivery_at, pinned, must_sign
FROM oncebox_sends /* and rows */
WHERE tenant = :tenant AND key = :key;

-- name: intents_add
-- bulk: id text, tenant text, key bytea, protected bytea, content bytea, transport text, message_id text, event_type text, entity_id text, owner text, attempt_id text, delivery_id text, effect text, on_unknown text, send_at bigint, due_at bigint, valid_until bigint, retention text, kept_for bigint, size bigint, failover_group text, pinned bigint, worker text, held text, seen bigint, until bigint
-- spans: yes
-- Store new intents, except those with a known key or a missing transport. The default is the first
-- transport, or the first of a group. A send must be signed if its transport signs for its sender,
-- whose domain is that of the Message-ID. A lease is granted under the conditions of a claim, if the transport (`held`) is the one
-- its worker has seen, without a rate limit and with a closed circuit breaker: nothing is counted here.
INSERT INTO oncebox_sends (id, tenant, key, protected, content, state, transport, message_id,
    event_type, entity_id, owner, attempt_id, delivery_id, effect, on_unknown, created_at,
    send_at, due_at, valid_until, retention, kept_for, body_id, size, fence, tries, worker, claimed_at, pinned,
    must_sign)
SELECT :id, :tenant, :key, :protected, :content,
    CASE WHEN held.name = way.name THEN 'claimed' ELSE 'pending' END, way.name,
    :message_id, :event_type, :entity_id, :owner, :attempt_id, :delivery_id, :effect, :on_unknown, CAST(:now AS BIGINT),
    :send_at, CASE WHEN held.name = way.name THEN :until ELSE :due_at END, :valid_until, :retention,
    :kept_for, :id, :size, CASE WHEN held.name = way.name THEN 1 ELSE 0 END,
    CASE WHEN held.name = way.name THEN 1 ELSE 0 END,
    CASE WHEN held.name = way.name THEN :worker END,
    CASE WHEN held.name = way.name THEN CAST(:now AS BIGINT) END, :pinned,
    CASE WHEN EXISTS (SELECT 1 FROM oncebox_signing_domains AS signs
        WHERE signs.tenant = way.tenant AND signs.transport = way.name
            AND replace(replace(:message_id, '@', '.'), '.' || signs.domain || '>', '')
                <> replace(:message_id, '@', '.')) THEN 1 ELSE 0 END
FROM oncebox_transports AS way /* and rows */
LEFT JOIN oncebox_transports AS held
    ON held.tenant = :tenant AND held.name = :held AND held.changed_at = :seen
        AND held.paused = 0 AND held.rate IS NULL AND held.rests_until IS NULL
        AND :due_at <= :now AND (CAST(:valid_until AS BIGINT) IS NULL OR :valid_until > :now)
WHERE way.tenant = :tenant
    AND way.name = COALESCE(NULLIF(:transport, ''), (SELECT first.name FROM oncebox_transports AS first
        WHERE first.tenant = :tenant
            AND (:failover_group = '' OR first.failover_group = :failover_group)
        ORDER BY first.position, first.name LIMIT 1))
/* postgres: ORDER BY :tenant, :key */
ON CONFLICT DO NOTHING
RETURNING id, transport, fence, must_sign;

-- name: store_whole
-- only: postgres
-- bulk: id text, tenant text, key bytea, protected bytea, content bytea, transport text, message_id text, event_type text, entity_id text, owner text, attempt_id text, delivery_id text, effect text, on_unknown text, send_at bigint, due_at bigint, valid_until bigint, retention text, kept_for bigint, size bigint, failover_group text, pinned bigint, worker text, held text, seen bigint, until bigint, message bytea, envelope bytea, marks bytea
-- The same with messages and recipients (`marks` are 32 bytes each) in one statement; nothing of tenants
-- with a suppression list, which must be searched.
WITH wanted AS (SELECT * FROM /* rows */),
new AS (
    INSERT INTO oncebox_sends (id, tenant, key, protected, content, state, transport, message_id,
        event_type, entity_id, owner, attempt_id, delivery_id, effect, on_unknown, created_at,
        send_at, due_at, valid_until, retention, kept_for, body_id, size, fence, tries, worker, claimed_at, pinned,
    must_sign)
    SELECT :id, :tenant, :key, :protected, :content,
        CASE WHEN held.name = way.name THEN 'claimed' ELSE 'pending' END, way.name,
        :message_id, :event_type, :entity_id, :owner, :attempt_id, :delivery_id, :effect, :on_unknown, CAST(:now AS BIGINT),
        :send_at, CASE WHEN held.name = way.name THEN :until ELSE :due_at END, :valid_until, :retention,
        :kept_for, :id, :size, CASE WHEN held.name = way.name THEN 1 ELSE 0 END,
        CASE WHEN held.name = way.name THEN 1 ELSE 0 END,
        CASE WHEN held.name = way.name THEN :worker END,
        CASE WHEN held.name = way.name THEN CAST(:now AS BIGINT) END, :pinned,
        CASE WHEN EXISTS (SELECT 1 FROM oncebox_signing_domains AS signs
            WHERE signs.tenant = way.tenant AND signs.transport = way.name
                AND replace(replace(:message_id, '@', '.'), '.' || signs.domain || '>', '')
                    <> replace(:message_id, '@', '.')) THEN 1 ELSE 0 END
    FROM wanted
    JOIN oncebox_transports AS way ON way.tenant = :tenant
        AND way.name = COALESCE(NULLIF(:transport, ''), (SELECT first.name
            FROM oncebox_transports AS first
            WHERE first.tenant = :tenant
                AND (:failover_group = '' OR first.failover_group = :failover_group)
            ORDER BY first.position, first.name LIMIT 1))
    LEFT JOIN oncebox_transports AS held
        ON held.tenant = :tenant AND held.name = :held AND held.changed_at = :seen
            AND held.paused = 0 AND held.rate IS NULL AND held.rests_until IS NULL
            AND :due_at <= :now AND (:valid_until IS NULL OR :valid_until > :now)
    WHERE NOT EXISTS (SELECT 1 FROM oncebox_suppressions AS listed WHERE listed.tenant = :tenant)
    ORDER BY :tenant, :key
    ON CONFLICT DO NOTHING
    RETURNING id, transport, fence, must_sign
),
bodies AS (
    INSERT INTO oncebox_send_bodies (send_id, id, tenant, message, envelope)
    SELECT :id, :id, :tenant, :message, :envelope FROM wanted JOIN new ON new.id = :id
),
recipients AS (
    INSERT INTO oncebox_send_recipients (send_id, mark, tenant)
    SELECT :id, substring(:marks FROM 32 * place + 1 FOR 32), :tenant
    FROM wanted JOIN new ON new.id = :id
    CROSS JOIN generate_series(0, octet_length(:marks) / 32 - 1) AS place
    ON CONFLICT DO NOTHING
)
SELECT id, transport, fence, must_sign FROM new;

-- name: rearm
-- bulk: id text, tenant text, key bytea, protected bytea, content bytea, transport text, message_id text, owner text, on_unknown text, send_at bigint, due_at bigint, valid_until bigint, retention text, kept_for bigint, size bigint, failover_group text, pinned bigint
-- Rearm intents that are proven not sent, with their new content; the protected fields must be the
-- same. Earlier tries had another provider key. The new owner may read the send.
UPDATE oncebox_sends
SET state = 'pending', content = :content, message_id = :message_id, owner = :owner,
    transport = COALESCE(NULLIF(:transport, ''), (SELECT way.name FROM oncebox_transports AS way
        WHERE way.tenant = :tenant
            AND (:failover_group = '' OR way.failover_group = :failover_group)
        ORDER BY way.position, way.name LIMIT 1)),
    pinned = :pinned,
    must_sign = CASE WHEN EXISTS (SELECT 1 FROM oncebox_signing_domains AS signs
        WHERE signs.tenant = :tenant
            AND signs.transport = COALESCE(NULLIF(:transport, ''),
                (SELECT way.name FROM oncebox_transports AS way
                WHERE way.tenant = :tenant
                    AND (:failover_group = '' OR way.failover_group = :failover_group)
                ORDER BY way.position, way.name LIMIT 1))
            AND replace(replace(:message_id, '@', '.'), '.' || signs.domain || '>', '')
                <> replace(:message_id, '@', '.')) THEN 1 ELSE 0 END,
    on_unknown = :on_unknown, send_at = :send_at, due_at = :due_at, valid_until = :valid_until,
    retention = :retention, kept_for = :kept_for, size = :size, body_id = :id,
    fence = fence + 1, epoch = epoch + 1, rearms = rearms + 1, tries = 0,
    worker = NULL, claimed_at = NULL, marked_at = NULL, replay_until = NULL, again = NULL,
    code = NULL, phase = NULL, reply = 0, provider_id = '', ended_at = NULL, keep_until = NULL,
    purged_at = NULL
/* from rows */
WHERE oncebox_sends.tenant = :tenant AND oncebox_sends.key = :key
    AND oncebox_sends.protected = :protected AND state IN ('failed', 'expired', 'cancelled')
    AND EXISTS (SELECT 1 FROM oncebox_transports AS way
        WHERE way.tenant = :tenant AND (:transport = '' OR way.name = :transport)
            AND (:failover_group = '' OR way.failover_group = :failover_group))
RETURNING oncebox_sends.id, :id;

-- name: add_log
-- bulk: tenant text
-- Create the log transport of a tenant.
INSERT INTO oncebox_transports (tenant, name, kind, position, created_at, changed_at)
SELECT :tenant, 'log', 'log', CAST(:last AS BIGINT), CAST(:now AS BIGINT), CAST(:now AS BIGINT)
/* from rows */
WHERE :last > 0
ON CONFLICT DO NOTHING;

-- name: add_body
-- bulk: send_id text, id text, tenant text, message bytea, envelope bytea
-- Store message and envelope of a send.
INSERT INTO oncebox_send_bodies (send_id, id, tenant, message, envelope)
VALUES (:send_id, :id, :tenant, :message, :envelope) /* from rows */;

-- name: drop_old_body
-- bulk: send_id text, id text
-- Delete the earlier content of a rearmed send.
DELETE FROM oncebox_send_bodies
WHERE send_id IN (SELECT :send_id /* from rows */) AND id NOT IN (SELECT :id /* from rows */);

-- name: add_recipient
-- bulk: send_id text, mark bytea, tenant text
-- Store the recipients of a send.
INSERT INTO oncebox_send_recipients (send_id, mark, tenant)
VALUES (:send_id, :mark, :tenant) /* from rows */
ON CONFLICT DO NOTHING;

-- name: wary
-- bulk: tenant text
-- The tenants that have addresses on the suppression list.
SELECT :tenant /* from rows */
WHERE EXISTS (SELECT 1 FROM oncebox_suppressions AS listed WHERE listed.tenant = :tenant);

-- name: suppress
-- bulk: tenant text, id text
-- End sends with a suppressed recipient that were stored just now, leased or not.
UPDATE oncebox_sends
SET state = 'suppressed', code = 'suppressed', due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for, tries = 0, worker = NULL, claimed_at = NULL
/* from rows */
WHERE tenant = :tenant AND id = :id AND state IN ('pending', 'claimed')
    AND EXISTS (
        SELECT 1 FROM oncebox_send_recipients AS goes_to
        JOIN oncebox_suppressions AS listed
            ON listed.tenant = goes_to.tenant AND listed.mark = goes_to.mark
        WHERE goes_to.send_id = oncebox_sends.id AND goes_to.tenant = oncebox_sends.tenant
    )
RETURNING id;

-- name: batches_add
-- Store a new batch, unless its key is known.
INSERT INTO oncebox_batches (id, tenant, key, members, owner, size, created_at)
VALUES (:id, :tenant, :key, :members, :owner, :size, :now)
ON CONFLICT DO NOTHING;

-- name: of_key
-- The batch of a key.
SELECT id, tenant, members, owner, size, created_at FROM oncebox_batches
WHERE tenant = :tenant AND key = :key;

-- name: join
-- bulk: place bigint, send_id text
-- Store the sends of a batch.
INSERT INTO oncebox_batch_sends (batch_id, place, tenant, send_id)
SELECT CAST(:batch_id AS TEXT), :place, CAST(:tenant AS TEXT), :send_id /* from rows */
WHERE CAST(:tenant AS TEXT) IS NOT NULL
ON CONFLICT DO NOTHING;
