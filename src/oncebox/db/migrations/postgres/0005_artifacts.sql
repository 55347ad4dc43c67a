-- Artifacts: codes and links that were found in messages, each granted once.
CREATE TABLE oncebox_artifacts (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    inbox_id TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C",
    -- the message that says most for it of those that brought it, and its place in its inbox
    message_id TEXT COLLATE "C" NOT NULL,
    sequence BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('code', 'link')),
    -- HMAC of its value, to know it again
    mark BYTEA NOT NULL,
    -- the value and what belongs to it; empty once its time is over
    sealed BYTEA NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('available', 'superseded', 'claimed')),
    -- its place among those of its kind in its message, and in thousandths how sure it is
    rank BIGINT NOT NULL,
    confidence BIGINT NOT NULL,
    -- 1 if another one of the same message is as good
    tied BIGINT NOT NULL DEFAULT 0,
    -- of its message: whether the inbox's policy lets it through, what it is about, who sent it
    matched BIGINT NOT NULL,
    purpose TEXT COLLATE "C" NOT NULL,
    sender TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender_verdict TEXT COLLATE "C" NOT NULL,
    -- 1 if the sender's domain has vouched for it
    proven BIGINT NOT NULL,
    received_at BIGINT NOT NULL,
    -- the Date of its message, if a signature covers it
    signed_at BIGINT,
    -- JSON: codes of what a reader should know
    warnings BYTEA NOT NULL,
    -- further messages that brought the same value
    duplicates BIGINT NOT NULL DEFAULT 0,
    -- the artifact that took its place
    superseded_by TEXT COLLATE "C",
    -- who has it: the API key, and a hash of the claim key
    claimed_by TEXT COLLATE "C",
    claim_mark BYTEA,
    claimed_at BIGINT,
    -- how often it was taken back by a person
    releases BIGINT NOT NULL DEFAULT 0,
    purged_at BIGINT
) WITH (fillfactor = 70);  -- a claim changes its row beside itself, and no index
-- The same value in the same inbox is the same artifact.
CREATE UNIQUE INDEX oncebox_artifacts_mark ON oncebox_artifacts (inbox_id, kind, mark);
-- Among the newest of these the choice is made.
CREATE INDEX oncebox_artifacts_choice
    ON oncebox_artifacts (inbox_id, kind, proven, sequence) WHERE matched = 1;
CREATE INDEX oncebox_artifacts_inbox ON oncebox_artifacts (inbox_id, id);
CREATE INDEX oncebox_artifacts_kept ON oncebox_artifacts (received_at) WHERE purged_at IS NULL;
