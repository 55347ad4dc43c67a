-- Attempts: whose they are. The first key that made an inbox for one has it, or without any
-- inbox the first that began an action; none: only operators act for it.
CREATE TABLE oncebox_attempts (
    tenant TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    -- how often its mail was asked for again
    resends BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, attempt_id)
);

-- Actions: what an attempt does once, whoever asks for it and however often.
CREATE TABLE oncebox_actions (
    tenant TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('started', 'verifying', 'done', 'not_done', 'unknown')),
    safe TEXT COLLATE "C" NOT NULL CHECK (safe IN ('idempotent', 'once', 'verify')),
    -- the API key that holds it, a hash of the request that began it, and until when
    holder TEXT COLLATE "C" NOT NULL,
    request_mark BYTEA NOT NULL,
    -- raised with every start and every look; no later word of an earlier one changes the state
    fence BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    -- the first start that may have happened, and the last
    first_started_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    -- what the agent stored; sealed
    result BYTEA,
    PRIMARY KEY (tenant, attempt_id, name)
);
CREATE INDEX oncebox_actions_started ON oncebox_actions (tenant, started_at);

-- Resends: how often an attempt may ask for its mail again; each number is given out once.
CREATE TABLE oncebox_resends (
    tenant TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    -- what makes a repeat of the same request the same resend
    request_mark BYTEA NOT NULL,
    granted_to TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    PRIMARY KEY (tenant, attempt_id, number)
);
CREATE UNIQUE INDEX oncebox_resends_request
    ON oncebox_resends (tenant, attempt_id, request_mark);
