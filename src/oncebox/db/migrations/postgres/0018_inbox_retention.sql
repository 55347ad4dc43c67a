-- Inboxes that were deleted: their addresses are never assigned again.
CREATE TABLE oncebox_retired_inboxes (
    -- SHA-256 of the address
    mark BYTEA PRIMARY KEY,
    -- the inbox, as long as rows of it are still to be deleted
    tenant TEXT COLLATE "C",
    inbox_id TEXT COLLATE "C"
);
CREATE INDEX oncebox_retired_inboxes_unfinished
    ON oncebox_retired_inboxes (inbox_id) WHERE inbox_id IS NOT NULL;
-- Inboxes that may be deleted, oldest first.
CREATE INDEX oncebox_inboxes_ended ON oncebox_inboxes (ended_at, id) WHERE ended_at IS NOT NULL;
-- The artifacts of an attempt that have the value of another one, which is claimed for all.
CREATE INDEX oncebox_artifacts_same ON oncebox_artifacts (same_as) WHERE same_as IS NOT NULL;
