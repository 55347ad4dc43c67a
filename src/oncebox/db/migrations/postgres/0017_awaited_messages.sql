-- A message that is awaited itself is claimed as an artifact of its own kind. The older rows
-- satisfy the new condition and are not read.
ALTER TABLE oncebox_artifacts DROP CONSTRAINT oncebox_artifacts_kind_check;
ALTER TABLE oncebox_artifacts ADD CONSTRAINT oncebox_artifacts_kind_check
    CHECK (kind IN ('code', 'link', 'message')) NOT VALID;

-- Among the newest of these a wait for messages chooses; proven and unproven ones apart.
CREATE INDEX oncebox_messages_choice ON oncebox_messages (
    inbox_id, (CASE WHEN sender_verdict = 'pass' THEN 1 ELSE 0 END), sequence
) WHERE matched = 1;
-- The messages of a tenant, as those of the default one are by their ids.
CREATE INDEX oncebox_messages_tenant ON oncebox_messages (tenant, id) WHERE tenant <> 'default';
