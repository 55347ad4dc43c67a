-- Small facts about this installation, such as the id of its master key.
CREATE TABLE oncebox_meta (
    name TEXT COLLATE "C" PRIMARY KEY,
    value TEXT COLLATE "C" NOT NULL
);

-- What arrived, exactly as received. Apart from the delivery so that a change of state
-- never rewrites a body, and a body can go while its key stays.
CREATE TABLE oncebox_payloads (
    id TEXT COLLATE "C" PRIMARY KEY,
    headers BYTEA NOT NULL,
    body BYTEA NOT NULL
);

-- One accepted arrival: its key, its state, its lease.
CREATE TABLE oncebox_deliveries (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    key TEXT COLLATE "C" NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    variant TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    road TEXT COLLATE "C" NOT NULL,
    fingerprint BYTEA NOT NULL,
    payload_id TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    lane TEXT COLLATE "C",
    lane_position BIGINT,
    late BIGINT NOT NULL DEFAULT 0,
    state TEXT COLLATE "C" NOT NULL
        CHECK (state IN ('received', 'processing', 'done', 'failed', 'dead', 'held')),
    due_at BIGINT,
    received_at BIGINT NOT NULL,
    accepted_at BIGINT NOT NULL,
    tries BIGINT NOT NULL DEFAULT 0,
    fence BIGINT NOT NULL DEFAULT 0,
    worker TEXT COLLATE "C",
    claimed_at BIGINT,
    give_up_at BIGINT,
    not_before BIGINT,
    hastened_at BIGINT,
    rearms BIGINT NOT NULL DEFAULT 0,
    policy TEXT COLLATE "C",
    hold_reason TEXT COLLATE "C",
    held_at BIGINT,
    outcome TEXT COLLATE "C",
    last_error TEXT COLLATE "C",
    ended_at BIGINT,
    -- A held delivery always says why.
    CHECK (state <> 'held' OR hold_reason IS NOT NULL)
) WITH (
    -- The hot table: every delivery is updated twice within seconds of its arrival.
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

-- A key counts once. The variant is empty, or the fingerprint of a conflicting body.
CREATE UNIQUE INDEX oncebox_deliveries_key
    ON oncebox_deliveries (tenant, source, key, variant);
-- What may be claimed, oldest first.
CREATE INDEX oncebox_deliveries_due
    ON oncebox_deliveries (tenant, source, due_at)
    WHERE state IN ('received', 'failed') AND due_at IS NOT NULL;
-- What is being worked on, by the end of its lease.
CREATE INDEX oncebox_deliveries_leased
    ON oncebox_deliveries (tenant, source, due_at) WHERE state = 'processing';
-- At most one delivery of a lane is being worked on.
CREATE UNIQUE INDEX oncebox_deliveries_lane_busy
    ON oncebox_deliveries (tenant, source, lane) WHERE state = 'processing' AND lane IS NOT NULL;
-- Who is next in a lane.
CREATE INDEX oncebox_deliveries_lane_open
    ON oncebox_deliveries (tenant, source, lane, lane_position)
    WHERE lane_position IS NOT NULL AND state IN ('received', 'processing', 'failed', 'held');
-- What needs a person.
CREATE INDEX oncebox_deliveries_attention
    ON oncebox_deliveries (tenant, state) WHERE state IN ('dead', 'held');

-- The last number given out in each lane; its row is the lane's lock.
CREATE TABLE oncebox_lanes (
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    last_position BIGINT NOT NULL,
    PRIMARY KEY (tenant, source, lane)
);

-- Every try that did not end its delivery; the last one is in the delivery itself.
CREATE TABLE oncebox_tries (
    delivery_id TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    worker TEXT COLLATE "C",
    claimed_at BIGINT,
    ended_at BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    error TEXT COLLATE "C",
    PRIMARY KEY (delivery_id, fence, outcome)
);

-- The journal: one row for each side effect of a delivery's handler.
CREATE TABLE oncebox_effects (
    delivery_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('started', 'done', 'not_done', 'unknown')),
    safe TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    first_started_at BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    surely_over_at BIGINT NOT NULL,
    ended_at BIGINT,
    result BYTEA,
    error TEXT COLLATE "C",
    PRIMARY KEY (delivery_id, name)
);

-- Repeats, counted by what they most likely were.
CREATE TABLE oncebox_sightings (
    delivery_id TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    road TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (delivery_id, class)
);

-- What people did, who and why.
CREATE TABLE oncebox_audit (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    who TEXT COLLATE "C" NOT NULL,
    action TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    why TEXT COLLATE "C" NOT NULL,
    detail TEXT COLLATE "C" NOT NULL
);
CREATE INDEX oncebox_audit_target ON oncebox_audit (tenant, target, id);
