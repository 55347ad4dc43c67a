-- Endpoints: URLs to which events are delivered.
CREATE TABLE oncebox_endpoints (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    -- event types, each followed by a comma; empty: all
    types TEXT COLLATE "C" NOT NULL,
    inbox_id TEXT COLLATE "C",
    attempt_id TEXT COLLATE "C",
    source TEXT COLLATE "C",
    -- what is delivered one after the other: none, inbox, attempt, source
    ordering TEXT COLLATE "C" NOT NULL,
    concurrency BIGINT NOT NULL,
    -- encrypted
    secrets BYTEA NOT NULL,
    -- the last event before it was added
    since BIGINT NOT NULL,
    -- operator, or gone: it answered 410
    paused TEXT COLLATE "C",
    -- consecutive ones
    failures BIGINT NOT NULL DEFAULT 0,
    failed_at BIGINT,
    succeeded_at BIGINT,
    -- the circuit breaker is open until then; after that one delivery tests the endpoint
    rests_until BIGINT,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Up to which event of a tenant the deliveries to its endpoints are stored.
CREATE TABLE oncebox_endpoint_cursors (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    cursor BIGINT NOT NULL
);
