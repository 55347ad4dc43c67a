-- name: announce
-- bulk: tenant text, source text
-- Write down that a program has handlers for sources.
INSERT INTO oncebox_handled (tenant, source, seen_at)
SELECT :tenant, :source, CAST(:now AS BIGINT) /* from rows */
WHERE 1 = 1
ON CONFLICT (tenant, source) DO UPDATE SET seen_at = excluded.seen_at;

-- name: since
-- The sources that a program had handlers for, at a moment or later.
SELECT tenant, source FROM oncebox_handled WHERE seen_at >= :at;
