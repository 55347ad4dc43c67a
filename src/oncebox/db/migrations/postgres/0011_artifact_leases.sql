-- A code or link is leased to the worker that reads it, and is one per attempt.
ALTER TABLE oncebox_artifacts
    -- HMAC of its value for its attempt; none of older rows, nor where there is no attempt
    ADD COLUMN attempt_mark BYTEA,
    -- the artifact of the attempt with the same value, in another inbox; that one is claimed
    ADD COLUMN same_as TEXT COLLATE "C",
    -- until when it is kept for the worker that read it, and a hash of that worker's request
    ADD COLUMN lease_until BIGINT,
    ADD COLUMN lease_mark BYTEA,
    -- when its claimant said that it was used
    ADD COLUMN used_at BIGINT;
-- A value is claimed once per attempt.
CREATE UNIQUE INDEX oncebox_artifacts_attempt ON oncebox_artifacts (attempt_mark)
    WHERE attempt_mark IS NOT NULL AND same_as IS NULL;

-- What happened to inboxes that nothing else records; added up every few seconds.
CREATE TABLE oncebox_inbox_counts (
    inbox_id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    polls BIGINT NOT NULL,
    timeouts BIGINT NOT NULL,
    artifact_duplicates BIGINT NOT NULL,
    cursor_replays BIGINT NOT NULL,
    lease_conflicts BIGINT NOT NULL
);
