-- Whose data it is. The tenant "default" is always there and has no row.
CREATE TABLE oncebox_tenants (
    name TEXT PRIMARY KEY,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- API keys, without their texts: only the SHA-256 is kept.
CREATE TABLE oncebox_keys (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    hint TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    scopes TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    last_used_at INTEGER
) STRICT, WITHOUT ROWID;
-- A key is found by what it hashes to.
CREATE UNIQUE INDEX oncebox_keys_digest ON oncebox_keys (digest);
CREATE INDEX oncebox_keys_tenant ON oncebox_keys (tenant, id);

-- Where deliveries come from; settings is the table a person wrote, as JSON.
CREATE TABLE oncebox_sources (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    public_id TEXT NOT NULL,
    settings TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
-- An address leads to one source of the whole installation.
CREATE UNIQUE INDEX oncebox_sources_public_id ON oncebox_sources (public_id);

-- Secrets of sources: sealed, or a reference to where they are kept. Nothing is left of the
-- value once it is retired.
CREATE TABLE oncebox_source_secrets (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    sealed BLOB,
    reference TEXT,
    created_at INTEGER NOT NULL,
    retired_at INTEGER,
    -- A secret in use is kept in exactly one way.
    CHECK (retired_at IS NOT NULL OR (sealed IS NULL) <> (reference IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_source_secrets_source ON oncebox_source_secrets (tenant, source, id);
-- What is still to be erased after its time.
CREATE INDEX oncebox_source_secrets_retired
    ON oncebox_source_secrets (retired_at) WHERE retired_at IS NOT NULL AND sealed IS NOT NULL;

-- Requests that must not create twice: who answers them now, and the sealed first answer.
CREATE TABLE oncebox_idempotency (
    tenant TEXT NOT NULL,
    route TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    body_hash BLOB NOT NULL,
    holder TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    answer BLOB,
    PRIMARY KEY (tenant, route, key),
    -- Finished means answered.
    CHECK ((finished_at IS NULL) = (answer IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_idempotency_started ON oncebox_idempotency (started_at);
