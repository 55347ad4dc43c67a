-- Keys and bodies are unique by a digest of 16 bytes. A process of an older version may go on
-- while the digests are filled in; afterwards it cannot write, because the column ``backed`` is
-- gone.
-- See docs/decisions/0045-use-digests-for-unique-keys.md.

-- step: begin
ALTER TABLE oncebox_deliveries
    -- of tenant, source and key
    ADD COLUMN key_digest BYTEA CHECK (octet_length(key_digest) = 16),
    -- of tenant, source and fingerprint, where nobody signed the key
    ADD COLUMN body_digest BYTEA CHECK (octet_length(body_digest) = 16);

-- step: left
SELECT COUNT(*) FROM oncebox_deliveries
WHERE id > COALESCE((SELECT value FROM oncebox_meta WHERE name = 'migrated_to'), '');

-- step: next
SELECT COUNT(*) FROM (
    SELECT 1 FROM oncebox_deliveries
    WHERE id > COALESCE((SELECT value FROM oncebox_meta WHERE name = 'migrated_to'), '')
    ORDER BY id LIMIT {rows}
) AS next;

-- step: batch
WITH next AS MATERIALIZED (
    SELECT id FROM oncebox_deliveries
    WHERE id > COALESCE((SELECT value FROM oncebox_meta WHERE name = 'migrated_to'), '')
    ORDER BY id LIMIT {rows}
), filled AS (
    UPDATE oncebox_deliveries AS delivery
    SET key_digest = substring(
            sha256(convert_to(tenant || E'\n' || source || E'\n' || key, 'UTF8')) FROM 1 FOR 16),
        body_digest = CASE WHEN backed = 1 THEN substring(
            sha256(convert_to(tenant || E'\n' || source || E'\n', 'UTF8') || fingerprint)
            FROM 1 FOR 16) END
    FROM next WHERE delivery.id = next.id
)
INSERT INTO oncebox_meta (name, value) SELECT 'migrated_to', MAX(id) FROM next
ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- step: finish
LOCK TABLE oncebox_deliveries IN ACCESS EXCLUSIVE MODE;
-- Of those that were stored meanwhile, some have an id below the last.
UPDATE oncebox_deliveries
SET key_digest = substring(
        sha256(convert_to(tenant || E'\n' || source || E'\n' || key, 'UTF8')) FROM 1 FOR 16),
    body_digest = CASE WHEN backed = 1 THEN substring(
        sha256(convert_to(tenant || E'\n' || source || E'\n', 'UTF8') || fingerprint)
        FROM 1 FOR 16) END
WHERE key_digest IS NULL;
ALTER TABLE oncebox_deliveries ALTER COLUMN key_digest SET NOT NULL, DROP COLUMN backed;
DELETE FROM oncebox_meta WHERE name = 'migrated_to';

DROP INDEX oncebox_deliveries_key;
-- A key counts once. The variant is empty, or the fingerprint of a conflicting body.
CREATE UNIQUE INDEX oncebox_deliveries_key_digest ON oncebox_deliveries (key_digest, variant);
-- A body counts once where nobody signed the key. (The index before it went with its column.)
CREATE UNIQUE INDEX oncebox_deliveries_body_digest
    ON oncebox_deliveries (body_digest) WHERE body_digest IS NOT NULL;
-- Which sources there are.
CREATE INDEX oncebox_deliveries_source ON oncebox_deliveries (tenant, source);
-- The mails of an inbox: their keys begin with its id.
CREATE INDEX oncebox_deliveries_inbox ON oncebox_deliveries (tenant, key) WHERE source = '@mail';
