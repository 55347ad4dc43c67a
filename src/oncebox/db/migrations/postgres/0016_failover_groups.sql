-- Failover moves a send only within the group of its transport; without a group it stays.
ALTER TABLE oncebox_transports ADD COLUMN failover_group TEXT COLLATE "C" NOT NULL DEFAULT '';

-- The domains whose mail a transport signs with a DKIM key of its own, and that of their subdomains.
CREATE TABLE oncebox_signing_domains (
    tenant TEXT COLLATE "C" NOT NULL,
    transport TEXT COLLATE "C" NOT NULL,
    domain TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, transport, domain)
);

-- The caller named the transport, so that the send stays there. Of older sends nobody knows.
ALTER TABLE oncebox_sends ADD COLUMN pinned BIGINT NOT NULL DEFAULT 1;
-- Its first transport signs it, so it never leaves unsigned.
ALTER TABLE oncebox_sends ADD COLUMN must_sign BIGINT NOT NULL DEFAULT 0;
