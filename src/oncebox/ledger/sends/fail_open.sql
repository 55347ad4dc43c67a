-- name: begin
-- Take over a send that was handed over past the ledger, whatever the ledger thought of it: whoever
-- holds it gets no marker any more. What the ledger itself has in doubt, or knows as sent, stays;
-- and so does what a person has said of it since.
UPDATE oncebox_sends
SET state = 'sending', fence = fence + 1, tries = tries + 1, worker = :worker, claimed_at = :at,
    marked_at = :at, due_at = :now, ended_at = NULL, keep_until = NULL
WHERE tenant = :tenant AND id = :id AND in_doubt_at IS NULL
    AND state IN ('pending', 'claimed', 'failed', 'expired', 'cancelled', 'suppressed', 'logged')
    AND (COALESCE(code, '') <> 'resolved' OR ended_at < :at)
RETURNING fence;

-- name: doubt_beside
-- What is on the wire by the ledger's own hand was also handed over past it, and nobody can know:
-- a no to the one says nothing of the other.
UPDATE oncebox_sends SET in_doubt_at = :at
WHERE tenant = :tenant AND id = :id AND state = 'sending' AND in_doubt_at IS NULL;
