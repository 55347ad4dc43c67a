-- Mailboxes on other servers that are read into inboxes.
CREATE TABLE oncebox_mailboxes (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- where it is written: database, by command or API; file, in the settings
    origin TEXT NOT NULL DEFAULT 'database',
    -- the server and the account, without secrets
    account TEXT NOT NULL,
    -- encrypted
    config BLOB NOT NULL,
    -- its own mail address, and the server whose Authentication-Results count; empty: unknown, none
    address TEXT NOT NULL,
    authserv TEXT NOT NULL,
    -- the inbox of all its mail; none: by recipient
    inbox_id TEXT,
    poll_every INTEGER NOT NULL,
    push_source TEXT,
    poll_after INTEGER NOT NULL,
    -- when a webhook last brought mail of it
    pushed_at INTEGER,
    -- what the reader continues after; it is never ahead of the mails that are stored
    cursor TEXT,
    cursor_version INTEGER NOT NULL DEFAULT 0,
    -- operator, or the code of a failure
    paused TEXT,
    -- when it may be claimed; while it is leased, the end of the lease; none while it is paused
    due_at INTEGER,
    fence INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    failures INTEGER NOT NULL DEFAULT 0,
    failure TEXT,
    failed_at INTEGER,
    polled_at INTEGER,
    succeeded_at INTEGER,
    remaining INTEGER,
    first_message_at INTEGER,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    polls INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0,
    replays INTEGER NOT NULL DEFAULT 0,
    skipped INTEGER NOT NULL DEFAULT 0,
    unrouted INTEGER NOT NULL DEFAULT 0,
    resyncs INTEGER NOT NULL DEFAULT 0,
    lease_conflicts INTEGER NOT NULL DEFAULT 0,
    -- deadlines of programs that passed without a message
    timeouts INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, name),
    CHECK ((paused IS NULL) = (due_at IS NOT NULL))
) STRICT, WITHOUT ROWID;
-- Workers of the service claim the mailboxes that the service reads.
CREATE INDEX oncebox_mailboxes_due ON oncebox_mailboxes (due_at)
    WHERE due_at IS NOT NULL AND kind <> 'program';

CREATE INDEX oncebox_mailboxes_push ON oncebox_mailboxes (tenant, push_source)
    WHERE push_source IS NOT NULL;

-- The mails of a mailbox that were stored, by the server's id.
CREATE TABLE oncebox_mailbox_mails (
    mailbox_id TEXT NOT NULL,
    -- 16 bytes of the SHA-256 of the server's id
    digest BLOB NOT NULL,
    read_at INTEGER NOT NULL,
    PRIMARY KEY (mailbox_id, digest)
) STRICT, WITHOUT ROWID;
