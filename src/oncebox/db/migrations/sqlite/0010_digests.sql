-- Keys and bodies are unique by a digest of 16 bytes, in a table with row numbers: an entry of a
-- unique index, which is at a random place, is a third as long. No process of an older version
-- can write while the rows are moved, because its table is gone, nor afterwards, because the
-- column ``backed`` is.
-- See docs/decisions/0045-use-digests-for-unique-keys.md.

-- step: begin
-- Nobody uses them any more; deleting rows one by one from them would take longer.
DROP INDEX oncebox_deliveries_key;
DROP INDEX oncebox_deliveries_body;
DROP INDEX oncebox_deliveries_due;
DROP INDEX oncebox_deliveries_leased;
DROP INDEX oncebox_deliveries_lane_busy;
DROP INDEX oncebox_deliveries_lane_open;
DROP INDEX oncebox_deliveries_lane_turn;
DROP INDEX oncebox_deliveries_attention;
DROP INDEX oncebox_deliveries_sequence;
DROP INDEX oncebox_deliveries_element;
DROP INDEX oncebox_deliveries_mail;
DROP INDEX oncebox_deliveries_tenant;
ALTER TABLE oncebox_deliveries RENAME TO oncebox_deliveries_old;

CREATE TABLE oncebox_deliveries_new (
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    key TEXT NOT NULL CHECK (length(key) BETWEEN 1 AND 512),
    variant TEXT NOT NULL,
    -- of tenant, source and key
    key_digest BLOB NOT NULL CHECK (length(key_digest) = 16),
    -- of tenant, source and fingerprint, where nobody signed the key
    body_digest BLOB CHECK (length(body_digest) = 16),
    type TEXT NOT NULL,
    road TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    payload_id TEXT NOT NULL,
    -- where in the request its body begins; an element of a batch is a part of it
    slice_start INTEGER NOT NULL DEFAULT 0,
    size INTEGER NOT NULL,
    lane TEXT,
    lane_position INTEGER,
    late INTEGER NOT NULL DEFAULT 0,
    -- not IN: for a list of more than two, a trigger makes a table of them for each row it inserts
    state TEXT NOT NULL CHECK (
        state = 'received' OR state = 'processing' OR state = 'done' OR state = 'failed'
        OR state = 'dead' OR state = 'held'
    ),
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
    -- the delivery whose body came again under this unsigned key
    replay_of TEXT,
    -- what was found about its time when it arrived, and which secret had signed it
    verdict TEXT NOT NULL DEFAULT '',
    secret_id TEXT,
    -- its number in the lane, and what it waits for: lower numbers, or another type
    sequence INTEGER,
    skip_stale INTEGER NOT NULL DEFAULT 0,
    gap_until INTEGER,
    after_type TEXT,
    after_until INTEGER,
    waits_for TEXT,
    -- when its body was deleted, and when an operator acknowledged that it is dead
    purged_at INTEGER,
    seen_at INTEGER,
    CHECK (state <> 'held' OR hold_reason IS NOT NULL)
) STRICT;

CREATE UNIQUE INDEX oncebox_deliveries_id ON oncebox_deliveries_new (id);
-- A key counts once. The variant is empty, or the fingerprint of a conflicting body.
CREATE UNIQUE INDEX oncebox_deliveries_key_digest
    ON oncebox_deliveries_new (key_digest, variant);
-- A body counts once where nobody signed the key.
CREATE UNIQUE INDEX oncebox_deliveries_body_digest
    ON oncebox_deliveries_new (body_digest) WHERE body_digest IS NOT NULL;
-- Which sources there are.
CREATE INDEX oncebox_deliveries_source ON oncebox_deliveries_new (tenant, source);
-- The mails of an inbox: their keys begin with its id.
CREATE INDEX oncebox_deliveries_inbox
    ON oncebox_deliveries_new (tenant, key) WHERE source = '@mail';
-- What may be claimed, oldest first.
CREATE INDEX oncebox_deliveries_due
    ON oncebox_deliveries_new (tenant, source, due_at)
    WHERE state IN ('received', 'failed') AND due_at IS NOT NULL;
-- What is being worked on, by the end of its lease.
CREATE INDEX oncebox_deliveries_leased
    ON oncebox_deliveries_new (tenant, source, due_at) WHERE state = 'processing';
-- At most one delivery of a lane is being worked on.
CREATE UNIQUE INDEX oncebox_deliveries_lane_busy
    ON oncebox_deliveries_new (tenant, source, lane)
    WHERE state = 'processing' AND lane IS NOT NULL;
-- Who is next in a lane.
CREATE INDEX oncebox_deliveries_lane_open
    ON oncebox_deliveries_new (tenant, source, lane, lane_position)
    WHERE lane_position IS NOT NULL AND state IN ('received', 'processing', 'failed', 'held');
