-- name: inboxes
-- bulk: address text, domain text
-- The inboxes of addresses, if their domain still has the same tenant.
SELECT address, inbox.id, inbox.tenant, inbox.state, inbox.active_until, inbox.due_at,
    inbox.stored_bytes,
    (SELECT stored_bytes FROM oncebox_quotas AS quota WHERE quota.tenant = inbox.tenant),
    (SELECT quota_bytes FROM oncebox_quotas AS quota WHERE quota.tenant = inbox.tenant)
FROM oncebox_inboxes AS inbox JOIN oncebox_domains AS domain ON domain.tenant = inbox.tenant
/* and rows */
WHERE inbox.address = :address AND domain.name = :domain;

-- name: domains
-- bulk: name text
-- Domains and their catch-all inboxes.
SELECT domain.name, inbox.id, domain.tenant, inbox.state, inbox.active_until, inbox.due_at,
    inbox.stored_bytes,
    (SELECT stored_bytes FROM oncebox_quotas AS quota WHERE quota.tenant = domain.tenant),
    (SELECT quota_bytes FROM oncebox_quotas AS quota WHERE quota.tenant = domain.tenant)
FROM oncebox_domains AS domain
LEFT JOIN oncebox_inboxes AS inbox
    ON inbox.id = domain.catch_all AND inbox.tenant = domain.tenant
/* and rows */
WHERE domain.name = :name;
