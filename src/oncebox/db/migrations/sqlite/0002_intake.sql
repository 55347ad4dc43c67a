-- Where in the request its body begins; an element of a batch is a part of it.
ALTER TABLE oncebox_deliveries ADD COLUMN slice_start INTEGER NOT NULL DEFAULT 0;

-- 1 where nobody signed the key, so that the body must be new as well.
ALTER TABLE oncebox_deliveries ADD COLUMN backed INTEGER NOT NULL DEFAULT 0;

-- The delivery whose body came again under this unsigned key.
ALTER TABLE oncebox_deliveries ADD COLUMN replay_of TEXT;

-- What was found about its time when it arrived, and which secret had signed it.
ALTER TABLE oncebox_deliveries ADD COLUMN verdict TEXT NOT NULL DEFAULT '';
ALTER TABLE oncebox_deliveries ADD COLUMN secret_id TEXT;

-- Its number in the lane, and what it waits for: lower numbers, or another type.
ALTER TABLE oncebox_deliveries ADD COLUMN sequence INTEGER;
ALTER TABLE oncebox_deliveries ADD COLUMN skip_stale INTEGER NOT NULL DEFAULT 0;
ALTER TABLE oncebox_deliveries ADD COLUMN gap_until INTEGER;
ALTER TABLE oncebox_deliveries ADD COLUMN after_type TEXT;
ALTER TABLE oncebox_deliveries ADD COLUMN after_until INTEGER;
ALTER TABLE oncebox_deliveries ADD COLUMN waits_for TEXT;

-- When its body went, and when a person saw that it is dead.
ALTER TABLE oncebox_deliveries ADD COLUMN purged_at INTEGER;
ALTER TABLE oncebox_deliveries ADD COLUMN seen_at INTEGER;

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
ALTER TABLE oncebox_lanes ADD COLUMN ruled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE oncebox_lanes ADD COLUMN last_sequence INTEGER;
ALTER TABLE oncebox_lanes ADD COLUMN turn TEXT;

-- The types that are done in a lane, each as its SHA-256: a type may be long.
CREATE TABLE oncebox_lane_types (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    lane TEXT NOT NULL,
    type BLOB NOT NULL,
    PRIMARY KEY (tenant, source, lane, type)
) STRICT, WITHOUT ROWID;

-- The first few repeats of each class, as they came.
CREATE TABLE oncebox_examples (
    delivery_id TEXT NOT NULL,
    class TEXT NOT NULL,
    number INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    at INTEGER NOT NULL,
    road TEXT NOT NULL,
    verdict TEXT NOT NULL,
    secret_id TEXT,
    headers BLOB NOT NULL,
    PRIMARY KEY (delivery_id, class, number)
) STRICT, WITHOUT ROWID;

-- Rejected requests, kept for a while. Header values that may be secrets are in the sealed part.
CREATE TABLE oncebox_quarantine (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    reason TEXT NOT NULL,
    class TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    method TEXT NOT NULL,
    url TEXT NOT NULL,
    headers BLOB NOT NULL,
    sealed BLOB NOT NULL,
    body BLOB NOT NULL,
    size INTEGER NOT NULL
) STRICT;
CREATE INDEX oncebox_quarantine_source ON oncebox_quarantine (tenant, source, id, size);

-- Rejected requests, counted by what they most likely were, kept or not.
CREATE TABLE oncebox_rejects (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    class TEXT NOT NULL,
    count INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, source, class)
) STRICT, WITHOUT ROWID;

-- Claims by request key: the same key is answered with the same lease.
CREATE TABLE oncebox_claims (
    tenant TEXT NOT NULL,
    request_key TEXT NOT NULL CHECK (length(request_key) BETWEEN 1 AND 512),
    worker TEXT NOT NULL,
    sources BLOB NOT NULL,
    asked_at INTEGER NOT NULL,
    answer BLOB NOT NULL,
    PRIMARY KEY (tenant, request_key)
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_claims_asked ON oncebox_claims (asked_at);

-- How much of a source may be begun now, in thousandths; its row is the lock of all who claim
-- from a source with limits.
CREATE TABLE oncebox_gates (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    allowance INTEGER NOT NULL,
    refilled_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) STRICT, WITHOUT ROWID;
