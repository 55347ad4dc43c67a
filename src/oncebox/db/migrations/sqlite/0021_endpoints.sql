-- Endpoints: URLs to which events are delivered.
CREATE TABLE oncebox_endpoints (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    url TEXT NOT NULL,
    -- event types, each followed by a comma; empty: all
    types TEXT NOT NULL,
    inbox_id TEXT,
    attempt_id TEXT,
    source TEXT,
    -- what is delivered one after the other: none, inbox, attempt, source
    ordering TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    -- encrypted
    secrets BLOB NOT NULL,
    -- the last event before it was added
    since INTEGER NOT NULL,
    -- operator, or gone: it answered 410
    paused TEXT,
    -- consecutive ones
    failures INTEGER NOT NULL DEFAULT 0,
    failed_at INTEGER,
    succeeded_at INTEGER,
    -- the circuit breaker is open until then; after that one delivery tests the endpoint
    rests_until INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Up to which event of a tenant the deliveries to its endpoints are stored.
CREATE TABLE oncebox_endpoint_cursors (
    tenant TEXT PRIMARY KEY,
    cursor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
