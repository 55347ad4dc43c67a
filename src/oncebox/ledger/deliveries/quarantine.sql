-- name: insert
-- bulk: id text, tenant text, source text, reason text, class text, received_at bigint, method text, url text, headers bytea, body bytea, size bigint, sealed bytea
-- Store rejected requests.
INSERT INTO oncebox_quarantine (
    id, tenant, source, reason, class, received_at, method, url, headers, body, size, sealed
)
VALUES (:id, :tenant, :source, :reason, :class, :received_at, :method, :url, :headers, :body, :size,
    :sealed)
/* from rows */
ON CONFLICT DO NOTHING;

-- name: count
-- bulk: tenant text, source text, class text, count bigint
-- Count rejected requests, stored or not.
INSERT INTO oncebox_rejects (tenant, source, class, count, first_at, last_at)
VALUES (:tenant, :source, :class, :count, :now, :now)
/* from rows */
ON CONFLICT (tenant, source, class) DO UPDATE
SET count = oncebox_rejects.count + excluded.count, last_at = excluded.last_at;

-- name: trim_source
-- Delete the oldest requests of a source, until the rest is within the limits of count and size.
WITH ranked AS MATERIALIZED (
    SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS place,
        SUM(size) OVER (ORDER BY id DESC) AS total
    FROM oncebox_quarantine WHERE tenant = :tenant AND source = :source
)
DELETE FROM oncebox_quarantine
WHERE id IN (SELECT id FROM ranked WHERE place > :most OR total > :bytes);

-- name: trim_all
-- Delete the oldest requests of a tenant, until the rest is within the limits of count and size.
WITH ranked AS MATERIALIZED (
    SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) AS place,
        SUM(size) OVER (ORDER BY id DESC) AS total
    FROM oncebox_quarantine WHERE tenant = :tenant
)
DELETE FROM oncebox_quarantine
WHERE id IN (SELECT id FROM ranked WHERE place > :most OR total > :bytes);

-- name: newest
-- Rejected requests, newest first.
SELECT id, source, reason, class, received_at, method, url, size FROM oncebox_quarantine
WHERE tenant || '' = :tenant AND id < :before
    AND (CAST(:source AS TEXT) IS NULL OR source = :source)
ORDER BY id DESC LIMIT :most;

-- name: by_id
-- One rejected request.
SELECT id, tenant, source, reason, class, received_at, method, url, headers, body, size, sealed
FROM oncebox_quarantine WHERE tenant = :tenant AND id = :id;

-- name: take
-- Remove a request; of two concurrent callers, one succeeds.
DELETE FROM oncebox_quarantine WHERE tenant = :tenant AND id = :id RETURNING source;

-- name: counts
-- The number of rejected requests, by source and class.
SELECT source, class, count, first_at, last_at FROM oncebox_rejects
WHERE tenant = :tenant ORDER BY source, class;
