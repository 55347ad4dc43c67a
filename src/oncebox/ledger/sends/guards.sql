-- name: ways
-- bulk: tenant text, name text
-- Which of these transports are there.
SELECT way.tenant, way.name FROM oncebox_transports AS way /* and rows */
WHERE way.tenant = :tenant AND way.name = :name;

-- name: hold
-- bulk: tenant text, kind text, name bytea
-- Read guards, and make those that are not there. Each row is the lock of all who want to take
-- from it, until the commit.
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
-- Begin a cool-down, unless a send that may have reached somebody has begun one.
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
-- Take from a budget; the hour begins with the first who takes.
UPDATE oncebox_send_guards
SET used = CASE WHEN until <= :now THEN :count ELSE used + :count END,
    until = CASE WHEN until <= :now THEN CAST(:now AS BIGINT) + :span ELSE until END
/* from rows */
WHERE tenant = :tenant AND kind = :kind AND name = :name;

-- name: forget
-- Forget guards of all tenants that guard nothing any more.
-- Chosen once, ahead: as a plain subquery PostgreSQL may choose anew for each row, and skip
-- what it has locked, so that more than so many go.
WITH past AS MATERIALIZED (
    SELECT tenant, kind, name FROM oncebox_send_guards WHERE until <= :now
    ORDER BY until LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */
)
DELETE FROM oncebox_send_guards
WHERE until <= :now AND (tenant, kind, name) IN (SELECT tenant, kind, name FROM past);
