-- Transports: the ways by which mail leaves, and how they do.
CREATE TABLE oncebox_transports (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- sealed
    config BLOB,
    position INTEGER NOT NULL,
    -- so many sends may begin within so many milliseconds
    rate INTEGER CHECK (rate > 0),
    rate_within INTEGER CHECK (rate_within > 0),
    -- what may begin now: each millisecond brings ``rate``, each send takes ``rate_within``
    allowance INTEGER NOT NULL DEFAULT 0,
    refilled_at INTEGER NOT NULL DEFAULT 0,
    paused INTEGER NOT NULL DEFAULT 0,
    -- failures and rests since the last success
    failures INTEGER NOT NULL DEFAULT 0,
    rests INTEGER NOT NULL DEFAULT 0,
    rests_until INTEGER,
    -- 1 while one send tries whether it works again
    probing INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
-- The first one that there is, for those who name none.
CREATE INDEX oncebox_transports_order ON oncebox_transports (tenant, position, name);

-- Sends: one intent each, however often it is asked for.
CREATE TABLE oncebox_sends (
    tenant TEXT NOT NULL,
    id TEXT NOT NULL,
    key BLOB NOT NULL,
    -- fingerprints: of what a repeat may not change, and of all that it says
    protected BLOB NOT NULL,
    content BLOB NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'claimed', 'sending', 'sent', 'failed',
        'unknown', 'suppressed', 'cancelled', 'expired', 'logged')),
    transport TEXT NOT NULL,
    message_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    -- the key that asked for it, and what it asked for
    owner TEXT,
    attempt_id TEXT,
    delivery_id TEXT,
    effect TEXT,
    on_unknown TEXT NOT NULL CHECK (on_unknown IN ('hold', 'replay', 'resend')),
    -- how it may be repeated although it is in doubt
    again TEXT CHECK (again IN ('replay', 'resend')),
    created_at INTEGER NOT NULL,
    send_at INTEGER,
    valid_until INTEGER,
    -- when it is tried next, or until when its lease holds
    due_at INTEGER,
    -- raised with every claim; no later word of an earlier one changes the state, but proof
    fence INTEGER NOT NULL DEFAULT 0,
    tries INTEGER NOT NULL DEFAULT 0,
    -- raised when it is proven that what was handed over was not taken
    epoch INTEGER NOT NULL DEFAULT 0,
    rearms INTEGER NOT NULL DEFAULT 0,
    worker TEXT,
    claimed_at INTEGER,
    marked_at INTEGER,
    -- since when a hand-over may have been taken, and how long its provider knows its key
    in_doubt_at INTEGER,
    replay_until INTEGER,
    code TEXT,
    phase TEXT,
    reply INTEGER NOT NULL DEFAULT 0,
    provider_id TEXT NOT NULL DEFAULT '',
    retention TEXT NOT NULL,
    -- milliseconds from its end on, and the moment that makes
    kept_for INTEGER NOT NULL,
    keep_until INTEGER,
    ended_at INTEGER,
    purged_at INTEGER,
    body_id TEXT NOT NULL,
    size INTEGER NOT NULL,
    -- what became of it after it was taken, how much that word counts, and when it was so
    delivery TEXT,
    delivery_strength INTEGER NOT NULL DEFAULT 0,
    delivery_at INTEGER,
    PRIMARY KEY (tenant, id),
    -- What is in doubt never counts as not sent.
    CHECK (in_doubt_at IS NULL OR state IN ('claimed', 'sending', 'unknown')),
    CHECK (state <> 'unknown' OR in_doubt_at IS NOT NULL)
) STRICT, WITHOUT ROWID;
-- A key counts once.
CREATE UNIQUE INDEX oncebox_sends_key ON oncebox_sends (tenant, key);
-- What may be claimed, oldest first.
CREATE INDEX oncebox_sends_due ON oncebox_sends (tenant, transport, due_at)
    WHERE state IN ('pending', 'unknown') AND due_at IS NOT NULL;
-- What is leased, by the end of its lease.
CREATE INDEX oncebox_sends_leased ON oncebox_sends (due_at)
    WHERE state IN ('claimed', 'sending');
