-- name: reserve
-- Reserve a request key; a second claim with it waits for the first and finds the row.
INSERT INTO oncebox_claims (tenant, request_key, worker, sources, asked_at, answer)
VALUES (:tenant, :request_key, :worker, :sources, :now, :answer)
ON CONFLICT DO NOTHING;

-- name: asked
-- The request and the response stored under a request key.
SELECT worker, sources, answer FROM oncebox_claims
WHERE tenant = :tenant AND request_key = :request_key;

-- name: answer
-- Store the response of a claim.
UPDATE oncebox_claims SET answer = :answer
WHERE tenant = :tenant AND request_key = :request_key;

-- name: let_go
-- Delete a request key that got nothing, so that it can be used again.
DELETE FROM oncebox_claims WHERE tenant = :tenant AND request_key = :request_key;

-- name: forget
-- Delete request keys whose leases ended long ago.
DELETE FROM oncebox_claims WHERE asked_at < :before;

-- name: standing
-- bulk: id text
-- Deliveries of a tenant, without headers and body.
SELECT id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    COALESCE(give_up_at, 0), verdict, sequence
FROM oncebox_deliveries /* and rows */ WHERE id = :id AND tenant = :tenant;
