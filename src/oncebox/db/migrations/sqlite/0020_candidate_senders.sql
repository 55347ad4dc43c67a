-- The organisational domain of the sender, by which a wait that names senders finds their mail among
-- that of others. It is empty in older rows, which are found among the newest only.
ALTER TABLE oncebox_artifacts ADD COLUMN sender_org TEXT NOT NULL DEFAULT '';
CREATE INDEX oncebox_artifacts_sender
    ON oncebox_artifacts (inbox_id, kind, sender_org, proven, sequence) WHERE matched = 1;
ALTER TABLE oncebox_messages ADD COLUMN sender_org TEXT NOT NULL DEFAULT '';
CREATE INDEX oncebox_messages_sender ON oncebox_messages (
    inbox_id, sender_org, (CASE WHEN sender_verdict = 'pass' THEN 1 ELSE 0 END), sequence
) WHERE matched = 1;