-- What must be on the wire in time.
CREATE INDEX oncebox_sends_valid ON oncebox_sends (valid_until)
    WHERE state = 'pending' AND valid_until IS NOT NULL;
-- What waits to be repeated although it is in doubt.
CREATE INDEX oncebox_sends_again ON oncebox_sends (due_at)
    WHERE state = 'unknown' AND again IS NOT NULL;
CREATE INDEX oncebox_sends_doubt ON oncebox_sends (tenant, id) WHERE state = 'unknown';
-- What providers and bounces call it.
CREATE INDEX oncebox_sends_message ON oncebox_sends (tenant, message_id);
CREATE INDEX oncebox_sends_provider ON oncebox_sends (tenant, provider_id)
    WHERE provider_id <> '';
CREATE INDEX oncebox_sends_kept ON oncebox_sends (keep_until) WHERE keep_until IS NOT NULL;
CREATE INDEX oncebox_sends_purged ON oncebox_sends (ended_at) WHERE purged_at IS NOT NULL;

-- What a send says; apart, so that a change of state never rewrites it, and it can go while its
-- key stays.
CREATE TABLE oncebox_send_bodies (
    send_id TEXT NOT NULL,
    -- the id it is sealed for: that of the intent which brought it
    id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    message BLOB NOT NULL,
    envelope BLOB NOT NULL,
    PRIMARY KEY (send_id, id)
) STRICT;

-- Who a send goes to, as HMACs of addresses.
CREATE TABLE oncebox_send_recipients (
    send_id TEXT NOT NULL,
    mark BLOB NOT NULL,
    tenant TEXT NOT NULL,
    -- what was told of it that put it on the suppression list; 0: nothing
    listed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (send_id, mark)
) STRICT, WITHOUT ROWID;

-- Addresses that get no mail.
CREATE TABLE oncebox_suppressions (
    tenant TEXT NOT NULL,
    mark BLOB NOT NULL,
    -- the address, sealed, to be shown to operators
    address BLOB NOT NULL,
    reason TEXT NOT NULL CHECK (reason IN ('manual', 'hard_bounce', 'complaint', 'unsubscribe')),
    -- the send that brought it here
    send_id TEXT,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, mark)
) STRICT, WITHOUT ROWID;

-- Every try at a send, and how far it came.
CREATE TABLE oncebox_send_tries (
    send_id TEXT NOT NULL,
    fence INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    transport TEXT NOT NULL,
    worker TEXT,
    claimed_at INTEGER,
    marked_at INTEGER,
    ended_at INTEGER NOT NULL,
    outcome TEXT NOT NULL,
    code TEXT,
    phase TEXT,
    reply INTEGER NOT NULL,
    provider_id TEXT NOT NULL,
    PRIMARY KEY (send_id, fence)
) STRICT, WITHOUT ROWID;

-- Batches: many sends that are asked for together; a repeat is the same batch.
CREATE TABLE oncebox_batches (
    id TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    key BLOB NOT NULL,
    -- fingerprint of the keys of its sends, in their order
    members BLOB NOT NULL,
    owner TEXT,
    size INTEGER NOT NULL,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX oncebox_batches_key ON oncebox_batches (tenant, key);
CREATE INDEX oncebox_batches_created ON oncebox_batches (created_at);
CREATE TABLE oncebox_batch_sends (
    batch_id TEXT NOT NULL,
    place INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    send_id TEXT NOT NULL,
    PRIMARY KEY (batch_id, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_batch_sends_send ON oncebox_batch_sends (send_id);

-- Guards: who was meant to get what a short while ago, and how much was asked for in this hour.
CREATE TABLE oncebox_send_guards (
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('cool_down', 'key', 'recipient')),
    -- the mark of a recipient, and with a cool-down the event type; or the key that asks
    name BLOB NOT NULL,
    -- the end of the cool-down, or of the hour
    until INTEGER NOT NULL,
    -- what was taken of the budget in this hour
    used INTEGER NOT NULL,
    -- the send that has begun the cool-down
    holder TEXT,
    PRIMARY KEY (tenant, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX oncebox_send_guards_over ON oncebox_send_guards (until);

-- Sources that a program has handlers for, so that no other process settles their deliveries.
CREATE TABLE oncebox_handled (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    seen_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, source)
) STRICT, WITHOUT ROWID;
