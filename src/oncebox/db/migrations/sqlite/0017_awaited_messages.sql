-- A message that is awaited itself is claimed as an artifact of its own kind. The table is made
-- anew, because the condition on a column cannot be changed.
ALTER TABLE oncebox_artifacts RENAME TO oncebox_artifacts_old;
DROP INDEX oncebox_artifacts_mark;
DROP INDEX oncebox_artifacts_choice;
DROP INDEX oncebox_artifacts_inbox;
DROP INDEX oncebox_artifacts_kept;
DROP INDEX oncebox_artifacts_released;
DROP INDEX oncebox_artifacts_attempt;
CREATE TABLE oncebox_artifacts (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    inbox_id TEXT NOT NULL,
    attempt_id TEXT,
    -- the message that says most for it of those that brought it, and its place in its inbox
    message_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('code', 'link', 'message')),
    -- HMAC of its value, to know it again; of a message what makes it the same
    mark BLOB NOT NULL,
    -- the value and what belongs to it; empty once its time is over
    sealed BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('available', 'superseded', 'claimed')),
    -- its place among those of its kind in its message, and in thousandths how sure it is
    rank INTEGER NOT NULL,
    confidence INTEGER NOT NULL,
    -- 1 if another one of the same message is as good
    tied INTEGER NOT NULL DEFAULT 0,
    -- of its message: whether the inbox's policy lets it through, what it is about, who sent it
    matched INTEGER NOT NULL,
    purpose TEXT NOT NULL,
    sender TEXT NOT NULL,
    sender_domain TEXT NOT NULL,
    sender_verdict TEXT NOT NULL,
    -- 1 if the sender's domain has vouched for it
    proven INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    -- the Date of its message, if a signature covers it
    signed_at INTEGER,
    -- JSON: codes of what a reader should know
    warnings BLOB NOT NULL,
    -- further messages that brought the same value
    duplicates INTEGER NOT NULL DEFAULT 0,
    -- the artifact that took its place
    superseded_by TEXT,
    -- who has it: the API key, and a hash of the claim key
    claimed_by TEXT,
    claim_mark BLOB,
    claimed_at INTEGER,
    -- how often it was taken back by a person
    releases INTEGER NOT NULL DEFAULT 0,
    purged_at INTEGER,
    -- HMAC of its value for its attempt; none of older rows, nor where there is no attempt
    attempt_mark BLOB,
    -- the artifact of the attempt with the same value, in another inbox; that one is claimed
    same_as TEXT,
    -- until when it is kept for the worker that read it, and a hash of that worker's request
    lease_until INTEGER,
    lease_mark BLOB,
    -- when its claimant said that it was used
    used_at INTEGER
) STRICT;
INSERT INTO oncebox_artifacts SELECT * FROM oncebox_artifacts_old;
DROP TABLE oncebox_artifacts_old;
-- The same value in the same inbox is the same artifact.
CREATE UNIQUE INDEX oncebox_artifacts_mark ON oncebox_artifacts (inbox_id, kind, mark);
-- Among the newest of these the choice is made.
CREATE INDEX oncebox_artifacts_choice
    ON oncebox_artifacts (inbox_id, kind, proven, sequence) WHERE matched = 1;
CREATE INDEX oncebox_artifacts_inbox ON oncebox_artifacts (inbox_id, id);
CREATE INDEX oncebox_artifacts_kept ON oncebox_artifacts (received_at) WHERE purged_at IS NULL;
CREATE INDEX oncebox_artifacts_released ON oncebox_artifacts (inbox_id) WHERE releases > 0;
-- A value is claimed once per attempt.
CREATE UNIQUE INDEX oncebox_artifacts_attempt ON oncebox_artifacts (attempt_mark)
    WHERE attempt_mark IS NOT NULL AND same_as IS NULL;

-- Among the newest of these a wait for messages chooses; proven and unproven ones apart.
CREATE INDEX oncebox_messages_choice ON oncebox_messages (
    inbox_id, (CASE WHEN sender_verdict = 'pass' THEN 1 ELSE 0 END), sequence
) WHERE matched = 1;
-- The messages of a tenant, as those of the default one are by their ids.
CREATE INDEX oncebox_messages_tenant ON oncebox_messages (tenant, id) WHERE tenant <> 'default';
