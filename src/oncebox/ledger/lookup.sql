-- name: delivery
-- Deliveries whose ids are in a range.
SELECT id FROM oncebox_deliveries
WHERE tenant || '' = :tenant AND id >= :low AND id < :high ORDER BY id LIMIT :most;

-- name: request
-- Rejected requests whose ids are in a range.
SELECT id FROM oncebox_quarantine
WHERE tenant || '' = :tenant AND id >= :low AND id < :high ORDER BY id LIMIT :most;

-- name: inbox
-- Inboxes whose ids are in a range.
SELECT id FROM oncebox_inboxes
WHERE (tenant, id) >= (:tenant, :low) AND (tenant, id) < (:tenant, :high)
ORDER BY tenant, id LIMIT :most;

-- name: message
-- Messages whose ids are in a range.
SELECT id FROM oncebox_messages
WHERE tenant || '' = :tenant AND id >= :low AND id < :high ORDER BY id LIMIT :most;

-- name: artifact
-- Codes and links whose ids are in a range.
SELECT id FROM oncebox_artifacts
WHERE tenant || '' = :tenant AND id >= :low AND id < :high ORDER BY id LIMIT :most;

-- name: send
-- Sends whose ids are in a range.
SELECT id FROM oncebox_sends
WHERE (tenant, id) >= (:tenant, :low) AND (tenant, id) < (:tenant, :high)
ORDER BY tenant, id LIMIT :most;

-- name: key
-- API keys whose ids are in a range.
SELECT id FROM oncebox_keys
WHERE (tenant, id) >= (:tenant, :low) AND (tenant, id) < (:tenant, :high)
ORDER BY tenant, id LIMIT :most;

-- name: secret
-- Secrets of sources whose ids are in a range.
SELECT id FROM oncebox_source_secrets
WHERE tenant || '' = :tenant AND id >= :low AND id < :high ORDER BY id LIMIT :most;
