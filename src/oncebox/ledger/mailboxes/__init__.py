"""Mailboxes on other servers: configuration, leases, cursors, and the mails that were read."""
