"""Mailboxes on other servers."""
