-- Mail that is large or slow to parse waits in a queue of its own, behind no other.
ALTER TABLE oncebox_deliveries ADD COLUMN heavy BIGINT NOT NULL DEFAULT 0;

-- What may be claimed, oldest first.
DROP INDEX oncebox_deliveries_due;
CREATE INDEX oncebox_deliveries_due
    ON oncebox_deliveries (tenant, source, heavy, due_at)
    WHERE state IN ('received', 'failed') AND due_at IS NOT NULL;
-- Mail that is due, of all tenants.
DROP INDEX oncebox_deliveries_mail;
CREATE INDEX oncebox_deliveries_mail ON oncebox_deliveries (heavy, tenant, due_at)
    WHERE source = '@mail' AND due_at IS NOT NULL
        AND (state = 'received' OR state = 'failed' OR state = 'processing');

-- Bytes of raw mail that an inbox has, and all inboxes of a tenant, and a tenant's own limit.
ALTER TABLE oncebox_inboxes ADD COLUMN stored_bytes BIGINT NOT NULL DEFAULT 0;
CREATE TABLE oncebox_quotas (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    stored_bytes BIGINT NOT NULL DEFAULT 0,
    -- none: the limit in the settings
    quota_bytes BIGINT
);
UPDATE oncebox_inboxes SET stored_bytes = COALESCE((
    SELECT SUM(size) FROM oncebox_deliveries AS mail
    WHERE mail.tenant = oncebox_inboxes.tenant AND source = '@mail'
        AND key >= oncebox_inboxes.id || ':' AND key < oncebox_inboxes.id || ';'
        AND outcome = 'handled' AND purged_at IS NULL
), 0);
INSERT INTO oncebox_quotas (tenant, stored_bytes)
SELECT tenant, SUM(stored_bytes) FROM oncebox_inboxes GROUP BY tenant;
