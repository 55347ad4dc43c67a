-- name: resolve_sent
-- A person says that a send in doubt was sent.
UPDATE oncebox_sends
SET state = 'sent', fence = fence + 1, due_at = NULL, again = NULL, in_doubt_at = NULL,
    ended_at = :now, keep_until = :now + kept_for, code = 'resolved',
    provider_id = CASE WHEN :provider_id = '' THEN provider_id ELSE :provider_id END
WHERE tenant = :tenant AND id = :id
    AND (state = 'unknown' OR (state = 'sending' AND due_at <= :now));

-- name: resolve_not_sent
-- A person says that a send in doubt was not sent; a repeat of the intent arms it again.
UPDATE oncebox_sends
SET state = 'failed', fence = fence + 1, epoch = epoch + 1, due_at = NULL, again = NULL,
    in_doubt_at = NULL, replay_until = NULL, ended_at = :now, keep_until = :now + kept_for,
    code = 'resolved'
WHERE tenant = :tenant AND id = :id
    AND (state = 'unknown' OR (state = 'sending' AND due_at <= :now));

-- name: cancel
-- Call off a send of which nothing was ever on the wire; whoever has claimed it gets no marker.
UPDATE oncebox_sends
SET state = 'cancelled', fence = fence + 1, due_at = NULL, ended_at = :now,
    keep_until = :now + kept_for, code = 'cancelled'
WHERE tenant = :tenant AND id = :id AND (CAST(:owner AS TEXT) IS NULL OR owner = :owner)
    AND state IN ('pending', 'claimed') AND in_doubt_at IS NULL;

-- name: rearm
-- Arm a send again that is proven not sent and whose words are still kept.
UPDATE oncebox_sends
SET state = 'pending', fence = fence + 1, epoch = epoch + 1, rearms = rearms + 1, tries = 0,
    due_at = :now, send_at = NULL,
    valid_until = CASE WHEN valid_until <= :now THEN NULL ELSE valid_until END,
    ended_at = NULL, keep_until = NULL, code = NULL, phase = NULL, reply = 0,
    worker = NULL, claimed_at = NULL, marked_at = NULL, replay_until = NULL
WHERE tenant = :tenant AND id = :id AND purged_at IS NULL
    AND state IN ('failed', 'expired', 'cancelled', 'suppressed');

-- name: repeat
-- Let a send in doubt be handed over once more, because a person says so. What was handed over past
-- the ledger may be in doubt although its words are no longer kept.
UPDATE oncebox_sends
SET again = 'resend', due_at = :now, tries = 0,
    valid_until = CASE WHEN valid_until <= :now THEN NULL ELSE valid_until END
WHERE tenant = :tenant AND id = :id AND state = 'unknown' AND purged_at IS NULL;
