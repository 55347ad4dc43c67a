-- name: open
-- Refill what may be begun, up to one second's worth. The row is the lock of all who claim from
-- this source until the commit, so that two never take the same room.
INSERT INTO oncebox_gates (tenant, source, allowance, refilled_at)
VALUES (:tenant, :source, :most, :now)
ON CONFLICT (tenant, source) DO UPDATE
SET allowance = CASE
        WHEN :now <= oncebox_gates.refilled_at THEN
            CASE WHEN oncebox_gates.allowance < :most THEN oncebox_gates.allowance ELSE :most END
        WHEN oncebox_gates.allowance + (:now - oncebox_gates.refilled_at) * :rate < :most
            THEN oncebox_gates.allowance + (:now - oncebox_gates.refilled_at) * :rate
        ELSE :most
    END,
    refilled_at = :now
RETURNING allowance;

-- name: in_work
-- How much of a source is being worked on, lost work included: it may still go on somewhere.
SELECT COUNT(*) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND state = 'processing';

-- name: take
-- Take from what may be begun; never more than is there.
UPDATE oncebox_gates SET allowance = allowance - :taken
WHERE tenant = :tenant AND source = :source AND allowance >= :taken;
