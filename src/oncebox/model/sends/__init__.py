"""Sends: outgoing mail, idempotent intents, transports and their outcomes."""
