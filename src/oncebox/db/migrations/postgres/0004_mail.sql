-- Domains that mail is taken for.
CREATE TABLE oncebox_domains (
    -- in lower case, as A-labels
    name TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    -- the inbox for addresses that no inbox has; none: they are refused
    catch_all TEXT COLLATE "C",
    created_at BIGINT NOT NULL
);
CREATE INDEX oncebox_domains_tenant ON oncebox_domains (tenant, name);

-- Addresses. A row stays when its inbox is closed, so that no address is given out twice.
CREATE TABLE oncebox_inboxes (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    -- as it is shown, and as it is looked up
    email TEXT COLLATE "C" NOT NULL,
    address TEXT COLLATE "C" NOT NULL,
    attempt_id TEXT COLLATE "C",
    label TEXT COLLATE "C" NOT NULL DEFAULT '',
    -- the key that made it
    owner TEXT COLLATE "C",
    state TEXT COLLATE "C" NOT NULL CHECK (state IN ('active', 'draining', 'closed', 'expired')),
    -- what it becomes after draining
    next_state TEXT COLLATE "C" CHECK (next_state IN ('closed', 'expired')),
    created_at BIGINT NOT NULL,
    active_until BIGINT,
    -- when the sweeper must look at it
    due_at BIGINT,
    ended_at BIGINT,
    metadata BYTEA NOT NULL,
    policy BYTEA NOT NULL,
    -- the number of its last message: order of commit, because it moves under the row's lock
    cursor BIGINT NOT NULL DEFAULT 0,
    -- copies of messages that it has already
    duplicates BIGINT NOT NULL DEFAULT 0,
    -- messages that its policy lets through
    matched BIGINT NOT NULL DEFAULT 0,
    first_message_at BIGINT,
    last_message_at BIGINT,
    missed_at BIGINT,
    rotated_from TEXT COLLATE "C",
    rotated_to TEXT COLLATE "C"
);
-- An address leads to one inbox of the whole installation, for ever.
CREATE UNIQUE INDEX oncebox_inboxes_address ON oncebox_inboxes (address);
-- An attempt has one inbox of each label.
CREATE UNIQUE INDEX oncebox_inboxes_attempt ON oncebox_inboxes (tenant, attempt_id, label)
    WHERE attempt_id IS NOT NULL AND rotated_to IS NULL;
CREATE INDEX oncebox_inboxes_tenant ON oncebox_inboxes (tenant, id);
-- An agent's key sees what it made, and an attempt all that was made for it.
CREATE INDEX oncebox_inboxes_owner ON oncebox_inboxes (tenant, owner, id) WHERE owner IS NOT NULL;
CREATE INDEX oncebox_inboxes_of_attempt ON oncebox_inboxes (tenant, attempt_id, id)
    WHERE attempt_id IS NOT NULL;
CREATE INDEX oncebox_inboxes_due ON oncebox_inboxes (due_at) WHERE due_at IS NOT NULL;

-- Messages: mail, each once per inbox, however often it came.
CREATE TABLE oncebox_messages (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    inbox_id TEXT COLLATE "C" NOT NULL,
    -- its place in the inbox
    sequence BIGINT NOT NULL,
    -- what makes it the same message
    identity BYTEA NOT NULL,
    provider_id TEXT COLLATE "C",
    -- SHA-256 of its Message-ID, to see one that is used again
    message_mark BYTEA,
    -- the delivery that brought it first, and where its raw bytes are
    delivery_id TEXT COLLATE "C" NOT NULL,
    payload_id TEXT COLLATE "C" NOT NULL,
    -- ``parsed``, ``limited`` or ``unparsed``
    status TEXT COLLATE "C" NOT NULL,
    received_at BIGINT NOT NULL,
    size BIGINT NOT NULL,
    -- as in RCPT TO, with whatever stood behind the plus sign
    recipient TEXT COLLATE "C" NOT NULL,
    -- the address in From, if there is just one, and what is known of it
    sender TEXT COLLATE "C" NOT NULL,
    sender_domain TEXT COLLATE "C" NOT NULL,
    sender_verdict TEXT COLLATE "C" NOT NULL,
    -- 1 if the inbox's policy lets it through
    matched BIGINT NOT NULL DEFAULT 0,
    -- further deliveries of it
    duplicates BIGINT NOT NULL DEFAULT 0,
    -- JSON: codes of what a reader should know
    warnings BYTEA NOT NULL,
    -- JSON: everything that was read; empty once its time is over
    document BYTEA NOT NULL,
    purged_at BIGINT
);
CREATE UNIQUE INDEX oncebox_messages_sequence ON oncebox_messages (inbox_id, sequence);
CREATE UNIQUE INDEX oncebox_messages_identity ON oncebox_messages (inbox_id, identity);
CREATE UNIQUE INDEX oncebox_messages_provider ON oncebox_messages (inbox_id, provider_id)
    WHERE provider_id IS NOT NULL;
CREATE INDEX oncebox_messages_mark ON oncebox_messages (inbox_id, message_mark)
    WHERE message_mark IS NOT NULL;

-- Every delivery that brought a message, the first included.
CREATE TABLE oncebox_copies (
    delivery_id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    message_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    road TEXT COLLATE "C" NOT NULL,
    -- JSON: which parts differ from the first
    differs BYTEA NOT NULL
);
CREATE INDEX oncebox_copies_message ON oncebox_copies (message_id, delivery_id);

-- What the outside is told. A number is given after the commit, by one process at a time.
CREATE TABLE oncebox_events (
    id TEXT COLLATE "C" PRIMARY KEY,
    tenant TEXT COLLATE "C" NOT NULL,
    number BIGINT,
    type TEXT COLLATE "C" NOT NULL,
    inbox_id TEXT COLLATE "C",
    attempt_id TEXT COLLATE "C",
    -- what it is about: a message, an inbox, a delivery
    subject_id TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    -- JSON: typed fields only, never a sender's text
    data BYTEA NOT NULL
);
CREATE UNIQUE INDEX oncebox_events_number ON oncebox_events (tenant, number)
    WHERE number IS NOT NULL;
CREATE INDEX oncebox_events_fresh ON oncebox_events (id) WHERE number IS NULL;

-- The number of the last event of each tenant.
CREATE TABLE oncebox_streams (
    tenant TEXT COLLATE "C" PRIMARY KEY,
    last BIGINT NOT NULL
);

-- Duties that one process has at a time.
CREATE TABLE oncebox_duties (
    name TEXT COLLATE "C" PRIMARY KEY,
    holder TEXT COLLATE "C" NOT NULL,
    fence BIGINT NOT NULL,
    until BIGINT NOT NULL
);

-- Mail that is due, of all tenants.
CREATE INDEX oncebox_deliveries_mail ON oncebox_deliveries (tenant, due_at)
    WHERE source = '@mail' AND due_at IS NOT NULL
        AND state IN ('received', 'failed', 'processing');
