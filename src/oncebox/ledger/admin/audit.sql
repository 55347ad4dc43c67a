-- name: record
-- Record an operator's action, in the same commit.
INSERT INTO oncebox_audit (id, tenant, at, who, action, target, why, detail)
VALUES (:id, :tenant, :at, :who, :action, :target, :why, :detail);

-- name: of
-- The audit records of one object.
SELECT at, who, action, why, detail FROM oncebox_audit
WHERE tenant = :tenant AND target = :target ORDER BY id;
