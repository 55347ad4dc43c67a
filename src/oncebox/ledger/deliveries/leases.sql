-- name: open
-- Refill the allowance of a source, up to one second's worth. The row is locked for other claims
-- of this source until the commit, so that two never use the same allowance.
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
-- The number of deliveries of a source in progress, including lost ones, which may still run.
SELECT COUNT(*) FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND state = 'processing';

-- name: take
-- Take from the allowance, never more than there is.
UPDATE oncebox_gates SET allowance = allowance - :taken
WHERE tenant = :tenant AND source = :source AND allowance >= :taken;

-- name: due
-- only: sqlite
-- Claimable deliveries, oldest first, with everything a handler needs. The floor is only a hint:
-- the next query without one finds what is before it. Large bodies are fetched separately, and so
-- are batches, once for all their elements; a mail to several inboxes is stored whole for each.
SELECT due.id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    COALESCE(give_up_at + (:now - due_at), :give_up_at), size,
    headers, CASE WHEN size <= 65536 AND (payload_id = due.id OR source = '@mail') THEN body END,
    verdict, sequence, payload_id, slice_start
FROM oncebox_deliveries AS due LEFT JOIN oncebox_payloads AS payload ON payload.id = payload_id
WHERE tenant = :tenant AND source = :source AND heavy = :heavy
    AND state IN ('received', 'failed')
    AND due_at IS NOT NULL AND due_at >= :floor AND due_at <= :now
ORDER BY due_at LIMIT :most;

-- name: lease
-- only: sqlite
-- bulk: id text, fence bigint, give_up_at bigint
-- spans: yes
-- Claim: count the try, raise the fence, start or continue the time budget. Time in the queue
-- does not count against it. The last condition is written so that the index of claimable
-- deliveries does not fit: a planner without statistics would read all of it.
UPDATE oncebox_deliveries
SET state = 'processing', fence = fence + 1, tries = tries + 1, worker = :worker,
    claimed_at = :now, give_up_at = :give_up_at, due_at = :until
/* from rows */
WHERE id = :id AND fence = :fence AND state IN ('received', 'failed')
    AND COALESCE(due_at, CAST(:now AS BIGINT) + 1) <= :now;

-- name: claim
-- only: postgres
-- `due` and `lease` in one statement, up to a total size, but always the first; the last column is
-- how many were due. A locked row stays in its place, by which it is found, and a payload is looked up
-- for each (`OFFSET 0`): joined by id, a thousand rows would make the planner read whole tables.
WITH due AS MATERIALIZED (
    SELECT ctid AS place, fence AS seen_fence, size AS own_size, payload_id AS own_payload,
        COALESCE(give_up_at + (:now - due_at), :give_up_at) AS gives_up_at
    FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND heavy = :heavy
        AND state IN ('received', 'failed')
        AND due_at IS NOT NULL AND due_at >= :floor AND due_at <= :now
    ORDER BY due_at LIMIT :most FOR UPDATE SKIP LOCKED
),
wanted AS (SELECT *, SUM(own_size) OVER (ROWS UNBOUNDED PRECEDING) AS total FROM due)
UPDATE oncebox_deliveries AS leased
SET state = 'processing', fence = fence + 1, tries = tries + 1, worker = :worker,
    claimed_at = :now, give_up_at = gives_up_at, due_at = :until
FROM wanted LEFT JOIN LATERAL (
    SELECT headers, body FROM oncebox_payloads AS stored WHERE stored.id = own_payload OFFSET 0
) AS payload ON TRUE
WHERE leased.ctid = place AND fence = seen_fence AND state IN ('received', 'failed')
    AND (total <= :bytes OR total = own_size)
RETURNING id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    give_up_at, size,
    headers, CASE WHEN size <= 65536 AND (payload_id = id OR source = '@mail') THEN body END,
    verdict, sequence, payload_id, slice_start, (SELECT COUNT(*) FROM due);

-- name: payload
-- Headers and body, fetched only for claimed deliveries.
SELECT headers, body FROM oncebox_payloads WHERE id = :id;

-- name: expired
-- One delivery whose lease expired without a heartbeat. Its time budget is measured at the end of
-- the lease, since no try ran after that.
SELECT id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    give_up_at + (:now - due_at), size, NULL, NULL, verdict, sequence, payload_id, slice_start
FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND heavy = :heavy AND state = 'processing'
    AND due_at >= :floor AND due_at <= :now
    AND tries < :tries AND give_up_at > due_at
