-- Transports: the ways by which mail leaves, and how they do.
CREATE TABLE oncebox_transports (
    tenant TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    -- sealed
    config BYTEA,
    position BIGINT NOT NULL,
    -- so many sends may begin within so many milliseconds
    rate BIGINT CHECK (rate > 0),
    rate_within BIGINT CHECK (rate_within > 0),
    -- what may begin now: each millisecond brings ``rate``, each send takes ``rate_within``
    allowance BIGINT NOT NULL DEFAULT 0,
    refilled_at BIGINT NOT NULL DEFAULT 0,
    paused BIGINT NOT NULL DEFAULT 0,
    -- failures and rests since the last success
    failures BIGINT NOT NULL DEFAULT 0,
    rests BIGINT NOT NULL DEFAULT 0,
    rests_until BIGINT,
    -- 1 while one send tries whether it works again
    probing BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, name)
);
-- The first one that there is, for those who name none.
CREATE INDEX oncebox_transports_order ON oncebox_transports (tenant, position, name);

-- Sends: one intent each, however often it is asked for.
CREATE TABLE oncebox_sends (
    tenant TEXT COLLATE "C" NOT NULL,
    id TEXT COLLATE "C" NOT NULL,
    key BYTEA NOT NULL,
    -- fingerprints: of what a repeat may not change, and of all that it says
    protected BYTEA NOT NULL,
    content BYTEA NOT NULL,
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('pending', 'claimed', 'sending', 'sent', 'failed',
        'unknown', 'suppressed', 'cancelled', 'expired', 'logged')),
    transport TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    event_type TEXT COLLATE "C" NOT NULL,
    entity_id TEXT COLLATE "C" NOT NULL,
    -- the key that asked for it, and what it asked for
    owner TEXT COLLATE "C",
    attempt_id TEXT COLLATE "C",
    delivery_id TEXT COLLATE "C",
    effect TEXT COLLATE "C",
    on_unknown TEXT COLLATE "C" NOT NULL CHECK (on_unknown IN ('hold', 'replay', 'resend')),
    -- how it may be repeated although it is in doubt
    again TEXT COLLATE "C" CHECK (again IN ('replay', 'resend')),
    created_at BIGINT NOT NULL,
    send_at BIGINT,
    valid_until BIGINT,
    -- when it is tried next, or until when its lease holds
    due_at BIGINT,
    -- raised with every claim; no later word of an earlier one changes the state, but proof
    fence BIGINT NOT NULL DEFAULT 0,
    tries BIGINT NOT NULL DEFAULT 0,
    -- raised when it is proven that what was handed over was not taken
    epoch BIGINT NOT NULL DEFAULT 0,
    rearms BIGINT NOT NULL DEFAULT 0,
    worker TEXT COLLATE "C",
    claimed_at BIGINT,
    marked_at BIGINT,
    -- since when a hand-over may have been taken, and how long its provider knows its key
    in_doubt_at BIGINT,
    replay_until BIGINT,
    code TEXT COLLATE "C",
    phase TEXT COLLATE "C",
    reply BIGINT NOT NULL DEFAULT 0,
    provider_id TEXT COLLATE "C" NOT NULL DEFAULT '',
    retention TEXT COLLATE "C" NOT NULL,
    -- milliseconds from its end on, and the moment that makes
    kept_for BIGINT NOT NULL,
    keep_until BIGINT,
    ended_at BIGINT,
    purged_at BIGINT,
    body_id TEXT COLLATE "C" NOT NULL,
    size BIGINT NOT NULL,
    -- what became of it after it was taken, how much that word counts, and when it was so
    delivery TEXT,
    delivery_strength BIGINT NOT NULL DEFAULT 0,
    delivery_at BIGINT,
    PRIMARY KEY (tenant, id),
    -- What is in doubt never counts as not sent.
    CHECK (in_doubt_at IS NULL OR state IN ('claimed', 'sending', 'unknown')),
    CHECK (state <> 'unknown' OR in_doubt_at IS NOT NULL)
);
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
    send_id TEXT COLLATE "C" NOT NULL,
    -- the id it is sealed for: that of the intent which brought it
    id TEXT COLLATE "C" NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    message BYTEA NOT NULL,
    envelope BYTEA NOT NULL,
    PRIMARY KEY (send_id, id)
)
-- A usual mail stays in its row. What is sealed cannot be made smaller, so nobody tries.
WITH (toast_tuple_target = 8160);
ALTER TABLE oncebox_send_bodies ALTER COLUMN message SET STORAGE EXTERNAL;
ALTER TABLE oncebox_send_bodies ALTER COLUMN envelope SET STORAGE EXTERNAL;

-- Who a send goes to, as HMACs of addresses.
CREATE TABLE oncebox_send_recipients (
    send_id TEXT COLLATE "C" NOT NULL,
    mark BYTEA NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    -- what was told of it that put it on the suppression list; 0: nothing
    listed BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (send_id, mark)
);

-- Addresses that get no mail.
CREATE TABLE oncebox_suppressions (
    tenant TEXT COLLATE "C" NOT NULL,
    mark BYTEA NOT NULL,
    -- the address, sealed, to be shown to operators
    address BYTEA NOT NULL,
    reason TEXT COLLATE "C" NOT NULL CHECK (reason IN ('manual', 'hard_bounce', 'complaint', 'unsubscribe')),
    -- the send that brought it here
    send_id TEXT COLLATE "C",
    created_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, mark)
);

-- Every try at a send, and how far it came.
CREATE TABLE oncebox_send_tries (
    send_id TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    transport TEXT COLLATE "C" NOT NULL,
    worker TEXT COLLATE "C",
    claimed_at BIGINT,
    marked_at BIGINT,
    ended_at BIGINT NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    code TEXT COLLATE "C",
    phase TEXT COLLATE "C",
    reply BIGINT NOT NULL,
    provider_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (send_id, fence)
);

-- Batches: many sends that are asked for together; a repeat is the same batch.
CREATE TABLE oncebox_batches (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    key BYTEA NOT NULL,
    -- fingerprint of the keys of its sends, in their order
    members BYTEA NOT NULL,
    owner TEXT COLLATE "C",
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX oncebox_batches_key ON oncebox_batches (tenant, key);
CREATE INDEX oncebox_batches_created ON oncebox_batches (created_at);
CREATE TABLE oncebox_batch_sends (
    batch_id TEXT COLLATE "C" NOT NULL,
    place BIGINT NOT NULL,
    tenant TEXT COLLATE "C" NOT NULL,
    send_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (batch_id, place)
);
CREATE INDEX oncebox_batch_sends_send ON oncebox_batch_sends (send_id);

-- Guards: who was meant to get what a short while ago, and how much was asked for in this hour.
CREATE TABLE oncebox_send_guards (
    tenant TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL CHECK (kind IN ('cool_down', 'key', 'recipient')),
    -- the mark of a recipient, and with a cool-down the event type; or the key that asks
    name BYTEA NOT NULL,
    -- the end of the cool-down, or of the hour
    until BIGINT NOT NULL,
    -- what was taken of the budget in this hour
    used BIGINT NOT NULL,
    -- the send that has begun the cool-down
    holder TEXT COLLATE "C",
    PRIMARY KEY (tenant, kind, name)
);
CREATE INDEX oncebox_send_guards_over ON oncebox_send_guards (until);

-- Sources that a program has handlers for, so that no other process settles their deliveries.
CREATE TABLE oncebox_handled (
    tenant TEXT NOT NULL,
    source TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (tenant, source)
);
