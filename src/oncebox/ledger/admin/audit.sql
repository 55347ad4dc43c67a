-- name: record
-- Write down what a person did, in the commit that did it.
INSERT INTO oncebox_audit (id, tenant, at, who, action, target, why, detail)
VALUES (:id, :tenant, :at, :who, :action, :target, :why, :detail);

-- name: of
-- What people did to one thing.
SELECT at, who, action, why, detail FROM oncebox_audit
WHERE tenant = :tenant AND target = :target ORDER BY id;
