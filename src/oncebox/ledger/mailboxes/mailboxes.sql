-- name: add
-- Store a new mailbox, unless its name is known; it is due at once.
INSERT INTO oncebox_mailboxes (id, tenant, name, kind, account, config, address, authserv, origin, inbox_id,
    poll_every, push_source, poll_after, due_at, created_at, changed_at)
VALUES (:id, :tenant, :name, :kind, :account, :config, :address, :authserv, :origin, :inbox_id,
    :poll_every, :push_source, :poll_after, :now, :now, :now)
ON CONFLICT DO NOTHING;

-- name: change
-- Replace the configuration. The fence rises, so that a worker with the old one writes no more. The
-- cursor of another account means nothing: reading begins again.
UPDATE oncebox_mailboxes
SET kind = :kind, account = :account, config = :config, address = :address,
    authserv = :authserv, origin = :origin, inbox_id = :inbox_id,
    poll_every = :poll_every, push_source = :push_source, poll_after = :poll_after,
    fence = fence + 1, worker = NULL, failures = 0, refusals = 0, failure = NULL, failed_at = NULL,
    cursor = CASE WHEN :moved = 1 THEN NULL ELSE cursor END,
    cursor_version = CASE WHEN :moved = 1 THEN 0 ELSE cursor_version END,
    due_at = CASE WHEN paused = 'operator' THEN NULL ELSE CAST(:now AS BIGINT) END,
    paused = CASE WHEN paused = 'operator' THEN paused END,
    changed_at = CASE WHEN changed_at < :now THEN CAST(:now AS BIGINT) ELSE changed_at + 1 END
WHERE tenant = :tenant AND name = :name AND changed_at = :seen;

-- name: store_config
-- Replace the configuration by one with a new token; only the holder of the lease may. It counts as
-- a change, so that a change that began before does not bring the old token back.
UPDATE oncebox_mailboxes
SET config = :config,
    changed_at = CASE WHEN changed_at < :now THEN CAST(:now AS BIGINT) ELSE changed_at + 1 END
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL;

-- name: replace_config
-- Replace the configuration by one with a new token that nobody with a lease fetched. The fence
-- rises, so that a worker with the old one reads it again.
UPDATE oncebox_mailboxes
SET config = :config, fence = fence + 1, worker = NULL,
    due_at = CASE WHEN due_at IS NOT NULL THEN CAST(:now AS BIGINT) END,
    changed_at = CASE WHEN changed_at < :now THEN CAST(:now AS BIGINT) ELSE changed_at + 1 END
WHERE tenant = :tenant AND name = :name AND changed_at = :seen;

-- name: pause
-- Stop reading; the fence rises, so that the worker that reads it stores no further page.
UPDATE oncebox_mailboxes
SET paused = 'operator', due_at = NULL, worker = NULL, fence = fence + 1, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: resume
-- Read again at once, after a pause or a failure.
UPDATE oncebox_mailboxes
SET paused = NULL, due_at = :now, worker = NULL, fence = fence + 1, failures = 0, refusals = 0,
    failure = NULL, failed_at = NULL, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: resync
-- Forget the cursor; what is read again is recognised.
UPDATE oncebox_mailboxes
SET cursor = NULL, cursor_version = cursor_version + 1, fence = fence + 1, worker = NULL,
    due_at = CASE WHEN paused IS NULL THEN CAST(:now AS BIGINT) END, changed_at = :now
WHERE tenant = :tenant AND name = :name;

-- name: remove
-- Forget a mailbox.
DELETE FROM oncebox_mailboxes WHERE tenant = :tenant AND name = :name RETURNING id;

-- name: forget_mails
-- The server's ids of a mailbox that was removed, some at a time.
DELETE FROM oncebox_mailbox_mails WHERE mailbox_id = :mailbox_id;

-- name: one
-- One mailbox.
SELECT id, tenant, name, kind, account, config, address, authserv, origin, inbox_id, poll_every, push_source,
    poll_after, cursor, cursor_version, paused, due_at, fence, worker, failures, failure, failed_at, polled_at,
    succeeded_at, remaining, first_message_at, created_at, changed_at, polls, messages, duplicates, replays, skipped,
    unrouted, resyncs, lease_conflicts, timeouts
FROM oncebox_mailboxes WHERE tenant = :tenant AND name = :name;

-- name: of_tenant
-- The mailboxes of a tenant, by name.
SELECT id, tenant, name, kind, account, config, address, authserv, origin, inbox_id, poll_every, push_source,
    poll_after, cursor, cursor_version, paused, due_at, fence, worker, failures, failure, failed_at, polled_at,
    succeeded_at, remaining, first_message_at, created_at, changed_at, polls, messages, duplicates, replays, skipped,
    unrouted, resyncs, lease_conflicts, timeouts
FROM oncebox_mailboxes WHERE tenant = :tenant AND name > :after ORDER BY name LIMIT :most;

-- name: progress
-- How far the reading of all mailboxes is.
SELECT tenant, name, kind, origin, paused, succeeded_at, remaining, poll_every, poll_after,
    pushed_at, changed_at
FROM oncebox_mailboxes ORDER BY tenant, name LIMIT :most;

-- name: inbox
-- An inbox of a tenant, which a mailbox may be bound to.
SELECT id FROM oncebox_inboxes WHERE id = :inbox_id AND tenant = :tenant;

