-- name: count
-- bulk: delivery_id text, class text, tenant text, count bigint, road text
-- Count repeats; one row per delivery and class, however many there are.
INSERT INTO oncebox_sightings (delivery_id, class, tenant, count, first_at, last_at, road)
VALUES (:delivery_id, :class, :tenant, :count, :now, :now, :road)
/* from rows */
ON CONFLICT (delivery_id, class) DO UPDATE
SET count = oncebox_sightings.count + excluded.count, last_at = excluded.last_at,
    road = excluded.road
RETURNING delivery_id, class, count;

-- name: keep
-- bulk: delivery_id text, class text, number bigint, tenant text, road text, verdict text, secret_id text, headers bytea
-- Keep one of the first repeats as it came.
INSERT INTO oncebox_examples (
    delivery_id, class, number, tenant, at, road, verdict, secret_id, headers
)
VALUES (:delivery_id, :class, :number, :tenant, :now, :road, :verdict, :secret_id, :headers)
/* from rows */
ON CONFLICT DO NOTHING;
