"""Webhooks under torture: storms of copies, slow clients, and servers killed under load."""
