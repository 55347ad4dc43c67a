"""Mailboxes, on both databases."""