-- Whose turn it is in a lane.
CREATE INDEX oncebox_deliveries_lane_turn
    ON oncebox_deliveries_new (tenant, source, lane, lane_position)
    WHERE lane_position IS NOT NULL AND due_at IS NOT NULL
        AND state IN ('received', 'processing', 'failed');
-- Who has the lowest number in a lane.
CREATE INDEX oncebox_deliveries_sequence
    ON oncebox_deliveries_new (tenant, source, lane, sequence, lane_position)
    WHERE sequence IS NOT NULL AND lane_position IS NOT NULL
        AND state IN ('received', 'processing', 'failed', 'held');
-- The elements of a batch.
CREATE INDEX oncebox_deliveries_element
    ON oncebox_deliveries_new (payload_id) WHERE payload_id <> id;
-- What needs a person, or failed.
CREATE INDEX oncebox_deliveries_attention
    ON oncebox_deliveries_new (tenant, state, id)
    WHERE state = 'dead' OR state = 'held' OR state = 'failed';
-- The deliveries of a tenant, where there are several.
CREATE INDEX oncebox_deliveries_tenant
    ON oncebox_deliveries_new (tenant, id) WHERE tenant <> 'default';
-- Mail that is due, of all tenants.
CREATE INDEX oncebox_deliveries_mail ON oncebox_deliveries_new (tenant, due_at)
    WHERE source = '@mail' AND due_at IS NOT NULL
        AND (state = 'received' OR state = 'failed' OR state = 'processing');

-- step: left
SELECT COUNT(*) FROM oncebox_deliveries_old;

-- step: next
SELECT COUNT(*) FROM (SELECT 1 FROM oncebox_deliveries_old LIMIT {rows});

-- step: batch
INSERT INTO oncebox_deliveries_new (
    id, tenant, source, key, variant, key_digest, body_digest, type, road, fingerprint, payload_id,
    slice_start, size, lane, lane_position, late, state, due_at, received_at, accepted_at, tries,
    fence, worker, claimed_at, give_up_at, not_before, hastened_at, rearms, policy, hold_reason,
    held_at, outcome, last_error, ended_at, replay_of, verdict, secret_id, sequence, skip_stale,
    gap_until, after_type, after_until, waits_for, purged_at, seen_at
)
SELECT id, tenant, source, key, variant, oncebox_digest(tenant, source, key),
    CASE WHEN backed = 1 THEN oncebox_digest(tenant, source, fingerprint) END,
    type, road, fingerprint, payload_id,
    slice_start, size, lane, lane_position, late, state, due_at, received_at, accepted_at, tries,
    fence, worker, claimed_at, give_up_at, not_before, hastened_at, rearms, policy, hold_reason,
    held_at, outcome, last_error, ended_at, replay_of, verdict, secret_id, sequence, skip_stale,
    gap_until, after_type, after_until, waits_for, purged_at, seen_at
FROM oncebox_deliveries_old ORDER BY id LIMIT {rows};
DELETE FROM oncebox_deliveries_old WHERE id <= (SELECT MAX(id) FROM oncebox_deliveries_new);

-- step: finish
DROP TABLE oncebox_deliveries_old;
ALTER TABLE oncebox_deliveries_new RENAME TO oncebox_deliveries;

-- New deliveries without a lane, with their payloads: an insert into the view is one statement
-- for both tables. A row of nulls is none.
CREATE VIEW oncebox_arrivals AS
SELECT delivery.id, tenant, source, key, key_digest, body_digest, type, road, fingerprint, size,
    received_at, headers, body, verdict, secret_id, accepted_at
FROM oncebox_deliveries AS delivery JOIN oncebox_payloads AS payload ON payload.id = payload_id;

CREATE TRIGGER oncebox_arrivals_insert INSTEAD OF INSERT ON oncebox_arrivals
WHEN NEW.id IS NOT NULL BEGIN
    INSERT INTO oncebox_deliveries (
        id, tenant, source, key, variant, key_digest, body_digest, type, road, fingerprint,
        payload_id, size, late, state, due_at, received_at, accepted_at, verdict, secret_id
    )
    VALUES (
        NEW.id, NEW.tenant, NEW.source, NEW.key, '', NEW.key_digest, NEW.body_digest, NEW.type,
        NEW.road, NEW.fingerprint, NEW.id, NEW.size, NEW.verdict = 'late', 'received',
        NEW.accepted_at, NEW.received_at, NEW.accepted_at, NEW.verdict, NEW.secret_id
    );
    INSERT INTO oncebox_payloads (id, headers, body) VALUES (NEW.id, NEW.headers, NEW.body);
END;
