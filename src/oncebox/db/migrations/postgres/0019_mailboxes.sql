-- Mailboxes on other servers that are read into inboxes.
CREATE TABLE oncebox_mailboxes (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL,
    -- where it is written: database, by command or API; file, in the settings
    origin TEXT NOT NULL DEFAULT 'database',
    -- the server and the account, without secrets
    account TEXT NOT NULL,
    -- encrypted
    config BYTEA NOT NULL,
    -- its own mail address, and the server whose Authentication-Results count; empty: unknown, none
    address TEXT NOT NULL,
    authserv TEXT NOT NULL,
    -- the inbox of all its mail; none: by recipient
    inbox_id TEXT COLLATE "C",
    poll_every BIGINT NOT NULL,
    push_source TEXT COLLATE "C",
    poll_after BIGINT NOT NULL,
    -- when a webhook last brought mail of it
    pushed_at BIGINT,
    -- what the reader continues after; it is never ahead of the mails that are stored
    cursor TEXT,
    cursor_version BIGINT NOT NULL DEFAULT 0,
    -- operator, or the code of a failure
    paused TEXT,
    -- when it may be claimed; while it is leased, the end of the lease; none while it is paused
    due_at BIGINT,
    fence BIGINT NOT NULL DEFAULT 0,
    worker TEXT,
    failures BIGINT NOT NULL DEFAULT 0,
    failure TEXT,
    failed_at BIGINT,
    polled_at BIGINT,
    succeeded_at BIGINT,
    remaining BIGINT,
    first_message_at BIGINT,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    polls BIGINT NOT NULL DEFAULT 0,
    messages BIGINT NOT NULL DEFAULT 0,
    duplicates BIGINT NOT NULL DEFAULT 0,
    replays BIGINT NOT NULL DEFAULT 0,
    skipped BIGINT NOT NULL DEFAULT 0,
    unrouted BIGINT NOT NULL DEFAULT 0,
    resyncs BIGINT NOT NULL DEFAULT 0,
    lease_conflicts BIGINT NOT NULL DEFAULT 0,
    -- deadlines of programs that passed without a message
    timeouts BIGINT NOT NULL DEFAULT 0,
    UNIQUE (tenant, name),
    CHECK ((paused IS NULL) = (due_at IS NOT NULL))
);
-- Workers of the service claim the mailboxes that the service reads.
CREATE INDEX oncebox_mailboxes_due ON oncebox_mailboxes (due_at)
    WHERE due_at IS NOT NULL AND kind <> 'program';

CREATE INDEX oncebox_mailboxes_push ON oncebox_mailboxes (tenant, push_source)
    WHERE push_source IS NOT NULL;

-- The mails of a mailbox that were stored, by the server's id.
CREATE TABLE oncebox_mailbox_mails (
    mailbox_id TEXT COLLATE "C" NOT NULL,
    -- 16 bytes of the SHA-256 of the server's id
    digest BYTEA NOT NULL,
    read_at BIGINT NOT NULL,
    PRIMARY KEY (mailbox_id, digest)
);
