-- name: named
-- bulk: id text
-- spans: yes
-- Artifacts with what is needed to grant them: value, owner and policy.
SELECT message_id, sequence, oncebox_artifacts.matched, purpose, sender, sender_domain,
    sender_verdict, received_at, signed_at, warnings, oncebox_artifacts.id, oncebox_artifacts.tenant, inbox_id,
    oncebox_artifacts.attempt_id, kind, oncebox_artifacts.state, rank, confidence, tied,
    oncebox_artifacts.duplicates, superseded_by, claimed_by, claim_mark, claimed_at, releases,
    purged_at, sealed, owner, policy
FROM oncebox_artifacts
JOIN oncebox_inboxes ON oncebox_inboxes.id = oncebox_artifacts.inbox_id
    AND oncebox_inboxes.tenant = oncebox_artifacts.tenant
/* and rows */
WHERE oncebox_artifacts.id = :id;

-- name: owners
-- bulk: id text
-- spans: yes
-- The owners of inboxes.
SELECT id, tenant, owner FROM oncebox_inboxes /* and rows */ WHERE id = :id;

-- name: take
-- bulk: id text, tenant text, key_id text, claim_mark bytea, past text
-- spans: yes
-- Give an artifact to a claim; a second claim changes nothing. A superseded one is given only if
-- its successor is still the one that is excluded. The last conditions are written so that no
-- partial index fits them: a planner without statistics would scan a whole one.
UPDATE oncebox_artifacts
SET state = 'claimed', claimed_by = :key_id, claim_mark = :claim_mark, claimed_at = :now
/* from rows */
WHERE oncebox_artifacts.id = :id AND oncebox_artifacts.tenant = :tenant
    AND (oncebox_artifacts.state = 'available'
        OR (oncebox_artifacts.state = 'superseded' AND superseded_by = :past))
    AND matched <> 0 AND COALESCE(purged_at, 0) = 0
RETURNING oncebox_artifacts.id;

-- name: release
-- Release an artifact from its claim; if there is a newer one it stays superseded.
UPDATE oncebox_artifacts
SET state = CASE WHEN superseded_by IS NULL THEN 'available' ELSE 'superseded' END,
    claimed_by = NULL, claim_mark = NULL, claimed_at = NULL, releases = releases + 1
WHERE id = :id AND tenant = :tenant AND state = 'claimed';
