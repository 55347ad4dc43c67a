-- Small facts about this installation, such as the id of its master key.
CREATE TABLE oncebox_meta (
    name TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What arrived, exactly as received. Apart from the delivery so that a change of state
-- never rewrites a body, and a body can go while its key stays.
CREATE TABLE oncebox_payloads (
    id TEXT PRIMARY KEY,
    headers BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- One accepted arrival: its key, its state, its lease.
CREATE TABLE oncebox_deliveries (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    variant TEXT NOT NULL,
    type TEXT NOT NULL,
    road TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    payload_id TEXT NOT NULL,
    size INTEGER NOT NULL,
    lane TEXT,
    lane_position INTEGER,
    late INTEGER NOT NULL DEFAULT 0,
    state TEXT NOT NULL
        CHECK (state IN ('received', 'processing', 'done', 'failed', 'dead', 'held')),
    due_at INTEGER,
    received_at INTEGER NOT NULL,
    accepted_at INTEGER NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0,
    fence INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    claimed_at INTEGER,
    give_up_at INTEGER,
    not_before INTEGER,
    hastened_at INTEGER,
    rearms INTEGER NOT NULL DEFAULT 0,
    policy TEXT,
    hold_reason TEXT,
    held_at INTEGER,
    outcome TEXT,
    last_error TEXT,
    ended_at INTEGER,
    -- A held delivery always says why.
    CHECK (state <> 'held' OR hold_reason IS NOT NULL)
) STRICT, WITHOUT ROWID;

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
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    lane TEXT NOT NULL,
    last_position INTEGER NOT NULL,
    PRIMARY KEY (tenant, source, lane)
) STRICT, WITHOUT ROWID;

-- Every try that did not end its delivery; the last one is in the delivery itself.
CREATE TABLE oncebox_tries (
    delivery_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    worker TEXT,
    claimed_at INTEGER,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    error TEXT,
    PRIMARY KEY (delivery_id, fence, outcome)
) STRICT, WITHOUT ROWID;

-- The journal: one row for each side effect of a delivery's handler.
CREATE TABLE oncebox_effects (
    delivery_id TEXT NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('started', 'done', 'not_done', 'unknown')),
    safe TEXT NOT NULL,
    fence INTEGER NOT NULL,
    first_started_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    surely_over_at INTEGER NOT NULL,
    ended_at INTEGER,
    result BLOB,
    error TEXT,
    PRIMARY KEY (delivery_id, name)
) STRICT, WITHOUT ROWID;

-- Repeats, counted by what they most likely were.
CREATE TABLE oncebox_sightings (
    delivery_id TEXT NOT NULL,
    class TEXT NOT NULL,
    tenant TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    road TEXT NOT NULL,
    PRIMARY KEY (delivery_id, class)
) STRICT, WITHOUT ROWID;

-- What people did, who and why.
CREATE TABLE oncebox_audit (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    who TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    why TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_audit_target ON oncebox_audit (tenant, target, id);
