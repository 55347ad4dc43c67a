-- name: begin
-- Take over a send that was sent without the ledger, whatever its state: its holder gets no marker
-- any more. A send whose outcome the ledger knows as sent or unknown stays, and so does one that an
-- operator has resolved since.
UPDATE oncebox_sends
SET state = 'sending', fence = fence + 1, tries = tries + 1, worker = :worker, claimed_at = :at,
    marked_at = :at, due_at = :now, ended_at = NULL, keep_until = NULL, replay_until = :replay_until
WHERE tenant = :tenant AND id = :id AND in_doubt_at IS NULL
    AND state IN ('pending', 'claimed', 'failed', 'expired', 'cancelled', 'suppressed', 'logged')
    AND (COALESCE(code, '') <> 'resolved' OR ended_at < :at)
RETURNING fence;

-- name: doubt_beside
-- A send that is being transmitted was also sent without the ledger, with unknown outcome: a failure
-- of the one says nothing about the other, and the key may be forgotten earlier than the ledger's
-- own try promised, so it is not replayed.
UPDATE oncebox_sends SET in_doubt_at = :at, replay_until = NULL
WHERE tenant = :tenant AND id = :id AND state = 'sending' AND in_doubt_at IS NULL;
