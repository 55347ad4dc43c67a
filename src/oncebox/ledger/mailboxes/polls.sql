-- name: create
-- Store a mailbox for the loop of a program, unless its name is known.
INSERT INTO oncebox_mailboxes (id, tenant, name, kind, account, config, address, authserv,
    poll_every, poll_after, due_at, created_at, changed_at)
VALUES (:id, :tenant, :name, 'program', :account, :config, '', '', 0, 0, :now, :now, :now)
ON CONFLICT DO NOTHING;

-- name: begin
-- Lease a mailbox that is due; a repeat by the same worker gets the lease that it has. A lease that
-- ended without a release is counted as a conflict.
UPDATE oncebox_mailboxes
SET fence = fence + CASE WHEN worker = :worker AND due_at > :now THEN 0 ELSE 1 END,
    lease_conflicts = lease_conflicts + CASE WHEN worker <> :worker THEN 1 ELSE 0 END,
    worker = :worker, due_at = :until
WHERE tenant = :tenant AND name = :name AND kind = 'program' AND due_at IS NOT NULL
    AND (due_at <= :now OR worker = :worker)
RETURNING fence, cursor, cursor_version;

-- name: standing
-- Why a mailbox cannot be leased.
SELECT kind, paused, worker, due_at FROM oncebox_mailboxes WHERE tenant = :tenant AND name = :name;

-- name: conflict
-- Count a loop that found the mailbox in use.
UPDATE oncebox_mailboxes SET lease_conflicts = lease_conflicts + 1
WHERE tenant = :tenant AND name = :name;

-- name: holder
-- A mailbox, for the holder of its lease only.
SELECT id, failures, messages, created_at FROM oncebox_mailboxes
WHERE tenant = :tenant AND name = :name AND kind = 'program' AND fence = :fence
    AND due_at IS NOT NULL;

-- name: renew
-- Extend a lease that is still held.
UPDATE oncebox_mailboxes SET due_at = :until
WHERE tenant = :tenant AND name = :name AND kind = 'program' AND fence = :fence
    AND due_at IS NOT NULL;

-- name: end
-- Give a lease back; count a deadline that passed without a message.
UPDATE oncebox_mailboxes SET worker = NULL, due_at = :now, timeouts = timeouts + :timeouts
WHERE tenant = :tenant AND name = :name AND kind = 'program' AND fence = :fence
    AND due_at IS NOT NULL AND worker IS NOT NULL;

-- name: arrange
-- bulk: id text, due_at bigint
-- Make the new messages of a page due in the order of the list.
UPDATE oncebox_deliveries SET due_at = :due_at
/* from rows */
WHERE id = :id AND state || '' = 'received' AND due_at IS NOT NULL;
