-- Whose data it is. The tenant "default" is always there and has no row.
CREATE TABLE oncebox_tenants (
    name TEXT COLLATE "C" PRIMARY KEY,
    created_at BIGINT NOT NULL
);

-- API keys, without their texts: only the SHA-256 is kept.
CREATE TABLE oncebox_keys (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    hint TEXT COLLATE "C" NOT NULL,
    digest BYTEA NOT NULL CHECK (length(digest) = 32),
    scopes TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT
);
-- A key is found by what it hashes to.
CREATE UNIQUE INDEX oncebox_keys_digest ON oncebox_keys (digest);
CREATE INDEX oncebox_keys_tenant ON oncebox_keys (tenant, id);

-- Where deliveries come from; settings is the table a person wrote, as JSON.
CREATE TABLE oncebox_sources (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    public_id TEXT COLLATE "C" NOT NULL,
    settings TEXT COLLATE "C" NOT NULL,
    paused BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);
-- An address leads to one source of the whole installation.
CREATE UNIQUE INDEX oncebox_sources_public_id ON oncebox_sources (public_id);

-- Secrets of sources: sealed, or a reference to where they are kept. Nothing is left of the
-- value once it is retired.
CREATE TABLE oncebox_source_secrets (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    sealed BYTEA,
    reference TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    retired_at BIGINT,
    -- A secret in use is kept in exactly one way.
    CHECK (retired_at IS NOT NULL OR (sealed IS NULL) <> (reference IS NULL))
);
CREATE INDEX oncebox_source_secrets_source ON oncebox_source_secrets (tenant, source, id);
-- What is still to be erased after its time.
CREATE INDEX oncebox_source_secrets_retired
    ON oncebox_source_secrets (retired_at) WHERE retired_at IS NOT NULL AND sealed IS NOT NULL;

-- Requests that must not create twice: who answers them now, and the sealed first answer.
CREATE TABLE oncebox_idempotency (
    tenant TEXT COLLATE "C" NOT NULL,
    route TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    body_hash BYTEA NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    started_at BIGINT NOT NULL,
    finished_at BIGINT,
    answer BYTEA,
    PRIMARY KEY (tenant, route, key),
    -- Finished means answered.
    CHECK ((finished_at IS NULL) = (answer IS NULL))
);
CREATE INDEX oncebox_idempotency_started ON oncebox_idempotency (started_at);