-- name: due
-- Mailboxes of the database that may be claimed, the longest due first; those of programs are polled
-- by them.
SELECT id, tenant, fence FROM oncebox_mailboxes
WHERE due_at IS NOT NULL AND due_at <= :now AND kind <> 'program' AND origin = 'database'
ORDER BY due_at LIMIT :most /* postgres: FOR UPDATE SKIP LOCKED */;

-- name: due_declared
-- bulk: tenant text, name text
-- Mailboxes of the settings that may be claimed.
SELECT oncebox_mailboxes.id, oncebox_mailboxes.tenant, oncebox_mailboxes.fence
FROM oncebox_mailboxes /* and rows */
WHERE tenant = :tenant AND name = :name AND origin = 'file'
    AND due_at IS NOT NULL AND due_at <= :now;

-- name: lease
-- bulk: id text, tenant text, fence bigint
-- Claim: raise the fence. A lease that ended without a release is counted as a conflict.
UPDATE oncebox_mailboxes
SET fence = fence + 1, worker = :worker, due_at = :until,
    lease_conflicts = lease_conflicts + CASE WHEN worker IS NULL THEN 0 ELSE 1 END
/* from rows */
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL AND due_at <= :now
RETURNING id, tenant, name, kind, account, config, address, authserv, origin, inbox_id, poll_every, push_source,
    poll_after, cursor, cursor_version, paused, due_at, fence, worker, failures, failure, failed_at, polled_at,
    succeeded_at, remaining, first_message_at, created_at, changed_at, polls, messages, duplicates, replays, skipped,
    unrouted, resyncs, lease_conflicts, timeouts;

-- name: renew
-- bulk: id text, tenant text, fence bigint
-- Extend leases that are still held.
UPDATE oncebox_mailboxes SET due_at = :until
/* from rows */
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL
RETURNING id, :fence;

-- name: release
-- bulk: id text, tenant text, fence bigint, due_at bigint
-- Give leases back.
UPDATE oncebox_mailboxes SET worker = NULL, due_at = :due_at
/* from rows */
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL;

-- name: fail
-- Count a failure and give the lease back; pause after so many consecutive refusals.
UPDATE oncebox_mailboxes
SET failures = failures + 1, failure = :code, failed_at = :now, polled_at = :now, worker = NULL,
    polls = polls + 1, refusals = CASE WHEN :refused = 1 THEN refusals + 1 ELSE 0 END,
    paused = CASE WHEN :refused = 1 AND refusals + 1 >= :most THEN CAST(:code AS TEXT) END,
    due_at = CASE WHEN :refused = 0 OR refusals + 1 < :most THEN CAST(:due_at AS BIGINT) END
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL
RETURNING name, kind, inbox_id, paused;

-- name: advance
-- Store the cursor of a page with its mails; only the holder of the lease may. The version makes
-- a page that was stored already, in a commit whose answer was lost, visible.
UPDATE oncebox_mailboxes
SET cursor = :cursor, cursor_version = cursor_version + 1, polled_at = :now, succeeded_at = :now,
    failures = 0, refusals = 0, failure = NULL, failed_at = NULL, polls = polls + :polls,
    remaining = :remaining,
    replays = replays + :repeated,
    skipped = skipped + :skipped, unrouted = unrouted + :unrouted, resyncs = resyncs + :resyncs
WHERE id = :id AND tenant = :tenant AND fence = :fence AND cursor_version = :version
    AND due_at IS NOT NULL
RETURNING cursor_version;

-- name: push
-- Note that a webhook brought mail, at most once a second.
UPDATE oncebox_mailboxes SET pushed_at = :now
WHERE tenant = :tenant AND push_source = :source AND push_source IS NOT NULL
    AND (pushed_at IS NULL OR pushed_at <= CAST(:now AS BIGINT) - 1000);

-- name: pushed
-- When a webhook last brought mail; only for the holder of the lease.
SELECT pushed_at FROM oncebox_mailboxes
WHERE id = :id AND tenant = :tenant AND fence = :fence AND due_at IS NOT NULL;

-- name: position
-- The holder and the cursor of a mailbox.
SELECT fence, cursor_version, cursor FROM oncebox_mailboxes WHERE id = :id AND tenant = :tenant;

-- name: known
-- bulk: mailbox_id text, digest bytea
-- Which of these mails were stored before.
SELECT oncebox_mailbox_mails.digest FROM oncebox_mailbox_mails /* and rows */
WHERE mailbox_id = :mailbox_id AND digest = :digest;

-- name: record
-- bulk: mailbox_id text, digest bytea, read_at bigint
-- Remember the ids of mails that are stored.
INSERT INTO oncebox_mailbox_mails (mailbox_id, digest, read_at)
VALUES (:mailbox_id, :digest, :read_at)
/* from rows */
ON CONFLICT DO NOTHING;

-- name: count
-- Count what became of the mails of a page.
UPDATE oncebox_mailboxes
SET messages = messages + :messages, duplicates = duplicates + :duplicates,
    replays = replays + :replays,
    first_message_at = COALESCE(first_message_at, CASE WHEN :messages > 0 THEN CAST(:now AS BIGINT) END)
WHERE id = :id AND tenant = :tenant;
