-- Where in the request its body begins; an element of a batch is a part of it.
ALTER TABLE oncebox_deliveries ADD COLUMN slice_start BIGINT NOT NULL DEFAULT 0;

-- 1 where nobody signed the key, so that the body must be new as well.
ALTER TABLE oncebox_deliveries ADD COLUMN backed BIGINT NOT NULL DEFAULT 0;

-- The delivery whose body came again under this unsigned key.
ALTER TABLE oncebox_deliveries ADD COLUMN replay_of TEXT COLLATE "C";

-- What was found about its time when it arrived, and which secret had signed it.
ALTER TABLE oncebox_deliveries ADD COLUMN verdict TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE oncebox_deliveries ADD COLUMN secret_id TEXT COLLATE "C";

-- Its number in the lane, and what it waits for: lower numbers, or another type.
ALTER TABLE oncebox_deliveries ADD COLUMN sequence BIGINT;
ALTER TABLE oncebox_deliveries ADD COLUMN skip_stale BIGINT NOT NULL DEFAULT 0;
ALTER TABLE oncebox_deliveries ADD COLUMN gap_until BIGINT;
ALTER TABLE oncebox_deliveries ADD COLUMN after_type TEXT COLLATE "C";
ALTER TABLE oncebox_deliveries ADD COLUMN after_until BIGINT;
ALTER TABLE oncebox_deliveries ADD COLUMN waits_for TEXT COLLATE "C";

-- When its body went, and when a person saw that it is dead.
ALTER TABLE oncebox_deliveries ADD COLUMN purged_at BIGINT;
ALTER TABLE oncebox_deliveries ADD COLUMN seen_at BIGINT;

-- A body counts once where nobody signed the key.
CREATE UNIQUE INDEX oncebox_deliveries_body
    ON oncebox_deliveries (tenant, source, fingerprint) WHERE backed = 1;
-- Who has the lowest number in a lane.
CREATE INDEX oncebox_deliveries_sequence
    ON oncebox_deliveries (tenant, source, lane, sequence, lane_position)
    WHERE sequence IS NOT NULL AND lane_position IS NOT NULL
        AND state IN ('received', 'processing', 'failed', 'held');
-- The elements of a batch.
CREATE INDEX oncebox_deliveries_element
    ON oncebox_deliveries (payload_id) WHERE payload_id <> id;

-- Whether a lane goes by more than arrival, the highest number done, and whose turn it is.
ALTER TABLE oncebox_lanes ADD COLUMN ruled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE oncebox_lanes ADD COLUMN last_sequence BIGINT;
ALTER TABLE oncebox_lanes ADD COLUMN turn TEXT COLLATE "C";

-- The types that are done in a lane, each as its SHA-256: a type may be long.
CREATE TABLE oncebox_lane_types (
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    lane TEXT COLLATE "C" NOT NULL,
    type BYTEA NOT NULL,
    PRIMARY KEY (tenant, source, lane, type)
);

-- The first few repeats of each class, as they came.
CREATE TABLE oncebox_examples (
    delivery_id TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    road TEXT COLLATE "C" NOT NULL,
    verdict TEXT COLLATE "C" NOT NULL,
    secret_id TEXT COLLATE "C",
    headers BYTEA NOT NULL,
    PRIMARY KEY (delivery_id, class, number)
);

-- Rejected requests, kept for a while. Header values that may be secrets are in the sealed part.
CREATE TABLE oncebox_quarantine (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    reason TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    method TEXT COLLATE "C" NOT NULL,
    url TEXT COLLATE "C" NOT NULL,
    headers BYTEA NOT NULL,
    sealed BYTEA NOT NULL,
    body BYTEA NOT NULL,
    size BIGINT NOT NULL
);
CREATE INDEX oncebox_quarantine_source ON oncebox_quarantine (tenant, source, id, size);

-- Rejected requests, counted by what they most likely were, kept or not.
CREATE TABLE oncebox_rejects (
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    class TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, source, class)
);

-- Claims by request key: the same key is answered with the same lease.
CREATE TABLE oncebox_claims (
    tenant TEXT COLLATE "C" NOT NULL,
    request_key TEXT COLLATE "C" NOT NULL CHECK (length(request_key) BETWEEN 1 AND 512),
    worker TEXT COLLATE "C" NOT NULL,
    sources BYTEA NOT NULL,
    asked_at BIGINT NOT NULL,
    answer BYTEA NOT NULL,
    PRIMARY KEY (tenant, request_key)
);
CREATE INDEX oncebox_claims_asked ON oncebox_claims (asked_at);

-- How much of a source may be begun now, in thousandths; its row is the lock of all who claim
-- from a source with limits.
CREATE TABLE oncebox_gates (
    tenant TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    allowance BIGINT NOT NULL,
    refilled_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, source)
);