ORDER BY due_at LIMIT 1 /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: lost_once
-- The same for many, except those that lost a worker before: one of them may be a poison message.
-- Each has a try left after this one, so that the others survive a poison message among them.
SELECT id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    give_up_at + (:now - due_at), size, NULL, NULL, verdict, sequence, payload_id, slice_start
FROM oncebox_deliveries AS lost
WHERE tenant = :tenant AND source = :source AND heavy = :heavy AND state = 'processing'
    AND due_at <= :now
    AND tries + 1 < :tries AND give_up_at > due_at
    AND NOT EXISTS (SELECT 1 FROM oncebox_tries WHERE delivery_id = lost.id AND outcome = 'lost')
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: lease_expired
-- bulk: id text, fence bigint, give_up_at bigint
-- Claim it from the lost worker, which can no longer settle because the fence has moved on.
UPDATE oncebox_deliveries
SET fence = fence + 1, tries = tries + 1, worker = :worker, claimed_at = :now,
    give_up_at = :give_up_at, due_at = :until
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence AND due_at <= :now;

-- name: leased_to
-- The deliveries one worker holds.
SELECT id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    give_up_at, size, NULL, NULL, verdict, sequence, payload_id, slice_start
FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND heavy = :heavy AND state = 'processing'
    AND worker = :worker;

-- name: as_claimed
-- bulk: id text
-- Deliveries with everything a handler needs.
SELECT id, tenant, source, key, variant, type, lane, late, policy, fence, tries, received_at,
    give_up_at, size, NULL, NULL, verdict, sequence, payload_id, slice_start
FROM oncebox_deliveries /* and rows */ WHERE id = :id AND tenant = :tenant;

-- name: hopeless
-- Deliveries whose lease expired on their last try or after their time budget.
SELECT id, fence, tenant, source, lane, tries FROM oncebox_deliveries
WHERE tenant = :tenant AND source = :source AND state = 'processing'
    AND due_at >= :floor AND due_at <= :now
    AND (tries >= :tries OR give_up_at <= due_at)
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: bury
-- bulk: id text, fence bigint, outcome text
-- Give up on a delivery whose worker was lost.
UPDATE oncebox_deliveries
SET state = 'dead', due_at = NULL, outcome = :outcome, ended_at = :now,
    last_error = 'the worker died or froze while handling it'
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence AND due_at <= :now
RETURNING id;

-- name: record_lost
-- bulk: id text, fence bigint
-- Record the try that ended with a lost lease.
INSERT INTO oncebox_tries (delivery_id, fence, tenant, worker, claimed_at, ended_at, outcome, error)
SELECT id, fence, tenant, worker, claimed_at, :now, 'lost', NULL
FROM oncebox_deliveries /* and rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence
ON CONFLICT DO NOTHING;

-- name: renew
-- bulk: id text, fence bigint
-- spans: yes
-- Extend the leases that are still ours.
UPDATE oncebox_deliveries SET due_at = :until
/* from rows */
WHERE id = :id AND state || '' = 'processing' AND fence = :fence;

-- name: holders
-- bulk: id text
-- spans: yes
-- The current holders of leases.
SELECT id, fence, worker FROM oncebox_deliveries /* and rows */ WHERE id = :id AND state || '' = 'processing';

-- name: any
-- bulk: source text
-- Sources of webhooks with claimable deliveries: due, or lost by their worker. Not EXISTS, for which
-- PostgreSQL may read all due deliveries at once.
SELECT :source
/* from rows */
WHERE COALESCE((
    SELECT 1 FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND heavy = 0 AND state IN ('received', 'failed')
        AND due_at IS NOT NULL AND due_at <= :now
    LIMIT 1
), (
    SELECT 1 FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state = 'processing' AND due_at <= :now
    LIMIT 1
)) = 1;

-- name: announce
-- bulk: tenant text, source text
-- Record that a program has handlers for sources.
INSERT INTO oncebox_handled (tenant, source, seen_at)
SELECT :tenant, :source, CAST(:now AS BIGINT) /* from rows */
WHERE 1 = 1
ON CONFLICT (tenant, source) DO UPDATE SET seen_at = excluded.seen_at;

-- name: since
-- The sources that a program has had handlers for since a given time.
SELECT tenant, source FROM oncebox_handled WHERE seen_at >= :at;
