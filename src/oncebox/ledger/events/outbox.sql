-- name: record
-- bulk: id text, tenant text, type text, inbox_id text, attempt_id text, subject_id text, at bigint, data bytea
-- Record events. They have no number yet: one counter in every commit would make all commits of
-- a tenant wait for each other.
INSERT INTO oncebox_events (id, tenant, type, inbox_id, attempt_id, subject_id, at, data)
VALUES (:id, :tenant, :type, :inbox_id, :attempt_id, :subject_id, :at, :data)
/* from rows */;
