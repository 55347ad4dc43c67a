-- A code or link is leased to the worker that reads it, and is one per attempt.
-- HMAC of its value for its attempt; none of older rows, nor where there is no attempt
ALTER TABLE oncebox_artifacts ADD COLUMN attempt_mark BLOB;
-- the artifact of the attempt with the same value, in another inbox; that one is claimed
ALTER TABLE oncebox_artifacts ADD COLUMN same_as TEXT;
-- until when it is kept for the worker that read it, and a hash of that worker's request
ALTER TABLE oncebox_artifacts ADD COLUMN lease_until INTEGER;
ALTER TABLE oncebox_artifacts ADD COLUMN lease_mark BLOB;
-- when its claimant said that it was used
ALTER TABLE oncebox_artifacts ADD COLUMN used_at INTEGER;
-- A value is claimed once per attempt.
CREATE UNIQUE INDEX oncebox_artifacts_attempt ON oncebox_artifacts (attempt_mark)
    WHERE attempt_mark IS NOT NULL AND same_as IS NULL;

-- What happened to inboxes that nothing else records; added up every few seconds.
CREATE TABLE oncebox_inbox_counts (
    inbox_id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    polls INTEGER NOT NULL,
    timeouts INTEGER NOT NULL,
    artifact_duplicates INTEGER NOT NULL,
    cursor_replays INTEGER NOT NULL,
    lease_conflicts INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
