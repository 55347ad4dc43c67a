-- name: any
-- bulk: source text
-- Sources that have something to claim: due, or lost by its worker.
SELECT :source
/* from rows */
WHERE EXISTS (
    SELECT 1 FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state IN ('received', 'failed')
        AND due_at IS NOT NULL AND due_at <= :now
) OR EXISTS (
    SELECT 1 FROM oncebox_deliveries
    WHERE tenant = :tenant AND source = :source AND state = 'processing' AND due_at <= :now
);
