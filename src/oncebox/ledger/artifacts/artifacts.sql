-- name: insert
-- bulk: id text, tenant text, inbox_id text, attempt_id text, message_id text, sequence bigint, kind text, mark bytea, sealed bytea, rank bigint, confidence bigint, tied bigint, matching bigint, purpose text, sender text, sender_domain text, sender_verdict text, proven bigint, received_at bigint, signed_at bigint, warnings bytea
-- Insert artifacts, each value once per inbox and kind.
INSERT INTO oncebox_artifacts (
    id, tenant, inbox_id, attempt_id, message_id, sequence, kind, mark, sealed, state, rank,
    confidence, tied, matched, purpose, sender, sender_domain, sender_verdict, proven,
    received_at, signed_at, warnings
)
SELECT :id, :tenant, :inbox_id, :attempt_id, :message_id, :sequence, :kind, :mark, :sealed,
    'available', :rank, :confidence, :tied, :matching, :purpose, :sender, :sender_domain,
    :sender_verdict, :proven, :received_at, :signed_at, :warnings
/* from rows */
WHERE true
ON CONFLICT (inbox_id, kind, mark) DO NOTHING
RETURNING id;

-- name: seen_again
-- bulk: inbox_id text, kind text, mark bytea
-- Count a further message with a known value; return whether an earlier one matched.
UPDATE oncebox_artifacts SET duplicates = duplicates + 1
/* from rows */
WHERE oncebox_artifacts.inbox_id = :inbox_id AND oncebox_artifacts.kind = :kind
    AND oncebox_artifacts.mark = :mark
RETURNING oncebox_artifacts.id, matched;

-- name: better
-- bulk: inbox_id text, kind text, mark bytea, message_id text, sequence bigint, rank bigint, confidence bigint, tied bigint, matching bigint, purpose text, sender text, sender_domain text, sender_verdict text, proven bigint, received_at bigint, signed_at bigint, warnings bytea
-- Use the best message of a value: one that matches, whose sender is proven, whose date is
-- signed, the latest. So the result does not depend on the order of filing.
UPDATE oncebox_artifacts
SET message_id = :message_id, sequence = :sequence, rank = :rank, confidence = :confidence,
    tied = :tied, matched = :matching, purpose = :purpose, sender = :sender,
    sender_domain = :sender_domain, sender_verdict = :sender_verdict, proven = :proven,
    received_at = :received_at, signed_at = :signed_at, warnings = :warnings
/* from rows */
WHERE oncebox_artifacts.inbox_id = :inbox_id AND oncebox_artifacts.kind = :kind
    AND oncebox_artifacts.mark = :mark AND COALESCE(purged_at, 0) = 0
    AND (matched, proven, COALESCE(signed_at, -1), received_at)
        < (:matching, :proven, COALESCE(:signed_at, -1), :received_at);

-- name: newest
-- bulk: inbox_id text, kind text, proven bigint
-- The newest artifacts that match, the candidates of a choice; proven and unproven ones apart, so
-- that unproven ones cannot displace the proven.
SELECT found.* FROM /* rows */ /* postgres: , LATERAL */ (
    SELECT message_id, sequence, matched, purpose, sender, sender_domain, sender_verdict,
        received_at, signed_at, warnings, id, tenant, oncebox_artifacts.inbox_id AS inbox_id,
        attempt_id, oncebox_artifacts.kind AS kind, state, rank, confidence, tied, duplicates,
        superseded_by, claimed_by, claim_mark, claimed_at, releases, purged_at
    FROM oncebox_artifacts
    WHERE oncebox_artifacts.inbox_id = :inbox_id AND oncebox_artifacts.kind = :kind
        AND oncebox_artifacts.proven = :proven AND matched = 1 AND COALESCE(purged_at, 0) = 0
    ORDER BY sequence DESC LIMIT :most
) AS found;

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
SELECT message_id, sequence, matched, purpose, sender, sender_domain, sender_verdict,
    received_at, signed_at, warnings, id, tenant, inbox_id, attempt_id, kind, state, rank,
    confidence, tied, duplicates, superseded_by, claimed_by, claim_mark, claimed_at, releases,
    purged_at
FROM oncebox_artifacts
WHERE (inbox_id, id) < (:inbox_id, :before) AND inbox_id >= :inbox_id
    AND tenant || '' = :tenant
    AND (CAST(:kind AS TEXT) IS NULL OR kind = :kind)
    AND (CAST(:state AS TEXT) IS NULL OR state = :state)
ORDER BY inbox_id DESC, id DESC LIMIT :most;

-- name: one
-- One artifact, if the requester may see it.
SELECT message_id, sequence, matched, purpose, sender, sender_domain, sender_verdict,
    received_at, signed_at, warnings, id, tenant, inbox_id, attempt_id, kind, state, rank,
    confidence, tied, duplicates, superseded_by, claimed_by, claim_mark, claimed_at, releases,
    purged_at
FROM oncebox_artifacts
WHERE id = :id AND tenant = :tenant
    AND (CAST(:owner AS TEXT) IS NULL OR EXISTS (
        SELECT 1 FROM oncebox_inboxes
        WHERE oncebox_inboxes.id = inbox_id AND owner = CAST(:owner AS TEXT)
    ));
