-- Artifacts: codes and links that were found in messages, each granted once.
CREATE TABLE oncebox_artifacts (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    inbox_id TEXT NOT NULL,
    attempt_id TEXT,
    -- the message that says most for it of those that brought it, and its place in its inbox
    message_id TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('code', 'link')),
    -- HMAC of its value, to know it again
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
    purged_at INTEGER
) STRICT;
-- The same value in the same inbox is the same artifact.
CREATE UNIQUE INDEX oncebox_artifacts_mark ON oncebox_artifacts (inbox_id, kind, mark);
-- Among the newest of these the choice is made.
CREATE INDEX oncebox_artifacts_choice
    ON oncebox_artifacts (inbox_id, kind, proven, sequence) WHERE matched = 1;
CREATE INDEX oncebox_artifacts_inbox ON oncebox_artifacts (inbox_id, id);
CREATE INDEX oncebox_artifacts_kept ON oncebox_artifacts (received_at) WHERE purged_at IS NULL;
