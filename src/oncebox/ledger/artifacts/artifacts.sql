-- name: insert
-- bulk: id text, tenant text, inbox_id text, attempt_id text, message_id text, sequence bigint, kind text, mark bytea, attempt_mark bytea, sealed bytea, rank bigint, confidence bigint, tied bigint, matching bigint, purpose text, sender text, sender_domain text, sender_org text, sender_verdict text, proven bigint, received_at bigint, signed_at bigint, warnings bytea
-- Insert artifacts, each value once per inbox and kind. A value that another inbox of the attempt
-- has is the same as that one; of two that are inserted at once, the second is skipped.
INSERT INTO oncebox_artifacts (
    id, tenant, inbox_id, attempt_id, message_id, sequence, kind, mark, sealed, state, rank,
    confidence, tied, matched, purpose, sender, sender_domain, sender_org, sender_verdict,
    proven, received_at, signed_at, warnings, attempt_mark, same_as
)
SELECT :id, :tenant, :inbox_id, :attempt_id, :message_id, :sequence, :kind, :mark, :sealed,
    'available', :rank, :confidence, :tied, :matching, :purpose, :sender, :sender_domain,
    :sender_org, :sender_verdict, :proven, :received_at, :signed_at, :warnings, :attempt_mark,
    (
        SELECT first.id FROM oncebox_artifacts AS first
        WHERE first.attempt_mark = :attempt_mark AND first.attempt_mark IS NOT NULL
            AND first.same_as IS NULL
    )
/* from rows */
WHERE true
ON CONFLICT DO NOTHING
RETURNING id, same_as;

-- name: seen_again
-- bulk: inbox_id text, kind text, mark bytea
-- Count a further message with a known value; return whether an earlier one matched.
UPDATE oncebox_artifacts SET duplicates = duplicates + 1
/* from rows */
WHERE oncebox_artifacts.inbox_id = :inbox_id AND oncebox_artifacts.kind = :kind
    AND oncebox_artifacts.mark = :mark
RETURNING oncebox_artifacts.id, matched;

-- name: better
-- bulk: inbox_id text, kind text, mark bytea, message_id text, sequence bigint, rank bigint, confidence bigint, tied bigint, matching bigint, purpose text, sender text, sender_domain text, sender_org text, sender_verdict text, proven bigint, received_at bigint, signed_at bigint, warnings bytea
-- Use the best message of a value: one that matches, whose sender is proven, whose date is
-- signed, the latest. So the result does not depend on the order of filing.
UPDATE oncebox_artifacts
SET message_id = :message_id, sequence = :sequence, rank = :rank, confidence = :confidence,
    tied = :tied, matched = :matching, purpose = :purpose, sender = :sender,
    sender_domain = :sender_domain, sender_org = :sender_org,
    sender_verdict = :sender_verdict, proven = :proven,
    received_at = :received_at, signed_at = :signed_at, warnings = :warnings
/* from rows */
WHERE oncebox_artifacts.inbox_id = :inbox_id AND oncebox_artifacts.kind = :kind
    AND oncebox_artifacts.mark = :mark AND COALESCE(purged_at, 0) = 0
    AND (matched, proven, COALESCE(signed_at, -1), received_at)
        < (:matching, :proven, COALESCE(:signed_at, -1), :received_at);

-- name: newest
-- bulk: inbox_id text, kind text, sender_org text, proven bigint
-- The newest artifacts that match, of any sender or of one, the candidates of a choice; proven and
-- unproven ones apart, so that unproven ones cannot displace the proven.
SELECT :sender_org, found.message_id, found.sequence, found.matched, found.purpose, found.sender,
    found.sender_domain, found.sender_verdict, found.received_at, found.signed_at, found.warnings,
    found.id, found.tenant, found.inbox_id, found.attempt_id, found.kind,
    CASE WHEN first.state = 'claimed' THEN first.state ELSE found.state END, found.rank,
    found.confidence, found.tied, found.duplicates, found.superseded_by,
    COALESCE(first.claimed_by, found.claimed_by), COALESCE(first.claim_mark, found.claim_mark),
    COALESCE(first.claimed_at, found.claimed_at), found.releases, found.purged_at,
    COALESCE(first.lease_until, found.lease_until), COALESCE(first.lease_mark, found.lease_mark),
    COALESCE(first.used_at, found.used_at), found.same_as
FROM /* rows */ /* postgres: , LATERAL */ (
    SELECT * FROM (
        SELECT * FROM oncebox_artifacts AS every
        WHERE every.inbox_id = :inbox_id AND every.kind = :kind AND every.proven = :proven
            AND every.matched = 1 AND COALESCE(every.purged_at, 0) = 0 AND :sender_org = ''
        ORDER BY every.sequence DESC LIMIT :most
    ) AS of_any
    UNION ALL
    SELECT * FROM (
        SELECT * FROM oncebox_artifacts AS own
        WHERE own.inbox_id = :inbox_id AND own.kind = :kind AND own.proven = :proven
            AND own.sender_org = :sender_org
            AND own.matched = 1 AND COALESCE(own.purged_at, 0) = 0 AND :sender_org <> ''
        ORDER BY own.sequence DESC LIMIT :most
    ) AS of_sender
) AS found LEFT JOIN oncebox_artifacts AS first ON first.id = found.same_as;

-- name: stand
-- bulk: id text, state text, superseded_by text, warnings bytea
-- Set the state of an artifact among the others; a claimed one stays claimed.
UPDATE oncebox_artifacts
SET state = CASE WHEN state = 'claimed' THEN state ELSE :state END,
    superseded_by = :superseded_by, warnings = :warnings
/* from rows */
WHERE oncebox_artifacts.id = :id;

-- name: inbox
-- Whether the requester may see an inbox: an agent sees only those that its own key made.
SELECT id FROM oncebox_inboxes
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR owner = CAST(:owner AS TEXT));

-- name: page
-- Artifacts of an inbox, newest first, below an id.
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
    artifact.same_as
FROM oncebox_artifacts AS artifact
LEFT JOIN oncebox_artifacts AS first ON first.id = artifact.same_as
WHERE (artifact.inbox_id, artifact.id) < (:inbox_id, :before) AND artifact.inbox_id >= :inbox_id
    AND artifact.tenant || '' = :tenant
    AND (CAST(:kind AS TEXT) IS NULL OR artifact.kind = :kind)
    AND (CAST(:state AS TEXT) IS NULL
        OR CASE WHEN first.state = 'claimed' THEN first.state ELSE artifact.state END = :state)
ORDER BY artifact.inbox_id DESC, artifact.id DESC LIMIT :most;

-- name: of_messages
-- bulk: message_id text
-- The artifacts that messages became when they were claimed; what identifies a message marks it.
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
    artifact.same_as
FROM oncebox_messages
JOIN oncebox_artifacts AS artifact ON artifact.inbox_id = oncebox_messages.inbox_id
    AND artifact.kind = 'message' AND artifact.mark = oncebox_messages.identity
LEFT JOIN oncebox_artifacts AS first ON first.id = artifact.same_as
/* and rows */
WHERE oncebox_messages.id = :message_id;

-- name: one
-- One artifact, if the requester may see it.
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
    artifact.same_as
FROM oncebox_artifacts AS artifact
LEFT JOIN oncebox_artifacts AS first ON first.id = artifact.same_as
WHERE artifact.id = :id AND artifact.tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM oncebox_inboxes
        WHERE oncebox_inboxes.id = artifact.inbox_id AND owner = CAST(:owner AS TEXT)
    ));
