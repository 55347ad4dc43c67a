"""Inboxes: addresses and domains, incoming mail, messages, long polls."""
