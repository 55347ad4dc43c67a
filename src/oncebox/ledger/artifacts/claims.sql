-- name: named
-- bulk: id text
-- spans: yes
-- Artifacts with what is needed to grant them: value, owner and policy.
SELECT artifact.message_id, artifact.sequence, artifact.matched, artifact.purpose,
    artifact.sender, artifact.sender_domain, artifact.sender_verdict, artifact.received_at,
    artifact.signed_at, artifact.warnings, artifact.id, artifact.tenant, artifact.inbox_id,
    artifact.attempt_id, artifact.kind,
    CASE WHEN first.state = 'claimed' THEN first.state ELSE artifact.state END, artifact.rank,
    artifact.confidence, artifact.tied, artifact.duplicates, artifact.superseded_by,
    COALESCE(first.claimed_by, artifact.claimed_by),
    COALESCE(first.claim_mark, artifact.claim_mark),
    COALESCE(first.claimed_at, artifact.claimed_at), artifact.releases, artifact.purged_at,
    COALESCE(first.lease_until, artifact.lease_until),
    COALESCE(first.lease_mark, artifact.lease_mark), COALESCE(first.used_at, artifact.used_at),
    artifact.same_as, artifact.sealed, owner, policy
FROM oncebox_artifacts AS artifact
LEFT JOIN oncebox_artifacts AS first ON first.id = artifact.same_as
JOIN oncebox_inboxes ON oncebox_inboxes.id = artifact.inbox_id
    AND oncebox_inboxes.tenant = artifact.tenant
/* and rows */
WHERE artifact.id = :id;

-- name: owners
-- bulk: id text
-- spans: yes
-- The owners of inboxes.
SELECT id, tenant, owner FROM oncebox_inboxes /* and rows */ WHERE id = :id;

-- name: take
-- bulk: id text, tenant text, key_id text, claim_mark bytea, past text, lease_mark bytea
-- spans: yes
-- Give an artifact to a claim and lease it to a worker; a second claim changes nothing, and of one
-- claim the next worker is given it when the lease is over. A superseded one is given only if its
-- successor is still the one that is excluded. The last condition is written so that no partial
-- index fits it: a planner without statistics would scan a whole one.
UPDATE oncebox_artifacts
SET state = 'claimed', claimed_by = :key_id, claim_mark = :claim_mark,
    claimed_at = COALESCE(claimed_at, :now), lease_until = :until, lease_mark = :lease_mark
/* from rows */
WHERE oncebox_artifacts.id = :id AND oncebox_artifacts.tenant = :tenant
    AND (oncebox_artifacts.state = 'available'
        OR (oncebox_artifacts.state = 'superseded' AND superseded_by = :past)
        OR (oncebox_artifacts.state = 'claimed' AND oncebox_artifacts.claim_mark = :claim_mark
            AND used_at IS NULL AND COALESCE(lease_until, 0) <= :now))
    AND (matched <> 0 OR oncebox_artifacts.state = 'claimed') AND COALESCE(purged_at, 0) = 0
RETURNING oncebox_artifacts.id;

-- name: take_same
-- bulk: id text, first_id text, tenant text, key_id text, claim_mark bytea, past text, lease_mark bytea
-- The same for a value that another inbox of the attempt had first: that artifact is claimed.
UPDATE oncebox_artifacts
SET state = 'claimed', claimed_by = :key_id, claim_mark = :claim_mark,
    claimed_at = COALESCE(claimed_at, :now), lease_until = :until, lease_mark = :lease_mark
/* from rows */
WHERE oncebox_artifacts.id = :first_id AND oncebox_artifacts.tenant = :tenant
    AND (oncebox_artifacts.state <> 'claimed'
        OR (oncebox_artifacts.claim_mark = :claim_mark
            AND used_at IS NULL AND COALESCE(lease_until, 0) <= :now))
    AND EXISTS (
        SELECT 1 FROM oncebox_artifacts AS same
        WHERE same.id = :id AND same.same_as = :first_id AND COALESCE(same.purged_at, 0) = 0
            AND (same.state = 'available' OR same.superseded_by = :past
                OR oncebox_artifacts.state = 'claimed')
            AND (same.matched <> 0 OR oncebox_artifacts.state = 'claimed')
    )
RETURNING oncebox_artifacts.id;

-- name: use
-- bulk: id text, tenant text, key_id text
-- Record that the claimant has used artifacts, once; whichever worker says so.
UPDATE oncebox_artifacts SET used_at = COALESCE(used_at, :now)
/* from rows */
WHERE oncebox_artifacts.id = COALESCE(
        (SELECT same.same_as FROM oncebox_artifacts AS same WHERE same.id = :id), :id)
    AND oncebox_artifacts.tenant = :tenant AND state = 'claimed' AND claimed_by = :key_id;

-- name: release
-- Release an artifact from its claim; if there is a newer one it stays superseded.
UPDATE oncebox_artifacts
SET state = CASE WHEN superseded_by IS NULL THEN 'available' ELSE 'superseded' END,
    claimed_by = NULL, claim_mark = NULL, claimed_at = NULL, lease_until = NULL,
    lease_mark = NULL, used_at = NULL, releases = releases + 1
WHERE id = :id AND tenant = :tenant AND state = 'claimed';
