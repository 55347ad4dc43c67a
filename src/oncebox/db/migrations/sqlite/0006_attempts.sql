-- Attempts: whose they are. The first key that made an inbox for one has it, or without any
-- inbox the first that began an action; none: only operators act for it.
CREATE TABLE oncebox_attempts (
    tenant TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    -- how often its mail was asked for again
    resends INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, attempt_id)
) STRICT, WITHOUT ROWID;

-- Actions: what an attempt does once, whoever asks for it and however often.
CREATE TABLE oncebox_actions (
    tenant TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    name TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'verifying', 'done', 'not_done', 'unknown')),
    safe TEXT NOT NULL CHECK (safe IN ('idempotent', 'once', 'verify')),
    -- the API key that holds it, a hash of the request that began it, and until when
    holder TEXT NOT NULL,
    request_mark BLOB NOT NULL,
    -- raised with every start and every look; no later word of an earlier one changes the state
    fence INTEGER NOT NULL,
    lease_until INTEGER NOT NULL,
    -- the first start that may have happened, and the last
    first_started_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at INTEGER,
    -- what the agent stored; sealed
    result BLOB,
    PRIMARY KEY (tenant, attempt_id, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_actions_started ON oncebox_actions (tenant, started_at);

-- Resends: how often an attempt may ask for its mail again; each number is given out once.
CREATE TABLE oncebox_resends (
    tenant TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- what makes a repeat of the same request the same resend
    request_mark BLOB NOT NULL,
    granted_to TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (tenant, attempt_id, number)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX oncebox_resends_request
    ON oncebox_resends (tenant, attempt_id, request_mark);
